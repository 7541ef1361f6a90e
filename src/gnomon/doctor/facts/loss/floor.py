"""How far a loss can fall at all: a smoothed or soft target costs its own entropy at the least.

A cross-entropy with the target distribution q and the weight w has the gradient w · (softmax - q)
on the logits. Two runs of the loss with other logits give w, then q, whatever the targets are. One
whose gradients are of another form (softmax applied twice, a squared error) is given no floor.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from gnomon.doctor.call import Call
from gnomon.doctor.facts.loss.exchange import Answered, answered
from gnomon.doctor.finding import Skip

if TYPE_CHECKING:
    from gnomon.doctor.case import Case

_NOISE = 0.01  # of an even share: what rounding leaves of a target's zeros


class Bounds(NamedTuple):
    """Values of a loss on one batch.

    Attributes:
        floor: where the model gives exactly what is asked; 0 where that is not known.
        guess: where it gives every answer the same chance; ∞ where that is not known.
    """

    floor: float
    guess: float


def bounds(case: Case, call: Call) -> Bounds:
    """Between which values learning `call` moves the loss."""
    try:
        one, two = (answered(case, call, draw=draw) for draw in (0, 1))
    except Skip:
        return Bounds(0.0, math.inf)
    return _between(one, two) or Bounds(0.0, math.inf)


def _between(one: Answered, two: Answered) -> Bounds | None:
    first, second = one.gradient.double(), two.gradient.double()
    logs = one.logits.double().log_softmax(-1)
    moved = logs.exp() - two.logits.double().softmax(-1)
    weight = ((first - second) * moved).sum(-1) / moved.square().sum(-1)
    size = torch.maximum(first.abs(), second.abs()).amax(-1)
    counted = size > 1e-4 * size.max()
    apart = (first - second - weight[..., None] * moved).abs().amax(-1)
    if not bool(counted.any()) or bool((apart > 0.02 * size)[counted].double().mean() > 0.05):
        return None
    weight, logs = weight[counted], logs[counted]
    asked = _shares(logs.exp() - first[counted] / weight[:, None])
    entropy = float((weight * -torch.xlogy(asked, asked).sum(-1)).sum())
    # What the loss lacks to a cross-entropy: a divergence is without the entropy. What it has more
    # than that is no excuse.
    lacks = min(0.0, one.loss - float((weight * -(asked * logs).sum(-1)).sum()))
    guess = float(weight.sum()) * math.log(logs.size(-1))
    return Bounds(max(0.0, entropy + lacks), guess + lacks)


def _shares(asked: Tensor) -> Tensor:
    asked = asked.masked_fill(asked < _NOISE / asked.size(-1), 0.0)
    return asked / asked.sum(-1, keepdim=True).clamp_min(_NOISE)

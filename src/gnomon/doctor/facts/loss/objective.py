"""What a loss asks for, read off its gradient on the logits.

For a cross-entropy with label l, smoothing α and weight w, the gradient on the logit of v is
w · (softmax_v - (1 - α)[v = l] - α/V). So one backward pass from the loss to logits of our own
choosing tells, for every position, whether it counts, how much, and which token it is to predict,
without knowing how the user wrote the loss.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gnomon.doctor.call import Call
from gnomon.doctor.facts.loss.exchange import answered
from gnomon.doctor.finding import Skip
from gnomon.doctor.run import Run

if TYPE_CHECKING:
    from gnomon.doctor.case import Case


@dataclass(frozen=True)
class Objective:
    """What the loss asks of each position of the text that the output runs along, `[B, T]`.

    Attributes:
        call: the batch it was read from; `text` are its ids, `keep` its real tokens.
        weight: how much the position counts (the sum is 1 for a mean over positions).
        target: the token asked for.
        mass: the target's share of what is asked for: 1 - α with smoothing; about 1 / V where
            only smoothing reaches the position.
    """

    call: Call
    text: Tensor
    keep: Tensor
    weight: Tensor
    target: Tensor
    mass: Tensor
    vocab_size: int

    @property
    def counts(self) -> Tensor:
        """Bool `[B, T]`: positions that the loss depends on."""
        return self.weight > 1e-4 * self.weight.max()


def read_objective(case: Case, call: Call, seed: int = 0) -> Objective:
    """Run the loss on `call` with logits of our choosing.

    Args:
        seed: of the generators while the loss is computed, which may draw from them.

    Raises:
        Skip: there is no loss, it does not take the logits from the model's output, or it is no
            cross-entropy.
    """
    if case.patient.loss is None:
        call = case.labelled(call)
    size = case.run(call).tokens.size(-1)
    if size < 3:
        raise Skip(f"the output has {size} values at a position: no logits of tokens")
    logits, gradient, _ = answered(case, call, seed)
    gradient = Run(call, gradient, {"logits": gradient}).tokens.double()
    values = Run(call, logits, {"logits": logits}).tokens.double()
    return _solved(case, call, gradient, values.softmax(-1))


def _solved(case: Case, call: Call, gradient: Tensor, p: Tensor) -> Objective:
    """Weight, label and smoothing of every position from its gradient."""
    label = gradient.argmin(-1)
    pad_id = call.streams[call.read].pad_id
    others = torch.ones_like(p, dtype=torch.bool).scatter_(-1, label[..., None], False)
    if pad_id is not None and pad_id < p.size(-1):
        others[..., pad_id] = False  # some smooth over all tokens but padding
    n = others.sum(-1)
    mean_p = (p * others).sum(-1) / n
    mean_g = (gradient * others).sum(-1) / n
    off = (p - mean_p[..., None]) * others
    weight = (off * gradient).sum(-1) / off.square().sum(-1)
    residual = (gradient - mean_g[..., None] - weight[..., None] * (p - mean_p[..., None])) * others
    size = gradient.abs().amax(-1)
    counted = size > 1e-4 * size.max()
    if not bool(counted.any()):
        raise Skip("the loss does not depend on the model's output")
    if bool((residual.abs().amax(-1) > 0.02 * size)[counted].float().mean() > 0.05):
        raise Skip("the loss is no cross-entropy of the model's output")
    asked = p - gradient / weight.clamp_min(1e-300)[..., None]
    return Objective(
        call=call,
        text=call.text(call.read),
        keep=call.keep(call.read),
        weight=weight.masked_fill(~counted, 0.0),
        target=label,
        mass=asked.gather(-1, label[..., None])[..., 0],
        vocab_size=p.size(-1),
    )

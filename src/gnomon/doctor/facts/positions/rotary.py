"""What rotary positions do in a model, seen on a text of one token."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gnomon.doctor.call import StreamName
from gnomon.doctor.case import Case
from gnomon.doctor.facts.positions.constant import (
    constant_run,
    constants,
    relative_shift,
    text_of_one_token,
)
from gnomon.doctor.finding import NotApplicable, Skip
from gnomon.doctor.remembering import remembered
from gnomon.doctor.run import Run
from gnomon.probe import AttentionCall

LONG = 320  # tokens: bf16 cannot count past 256


@dataclass(frozen=True)
class Rotary:
    """The rotary self-attention on one text.

    Attributes:
        stream: the text.
        short: how far q_m · k_n depends on more than m − n over the first positions, at most, in
            units of the scores' spread.
        shift: the same by position up to the longest that ran, `[T]`, the worst of all calls.
        worst: the call where it is worst.
    """

    stream: StreamName
    short: float
    shift: Tensor
    worst: AttentionCall


@remembered
def rotary(case: Case, stream: StreamName) -> Rotary:
    """Look at the self-attention of a text in which positions turn queries and keys.

    Raises:
        Skip: none do (positions are added, or are a bias on the scores, or there are none).
    """
    turned(constant_run(case, stream), stream)
    run = _long_run(case, stream)
    calls = turned(run, stream)
    shifts = [(each, relative_shift(each)) for each in calls]
    seen = [(each, shift) for each, shift in shifts if shift is not None]
    if not seen:
        raise Skip("queries and keys were not seen")
    worst = max(seen, key=lambda pair: float(pair[1].max()))[0]
    shift = torch.stack([each for _, each in seen]).amax(0)
    return Rotary(stream, float(shift[:12].max()), shift, worst)


def turned(run: Run, stream: StreamName) -> list[AttentionCall]:
    """The self-attention calls whose queries or keys are turned by position.

    Raises:
        Skip: there are none.
    """
    found = constants(run, stream)
    if not found:
        raise Skip("no self-attention was seen")
    if any(each.values > 1e-4 for each in found):
        raise NotApplicable("positions are added to the token vectors, not rotated")
    calls = [each.attention for each in found if _moves(each.attention)]
    if not calls:
        raise NotApplicable("queries and keys do not depend on the position: no rotary positions")
    return calls


def _moves(attention: AttentionCall) -> bool:
    for each in (attention.query, attention.key):
        if each is not None:
            each = each.float()
            if float((each - each[:, :, :1]).abs().max()) > 1e-4 * float(each.abs().max()):
                return True
    return False


def _long_run(case: Case, stream: StreamName) -> Run:
    for length in (LONG, 96, 48):
        try:
            return case.observed(text_of_one_token(case, stream, length))
        except Exception:  # too long for this model
            continue
    return constant_run(case, stream)


def pairing(attention: AttentionCall) -> str | None:
    """Which features of a query turn together: "halves", "neighbours", or neither: None.

    On a text of one token, the sum of squares of a pair that turns is the same at all positions.
    """
    query = attention.query
    if query is None:
        return None
    square = query.float().square()
    width = square.size(-1)
    moving = (query.float() - query.float()[:, :, :1]).abs().amax((0, 1, 2)) > 1e-4 * float(
        query.abs().max()
    )
    turned_width = int(moving.nonzero().max()) + 1 if bool(moving.any()) else 0
    if turned_width < 4 or turned_width % 2:
        turned_width += turned_width % 2
    if turned_width < 4 or turned_width > width:
        return None
    square = square[..., :turned_width]
    half = turned_width // 2
    pairs = {
        "halves": square[..., :half] + square[..., half:],
        "neighbours": square[..., 0::2] + square[..., 1::2],
    }
    size = float(square.mean()) or 1.0
    off = {name: float((p - p[:, :, :1]).abs().max()) / size for name, p in pairs.items()}
    best = min(off, key=lambda name: off[name])
    return best if off[best] < 0.02 and off[best] < 0.2 * max(off.values()) else None

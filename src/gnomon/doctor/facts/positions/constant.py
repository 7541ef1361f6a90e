"""One token over and over: then only positions can make one place differ from another."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gnomon.doctor.call import Call, StreamName
from gnomon.doctor.case import Case
from gnomon.doctor.facts.attention.sides import sides
from gnomon.doctor.finding import NotApplicable, Skip
from gnomon.doctor.remembering import remembered
from gnomon.doctor.run import Run
from gnomon.probe import AttentionCall


@dataclass(frozen=True)
class Constant:
    """What one self-attention call makes of a text of one token over and over.

    Attributes:
        values: how far the values move along the text, in units of their size: positions that were
            added to the token vectors.
        scores: how far the scores (bias included) move over the keys a query may see, in units of
            their size: positions within attention.
    """

    attention: AttentionCall
    values: float
    scores: float | None


def text_of_one_token(case: Case, stream: StreamName, length: int | None = None) -> Call:
    """`case.small`'s longest row without its padding, all its tokens the same.

    Raises:
        Skip: the text is vectors, or shorter than four tokens.
    """
    call = case.small
    if call.text(stream).is_floating_point():
        raise NotApplicable("the model reads vectors: whoever makes them adds the positions")
    keep = call.keep(stream)
    row = int(keep.sum(1).argmax())
    real = keep[row].nonzero().flatten().tolist()
    call = call.rows([row]).cut(stream, real[0], real[-1] + 1)
    if length is not None:
        call = call.longer(stream, length)
    call = call.one_document(stream)
    text = call.text(stream)
    if text.size(1) < 4:
        raise Skip("its texts are shorter than four tokens")
    token = call.streams[stream].tokens((1,), torch.Generator().manual_seed(3)).to(text)
    return call.with_text(stream, token.expand(text.shape).contiguous())


@remembered
def constant_run(case: Case, stream: StreamName) -> Run:
    """The model on a text of one token, observed."""
    return case.observed(text_of_one_token(case, stream))


def self_attention(run: Run, stream: StreamName) -> list[AttentionCall]:
    """The self-attention calls on a text, in order."""
    length = run.call.length(stream)
    return [
        each
        for each in run.record.attention
        if not each.is_cross
        and each.weights is not None
        and each.weights.shape[-2:] == (length, length)
        and sides(run.record, run.call, each).queries in (stream, None)
    ]


def constants(run: Run, stream: StreamName) -> list[Constant]:
    """Of every self-attention call on the text."""
    return [Constant(each, _values(each), _scores(each)) for each in self_attention(run, stream)]


def _values(attention: AttentionCall) -> float:
    value = attention.value
    if value is None:
        return 0.0
    value = value.float()
    off = (value - value[:, :, :1]).abs().max()
    return float(off / value.abs().max().clamp_min(1e-30))


def _scores(attention: AttentionCall) -> float | None:
    scores = attention.scores
    if scores is None:
        return None
    scores = scores.float()
    seen = scores > -1e4
    if attention.keep is not None:
        seen = seen & attention.keep.expand(scores.shape)
    high = scores.masked_fill(~seen, -torch.inf).amax((-1, -2))
    low = scores.masked_fill(~seen, torch.inf).amin((-1, -2))
    size = scores.masked_fill(~seen, 0.0).abs().amax()
    return float((high - low).max() / size.clamp_min(1e-30))


def relative_shift(attention: AttentionCall, nearest: int = 8) -> Tensor | None:
    """How far q_m · k_n of a text of one token depends on more than m − n: `[T]`, by m.

    Rotary positions hold to `q_m · k_n = f(m − n)`. For each query, the largest distance over its
    `nearest` keys at either side from the mean of all with the same m − n, in units of the scores'
    spread. None: queries and keys were not seen, or the scores do not move at all.
    """
    scores = attention.raw_scores
    if scores is None:
        return None
    scores = scores.double()
    length = scores.size(-1)
    spread = scores.std((-1, -2), correction=0, keepdim=True)
    size = scores.abs().amax((-1, -2), keepdim=True)
    moving = (spread > 1e-5 * size)[..., 0, 0]
    if not bool(moving.any()):
        return None
    worst = torch.zeros(length, dtype=torch.float64, device=scores.device)
    for lag in range(-nearest, nearest + 1):
        diagonal = scores.diagonal(-lag, -2, -1)
        if diagonal.size(-1) < 2:
            continue
        off = (diagonal - diagonal[..., :1]).abs() / spread[..., 0]
        off = off.masked_fill(~moving[..., None], 0.0).amax((0, 1))
        start = max(lag, 0)
        worst[start : start + off.numel()] = torch.maximum(worst[start : start + off.numel()], off)
    return worst

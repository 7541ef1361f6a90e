"""What each attention head does, in numbers: for the checks of scores and for the report."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gnomon.doctor.case import Case
from gnomon.doctor.facts.attention.joined import together
from gnomon.doctor.facts.attention.sides import sides
from gnomon.doctor.remembering import remembered
from gnomon.probe import AttentionCall, Record

# A weight above this is nearly 1: hardly any gradient comes back through softmax.
ONE_HOT = 0.99
_FEWEST_KEYS = 4  # of rows that entropy is measured on: with two keys little is to be told


@dataclass(frozen=True)
class Heads:
    """One attention call, or several of one head each (see `joined`), head by head.

    All tensors are `[H]`, measured on real tokens.

    Attributes:
        module: dotted name of the module that made the call.
        entropy: of the weights, as a share of the largest possible (ln of the keys it may see).
        sink: the share of the weights that goes to the one key which gets most in each text.
        entropy_beside_sink: the same entropy with that key left out and the rest made 1 again.
        one_hot: the share of queries that, the sink left out, give more than 0.99 to one key.
        score_std: spread of a query's scores over the keys that it may see, before softmax.
        slope: mean of w (1 - w) over the largest weights w of the queries: what part of a
            gradient passes through softmax. At most 0.25.
        padding: the share of the weights that goes to padding.
        context: root mean square of what the head gives, relative to all heads of the call.
        queries: how many queries all this was measured on.
    """

    call: AttentionCall
    module: str
    is_cross: bool
    entropy: Tensor
    sink: Tensor
    entropy_beside_sink: Tensor
    one_hot: Tensor
    score_std: Tensor
    slope: Tensor
    padding: Tensor
    context: Tensor
    queries: int

    def name(self, head: int) -> str:
        """A head as findings name it."""
        return f"head {head} of {self.module or 'the module'}"


@remembered
def heads(case: Case) -> tuple[Heads, ...]:
    """Of every attention call on `case.small` whose weights were seen, in order."""
    return measured(case.record, case)


def measured(record: Record, case: Case) -> tuple[Heads, ...]:
    """Of every attention call of a record made on `case.small`."""
    found = []
    for attention in together(record):
        if attention.weights is not None:
            found.append(_of_call(record, case, attention))
    return tuple(found)


def _of_call(record: Record, case: Case, attention: AttentionCall) -> Heads:
    weights = attention.weights
    assert weights is not None
    weights = weights.float()
    side = sides(record, case.small, attention)
    allowed = _allowed(attention) & side.real_keys[:, None, None, :]
    count = allowed.sum(-1)
    rows = side.real_queries[:, None, :].expand(count.shape) & (count >= _FEWEST_KEYS)
    rows = rows.expand(weights.shape[:3])
    sink_key = _sink(weights, rows, side.real_keys)
    at_sink = (
        torch.zeros_like(weights)
        .scatter_(-1, sink_key[..., None, None].expand(*weights.shape[:3], 1), 1.0)
        .bool()
    )
    rest = _without(attention, allowed, at_sink)
    largest = weights.max(-1).values
    return Heads(
        call=attention,
        module=attention.module,
        is_cross=attention.is_cross,
        entropy=_mean(_entropy(weights) / count.clamp_min(2).log(), rows),
        sink=_mean(weights.masked_fill(~at_sink, 0.0).sum(-1), rows),
        entropy_beside_sink=_mean(_entropy(rest) / (count - 1).clamp_min(2).log(), rows),
        one_hot=_mean((rest.max(-1).values > ONE_HOT).float(), rows),
        score_std=_score_std(attention, allowed, rows),
        slope=_mean(largest * (1 - largest), rows),
        padding=_mean(weights.masked_fill(side.real_keys[:, None, None, :], 0.0).sum(-1), rows),
        context=_context(attention, rows),
        queries=int(rows[:, 0].sum()),
    )


def _allowed(attention: AttentionCall) -> Tensor:
    """bool `[B, H, T, S]`."""
    weights = attention.weights
    assert weights is not None
    if attention.keep is None:
        return torch.ones_like(weights, dtype=torch.bool)
    return attention.keep.expand(weights.shape)


def _sink(weights: Tensor, rows: Tensor, real_keys: Tensor) -> Tensor:
    """`[B, H]`: the key that gets most of the weights of a text's real queries.

    Normal in trained models, mostly the first token or a delimiter. It must get its weight from
    at least half of the queries, else it is nobody's sink and the first real key stands for it.
    """
    drawn = (weights * rows[..., None]).sum(-2)
    share = drawn / rows.sum(-1).clamp_min(1)[..., None]
    first = real_keys.int().argmax(-1)[:, None].expand(share.shape[:2])
    best = share.max(-1)
    return torch.where(best.values > 0.5, best.indices, first)


def _without(attention: AttentionCall, allowed: Tensor, at_sink: Tensor) -> Tensor:
    """The weights without the sink, however little it leaves to the other keys."""
    weights = attention.weights
    assert weights is not None
    scores = attention.scores
    if scores is None:
        scores = weights.float().clamp_min(1e-30).log()
    return scores.float().masked_fill(~allowed | at_sink, -torch.inf).softmax(-1).nan_to_num(0.0)


def _entropy(weights: Tensor) -> Tensor:
    """In nats, `[B, H, T]`."""
    entropy: Tensor = -torch.special.xlogy(weights, weights).sum(-1)
    return entropy


def _mean(values: Tensor, rows: Tensor) -> Tensor:
    """Over the queries that count, `[H]`; NaN without any."""
    total = values.masked_fill(~rows, 0.0).sum((0, 2))
    return total / rows.sum((0, 2)).float()


def _score_std(attention: AttentionCall, allowed: Tensor, rows: Tensor) -> Tensor:
    scores = attention.scores
    if scores is None:
        return torch.full((allowed.size(1),), torch.nan, device=allowed.device)
    scores = scores.float().masked_fill(~allowed, 0.0)
    count = allowed.sum(-1).clamp_min(1)
    mean = scores.sum(-1) / count
    off = (scores - mean[..., None]).masked_fill(~allowed, 0.0)
    return _mean((off.square().sum(-1) / count).sqrt(), rows)


def _context(attention: AttentionCall, rows: Tensor) -> Tensor:
    output = attention.output
    if output is None and attention.value is not None and attention.weights is not None:
        output = attention.weights.to(attention.value.dtype) @ attention.value
    if output is None:
        return torch.full((rows.size(1),), torch.nan, device=rows.device)
    size = _mean(output.float().square().mean(-1), rows).sqrt()
    together = size.square().mean().sqrt()
    return size / together if float(together) > 0 else size


def alike(attention: AttentionCall) -> Tensor | None:
    """`[H, H]` correlation of the heads' scores q · k; None: not seen.

    Each query's and each key's mean is taken off, and with it what biases add: heads with the same
    weights stand at 1. Heads whose scores are constant stand at 0.
    """
    scores = attention.raw_scores
    if scores is None:
        return None
    scores = scores - scores.mean(-1, keepdim=True)
    scores = scores - scores.mean(-2, keepdim=True)
    flat = scores.float().transpose(0, 1).flatten(1)
    size = flat.norm(dim=-1, keepdim=True)
    flat = torch.where(size > 1e-6 * flat.size(1) ** 0.5, flat / size.clamp_min(1e-30), 0.0)
    return flat @ flat.T

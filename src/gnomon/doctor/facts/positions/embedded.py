"""What enters the first layer: token vectors times a factor, plus what depends on the place."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gnomon.doctor.call import StreamName
from gnomon.doctor.case import Case
from gnomon.doctor.facts.beside.stock import on_stock, stock_run
from gnomon.doctor.finding import NotApplicable, Skip
from gnomon.doctor.remembering import remembered
from gnomon.doctor.run import Run
from gnomon.probe import EmbeddingCall, Record

_OFFSETS = 8  # how far from row 0 the first position is looked for


@dataclass(frozen=True)
class Site:
    """A place where the sum of the embeddings is seen, the same in every run of the model.

    Attributes:
        kind: "given" or "output" of a module, or the input of a "norm".
        number: which of the module's calls and which of its tensors; or which norm call.
    """

    kind: str
    module: str
    number: tuple[int, int]

    def tensor(self, record: Record) -> Tensor:
        """What was there in a run, `[B, T, D]` or `[T, B, D]`.

        Raises:
            Skip: this run has no such place.
        """
        call, place = self.number
        try:
            if self.kind == "norm":
                return record.norms[call].input
            seen = record.modules[self.module][call]
            return (seen.given if self.kind == "given" else seen.tensors)[place]
        except (KeyError, IndexError):
            raise Skip("the sum of the embeddings is not seen in every run") from None


@dataclass(frozen=True)
class Embedded:
    """The sum of the embeddings of one text: `factor · tokens + rest`.

    Attributes:
        lookup: of the text's ids in the token table.
        tokens: `[B, T, D]`, the rows as they stand in the table.
        factor: what they are multiplied with, as measured.
        rest: `[B, T, D]`, what is added: positions, segments.
        site: where the sum is seen.
        row: a row without padding, or with the least.
    """

    lookup: EmbeddingCall
    tokens: Tensor
    factor: float
    rest: Tensor
    site: Site
    row: int

    @property
    def width(self) -> int:
        """D."""
        return self.tokens.size(-1)

    def positions(self) -> Tensor:
        """`[T, D]`: what is added at each position, without what is the same at all of them."""
        rest = self.rest[self.row]
        return rest - rest.mean(0, keepdim=True)

    def has_positions(self) -> bool:
        """Whether something that depends on the place is added."""
        spread = float(self.positions().abs().max())
        return spread > 1e-4 * max(float((self.factor * self.tokens).abs().max()), 1e-12)


@remembered
def embedded(case: Case, stream: StreamName) -> Embedded:
    """The sum of the embeddings of a text of `case.small`.

    Raises:
        Skip: the text is vectors, or the sum is nowhere seen.
    """
    call = case.small
    if call.text(stream).is_floating_point():
        raise NotApplicable("the model reads vectors: whoever makes them adds the positions")
    where = torch.ones(call.text(stream).shape, dtype=torch.bool)
    where &= call.keep(stream).cpu()
    other = case.observed(call.perturbed(stream, where, seed=5))
    return sum_of(case.seen, other, stream)


@remembered
def stock_embedded(case: Case, stream: StreamName) -> Embedded:
    """As `embedded`, of the stock model of the same configuration."""
    where = case.small.keep(stream).cpu()
    other = on_stock(case, case.small.perturbed(stream, where, seed=5))
    return sum_of(stock_run(case), other, stream)


def sum_of(run: Run, other: Run, stream: StreamName) -> Embedded:
    """As `embedded`, from two observed runs of one model that differ in the text's tokens."""
    lookup, moved = _lookup(run, stream), _lookup(other, stream)
    tokens, change = lookup.output.float(), moved.output.float() - lookup.output.float()
    if not bool(change.abs().max() > 0):
        raise Skip("other tokens have the same vectors")
    best: Embedded | None = None
    row = int(run.call.keep(stream).sum(1).argmax())
    for site, tensor in _places(run.record, tokens.shape):
        try:
            difference = _rows_first(site.tensor(other.record), tokens.shape)
        except Skip:
            continue
        if difference is None:
            continue
        difference = difference - tensor
        factor = float((difference * change).sum() / change.square().sum())
        off = float((difference - factor * change).norm() / difference.norm().clamp_min(1e-30))
        if factor and off < (1e-3 if lookup.output.dtype == torch.float32 else 3e-2):
            best = Embedded(lookup, tokens, factor, tensor - factor * tokens, site, row)
    if best is None:
        raise Skip("the sum of token vectors and positions is nowhere seen")
    return best


def text_lookups(case: Case, *streams: StreamName) -> list[EmbeddingCall]:
    """Where a text of `case.small` is looked up, id by id, in a table.

    Args:
        streams: of which texts; none: of any.
    """
    texts = [case.small.text(name) for name in streams or case.small.streams]
    return [
        each
        for each in case.seen.record.embeddings
        if any(each.ids.shape == t.shape and torch.equal(each.ids.to(t), t) for t in texts)
    ]


def _lookup(run: Run, stream: StreamName) -> EmbeddingCall:
    ids = run.call.text(stream)
    for each in run.record.embeddings:
        if each.ids.shape == ids.shape and torch.equal(each.ids.to(ids), ids):
            return each
        if each.ids.shape == ids.T.shape and torch.equal(each.ids.T.to(ids), ids):
            raise Skip("the text runs along the first dimension inside")
    raise Skip("the ids are not looked up in a table as they are given")


def _places(record: Record, shape: torch.Size) -> Iterator[tuple[Site, Tensor]]:
    """Every place with a tensor of that shape, in order; a norm's input last."""
    found: list[tuple[float, Site, Tensor]] = []
    for name, calls in record.modules.items():
        for number, call in enumerate(calls):
            for kind, tensors in (("output", call.tensors), ("given", call.given)):
                for place, tensor in enumerate(tensors):
                    fitting = _rows_first(tensor, shape)
                    if fitting is not None:
                        at = call.order + (0.5 if kind == "output" else 0.0)
                        found.append((at, Site(kind, name, (number, place)), fitting))
    for number, norm in enumerate(record.norms):
        fitting = _rows_first(norm.input, shape)
        if fitting is not None:
            found.append((float("inf"), Site("norm", norm.module, (number, 0)), fitting))
    for _, site, tensor in sorted(found, key=lambda each: each[0]):
        yield site, tensor


def _rows_first(tensor: Tensor, shape: torch.Size) -> Tensor | None:
    """`[B, T, D]` in fp32 of a tensor of that shape or `[T, B, D]`."""
    if tensor.shape == shape:
        return tensor.float()
    if tensor.dim() == 3 and tensor.shape == (shape[1], shape[0], shape[2]):
        return tensor.transpose(0, 1).float()
    return None


@dataclass(frozen=True)
class Rows:
    """The table that the positions come from.

    Attributes:
        name: of the parameter or buffer; "" where they are computed on the fly.
        table: `[L, D]`.
        offset: the row that the first position of a text has.
        learned: a parameter.
    """

    name: str
    table: Tensor
    offset: int
    learned: bool


def position_rows(module: nn.Module, seen: Embedded) -> Rows | None:
    """Where the added positions stand in the model; None: no table has them."""
    positions = seen.positions()
    length, width = positions.shape
    tolerance = 1e-3 * float(positions.abs().max())
    named: list[tuple[str, Tensor, bool]] = [
        (name, each, True) for name, each in module.named_parameters()
    ]
    named += [(name, each, False) for name, each in module.named_buffers()]
    for name, tensor, learned in named:
        if not tensor.is_floating_point() or tensor.dim() < 2 or tensor.size(-1) != width:
            continue
        table = tensor.detach().float().squeeze()
        if table.dim() != 2 or table.size(0) < length or table is seen.lookup.table:
            continue
        for offset in range(min(table.size(0) - length, _OFFSETS) + 1):
            part = table[offset : offset + length]
            factor = float((part - part.mean(0)).mul(positions).sum() / positions.square().sum())
            part = (part - part.mean(0)) / (factor or 1.0)
            if float((part - positions).abs().max()) <= tolerance:
                return Rows(name, table, offset, learned)
    return None


def sinusoid_offset(positions: Tensor) -> float | None:
    """The position that the first row of sinusoidal vectors `[T, D]` (mean kept) stands for.

    From the angle of the fastest pair, sine and cosine side by side or in two halves; None: they
    are no sinusoids.
    """
    width = positions.size(-1)
    half = width // 2
    norm = positions.square().sum(-1)
    if width < 4 or float((norm / half - 1).abs().max()) > 0.05:
        return None
    for sine, cosine in ((0, 1), (0, half)):
        angle = torch.atan2(positions[:, sine], positions[:, cosine])
        steps = torch.remainder(angle[1:] - angle[:-1], 2 * math.pi)
        if float((steps - 1).abs().max()) < 1e-2:
            return float(torch.remainder(angle[0] + 0.1, 2 * math.pi)) - 0.1
    return None

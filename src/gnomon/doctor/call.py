"""One call's inputs, and which of them run along the source and the target text.

Everything a check does to an input is done here: other tokens from a position on, padding on a
side, one row alone, rows in another order. Each input follows in all tensors that run along it
(ids, masks, position ids, labels), so that the model is called as its user would call it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from gnomon.doctor.squares import Side, grown_by_hidden, grown_square, hides

Key = str | int
StreamName = Literal["source", "target"]
# ids, vectors: what is read. keep, ignore: 1/True at real tokens, or at padding. square: who may
# attend to whom `[T, T]`. labels: targets of the loss. positions. numbers: anything else that has
# one value a token (segments …). documents: which document of a packed row a token belongs to.
Role = Literal[
    "ids", "vectors", "keep", "ignore", "square", "labels", "positions", "numbers", "documents"
]
NO_DOCUMENT = -1  # padding is in none of a row's documents
IGNORED_LABEL = -100
_COUNTED = ("positions", "numbers", "documents")


@dataclass(frozen=True)
class Entry:
    """A tensor among the inputs that runs along a text.

    Attributes:
        batch: its dimension of rows, None where all rows share it.
        times: its dimensions of positions (two for a square mask).
    """

    key: Key
    role: Role
    stream: StreamName
    batch: int | None
    times: tuple[int, ...]


@dataclass(frozen=True)
class Stream:
    """A text that the model reads.

    Attributes:
        key: the entry with its ids or vectors.
        vocab_size: ids are below it (0 for vectors).
        special: ids that a made-up text must not contain.
        pad_id: what padding is filled with; None: nothing known, 0 is used.
        hides_padding: whether something (a mask among the inputs, or a known `pad_id`) tells the
            model where padding is.
        begins_with_pad: each row begins with `pad_id`, which is no padding there: T5's decoder
            reads it first, GPT-2's begin of a text is its end and its padding as well.
    """

    name: StreamName
    key: Key
    vocab_size: int = 0
    special: frozenset[int] = frozenset()
    pad_id: int | None = None
    hides_padding: bool = False
    begins_with_pad: bool = False

    def tokens(self, size: Sequence[int], generator: torch.Generator) -> Tensor:
        """Random ids that are no special ones."""
        if len(self.special) > 1000 or self.vocab_size > 200_000:
            return torch.randint(self.vocab_size // 2, self.vocab_size, size, generator=generator)
        allowed = torch.tensor(
            [token for token in range(self.vocab_size) if token not in self.special] or [0]
        )
        return allowed[torch.randint(len(allowed), tuple(size), generator=generator)]


@dataclass(frozen=True)
class Call:
    """The inputs of one forward call.

    Attributes:
        values: by keyword, or by place (int) for positional ones.
        entries: those that run along a text.
        streams: the texts by name; "target" is there only beside a "source", in an
            encoder-decoder. A single text is the "source".
    """

    values: Mapping[Key, Any]
    entries: tuple[Entry, ...]
    streams: Mapping[StreamName, Stream]

    @property
    def args(self) -> tuple[Any, ...]:
        """The positional inputs."""
        places = sorted(key for key in self.values if isinstance(key, int))
        return tuple(self.values[place] for place in places)

    @property
    def kwargs(self) -> dict[str, Any]:
        """The inputs by keyword."""
        return {key: value for key, value in self.values.items() if isinstance(key, str)}

    @property
    def read(self) -> StreamName:
        """The text whose positions the output has."""
        return "target" if "target" in self.streams else "source"

    def entry(self, stream: StreamName) -> Entry:
        """The entry of its ids or vectors."""
        key = self.streams[stream].key
        return next(each for each in self.entries if each.key == key)

    def text(self, stream: StreamName) -> Tensor:
        """Its ids `[B, T]` or vectors `[B, T, D]`, rows first."""
        entry = self.entry(stream)
        value: Tensor = self.values[entry.key]
        return value if entry.batch in (0, None) else value.transpose(0, entry.batch)

    def as_batch(self, like: object) -> Any:
        """The inputs in the form in which the user hands them over."""
        if like is None or isinstance(like, Mapping):
            return dict(self.values)
        values = tuple(self.values.values())
        return values[0] if isinstance(like, Tensor) else values

    def num_rows(self) -> int:
        """B."""
        return self.text(self.read).size(0)

    def length(self, stream: StreamName) -> int:
        """T, padding included."""
        return self.text(stream).size(1)

    def keep(self, stream: StreamName) -> Tensor:
        """bool `[B, T]`: where there are real tokens, by the masks given, else by `pad_id`."""
        text = self.text(stream)
        for entry in self.entries:
            if entry.stream == stream and entry.role in ("keep", "ignore"):
                value: Tensor = self.values[entry.key]
                value = value if entry.batch in (0, None) else value.transpose(0, entry.batch)
                value = value.reshape(value.size(0), -1)[:, -text.size(1) :]
                hidden = (
                    value < 0 if value.is_floating_point() and entry.role == "ignore" else value
                )
                real = hidden.bool() if entry.role == "keep" else ~hidden.bool()
                return real.expand(text.shape[:2])
        pad_id = self.streams[stream].pad_id
        if text.dim() == 2 and pad_id is not None:
            # Padding stands at the ends; the same id inside a text is a token (pad = eos).
            other = text != pad_id
            after = other.flip(1).cumsum(1).flip(1) > 0
            real = after & (other.cumsum(1) > 0) if bool(other.any()) else other
            return (
                real | self._begin(stream, real) if self.streams[stream].begins_with_pad else real
            )
        return torch.ones(text.shape[:2], dtype=torch.bool, device=text.device)

    def _begin(self, stream: StreamName, real: Tensor) -> Tensor:
        """bool `[B, T]`: the padding id just before the text's first other token, in each row."""
        first = (real.int().argmax(1) - 1).clamp(min=0)
        begin = torch.zeros_like(real)
        begin[torch.arange(len(real), device=real.device), first] = True
        return begin & (self.text(stream) == self.streams[stream].pad_id)

    def told(self, stream: StreamName) -> bool:
        """Whether a mask among the inputs says where its padding is."""
        return any(e.stream == stream and e.role in ("keep", "ignore") for e in self.entries)

    def documents(self, stream: StreamName) -> Tensor | None:
        """int64 `[B, T]`: to which of its row's documents a token belongs, -1 at padding.

        None where neither an input nor positions that begin anew within a row tell.
        """
        keep, shape = self.keep(stream), self.text(stream).shape[:2]
        along = {e.role: e for e in self.entries if e.stream == stream}
        if (entry := along.get("documents")) is not None:
            numbers: Tensor = self.values[entry.key]
            return numbers.long().masked_fill(~keep, NO_DOCUMENT)
        entry = along.get("positions")
        if entry is not None and self.values[entry.key].shape == shape:
            begins: Tensor = self.values[entry.key] == 0
            if bool(((begins & keep).sum(1) > 1).any()):
                return (begins.long().cumsum(1) - 1).masked_fill(~keep, NO_DOCUMENT)
        return None

    def is_packed(self, stream: StreamName) -> bool:
        """Whether a row is known to hold several documents."""
        documents = self.documents(stream)
        if documents is None:
            return False
        return bool(((documents != documents.amax(1, keepdim=True)) & (documents >= 0)).any())

    # What checks do to a call. Each returns a new one.

    def with_values(self, **values: Any) -> Call:
        """Some inputs replaced or added by keyword."""
        return replace(self, values=dict(self.values) | dict(values.items()))

    def without(self, key: Key) -> Call:
        """Without one input (a text's own: then the text is gone, too)."""
        return replace(
            self,
            values={name: value for name, value in self.values.items() if name != key},
            entries=tuple(each for each in self.entries if each.key != key),
            streams={name: each for name, each in self.streams.items() if each.key != key},
        )

    def without_any(self, role: Role) -> Call:
        """Without the inputs of one role: labels, so that no loss is computed along; positions."""
        call = self
        for entry in [each for each in self.entries if each.role == role]:
            call = call.without(entry.key)
        return call

    def with_text(self, stream: StreamName, text: Tensor) -> Call:
        """Other ids or vectors of the same size, rows first."""
        entry = self.entry(stream)
        value = text if entry.batch in (0, None) else text.transpose(0, entry.batch)
        return replace(self, values={**self.values, entry.key: value})

    def perturbed(self, stream: StreamName, where: Tensor, seed: int = 0) -> Call:
        """Other tokens (vectors) where `where`, bool `[B, T]`, is True; all else as it was."""
        text = self.text(stream)
        generator = torch.Generator().manual_seed(seed)
        if text.is_floating_point():
            other = torch.randn(text.shape, generator=generator).to(text) * text.std().clamp_min(1)
            changed = torch.where(where[..., None].to(text.device), other, text)
        else:
            info = self.streams[stream]
            if info.begins_with_pad:  # another token there would make padding of the one before
                where = where & ~(self.keep(stream) & (text == info.pad_id)).to(where.device)
            tokens = info.tokens(text.shape, generator).to(text)
            tokens = torch.where(
                tokens == text, info.tokens(text.shape, generator).to(text), tokens
            )
            changed = torch.where(where.to(text.device), tokens, text)
        return self.with_text(stream, changed)

    def one_document(self, stream: StreamName) -> Call:
        """Its position ids run from 0; its other numbers (documents, segments) are the first's."""
        values = dict(self.values)
        for entry in self.entries:
            if entry.stream == stream and entry.times and entry.role in _COUNTED:
                value: Tensor = values[entry.key]
                time = entry.times[0]
                first = value.narrow(time, 0, 1).expand(value.shape)
                if entry.role == "positions":
                    shape = [1] * value.dim()
                    shape[time] = value.size(time)
                    steps = torch.arange(value.size(time), device=value.device).view(shape)
                    first = (steps + torch.zeros_like(value)).to(value.dtype)
                values[entry.key] = first.contiguous()
        return replace(self, values=values)

    def rows(self, numbers: Sequence[int]) -> Call:
        """These rows, in this order."""
        values = dict(self.values)
        for entry in self.entries:
            if entry.batch is not None:
                value: Tensor = values[entry.key]
                index = torch.tensor(list(numbers), device=value.device)
                values[entry.key] = value.index_select(entry.batch, index)
        return replace(self, values=values)

    def cut(self, stream: StreamName, start: int, stop: int) -> Call:
        """Only the positions from `start` to before `stop`."""
        values = dict(self.values)
        for entry in self.entries:
            if entry.stream == stream:
                for time in entry.times:
                    part = values[entry.key].narrow(time, start, stop - start)
                    values[entry.key] = part.contiguous()  # as a batch is: losses call `view`
        return replace(self, values=values)

    def padded(self, stream: StreamName, num: int, side: Side, seed: int = 1) -> Call:
        """`num` positions of padding more on a side, in every tensor that runs along the text.

        Vectors of padding are noise, so that whoever reads them shows it.
        """
        values = dict(self.values)
        for entry in self.entries:
            if entry.stream == stream:
                for time in entry.times:
                    fill = self._padding(entry, values[entry.key], time, num, side, seed)
                    parts = [fill, values[entry.key]]
                    parts = parts if side == "left" else parts[::-1]
                    values[entry.key] = torch.cat(parts, dim=time)
                if entry.role == "square" and len(entry.times) == 2:
                    grow = grown_square if entry.batch is None else grown_by_hidden
                    values[entry.key] = grow(self.values[entry.key], values[entry.key], num, side)
        return replace(self, values=values)

    def longer(self, stream: StreamName, length: int) -> Call:
        """The text repeated up to `length`; position ids run on, a causal square grows."""
        old = self.length(stream)
        if length <= old:
            return self
        grown = self.padded(stream, length - old, "right")
        values = dict(grown.values)
        for entry in self.entries:
            if entry.stream == stream and entry.role not in ("positions", "square"):
                value: Tensor = self.values[entry.key]
                index = torch.arange(length, device=value.device) % old
                for time in entry.times:
                    value = value.index_select(time, index)
                values[entry.key] = value
        return replace(self, values=values)

    def hidden(self, stream: StreamName, where: Tensor) -> Call:
        """Padding in place of the tokens where `where`, bool `[B, T]`, is True.

        Ids become `pad_id`, masks that say where padding is follow, labels are ignored there.
        """
        values = dict(self.values)
        for entry in self.entries:
            if entry.stream != stream or entry.batch is None or not entry.times:
                continue
            value: Tensor = values[entry.key]
            place = _along(where.to(value.device), value, entry.batch, entry.times[-1])
            if entry.role == "square":
                values[entry.key] = torch.where(place, hides(value), value)
            elif entry.role not in ("positions", "numbers"):
                time = entry.times[0]
                fill = self._padding(entry, value, time, value.size(time), "right", 1)
                values[entry.key] = torch.where(place, fill, value)
        return replace(self, values=values)

    def filled(self, stream: StreamName, texts: Sequence[Tensor], side: Side = "right") -> Call:
        """Other texts, one id tensor `[length]` a row, shorter ones padded on a side.

        All that runs along the text is taken from the row with most tokens, so none of them may be
        longer than that. Positions run from 0, and a row holds one document.
        """
        entry, longest = self.entry(stream), max(map(len, texts))
        model = int(self.keep(stream).sum(1).argmax())
        values = dict(self.values)
        for each in self.entries:
            if each.stream == stream and each.batch is not None:
                index = torch.full((len(texts),), model, device=values[each.key].device)
                values[each.key] = values[each.key].index_select(each.batch, index)
        call = replace(self, values=values)
        start = int(self.keep(stream)[model].int().argmax())
        call = call.cut(stream, start, start + longest)
        ids = call.text(stream).clone()
        hidden = torch.zeros(ids.shape, dtype=torch.bool)
        for row, text in enumerate(texts):
            shift = longest - len(text) if side == "left" else 0
            hidden[row] = True
            hidden[row, shift : shift + len(text)] = False
            ids[row, shift : shift + len(text)] = text
        call = call.with_text(stream, ids)
        if bool(hidden.any()):
            call = call.hidden(stream, hidden)
        positions = ((~hidden).cumsum(1) - 1).clamp(min=0)
        documents = torch.zeros_like(positions).masked_fill(hidden, NO_DOCUMENT)
        values = dict(call.values)
        for each in call.entries:
            if (
                each.stream == stream
                and each.batch == 0
                and each.role in ("positions", "documents")
            ):
                new = positions if each.role == "positions" else documents
                values[each.key] = new.to(values[each.key])
        assert entry.role == "ids"
        return replace(call, values=values)

    def _padding(
        self, entry: Entry, value: Tensor, time: int, num: int, side: Side, seed: int
    ) -> Tensor:
        size = list(value.shape)
        size[time] = num
        if entry.role == "vectors":
            generator = torch.Generator().manual_seed(seed)
            return torch.randn(size, generator=generator).to(value)
        if entry.role == "positions":
            # As a tokenizer's caller does: positions run on to the right, and repeat 0 at the left.
            if side == "left":
                return torch.zeros(size, dtype=value.dtype, device=value.device)
            shape = [1] * value.dim()
            shape[time] = num
            ahead = torch.arange(1, num + 1, device=value.device).view(shape)
            return (value.narrow(time, value.size(time) - 1, 1) + ahead).to(value.dtype)
        filling: float = {
            "ids": self.streams[entry.stream].pad_id or 0,
            "keep": 0,
            "ignore": 1,
            "square": 0,
            "labels": ignored_label(value) if entry.role == "labels" else 0,
            "numbers": 0,
            "documents": NO_DOCUMENT,
        }[entry.role]
        if entry.role == "ignore" and value.is_floating_point():  # what hides the others, or would
            lowest = float(value.min()) if value.numel() else 0.0
            filling = lowest if lowest < -1 else torch.finfo(value.dtype).min
        return torch.full(size, filling, dtype=value.dtype, device=value.device)


def ignored_label(labels: Tensor) -> int:
    """What labels say where nothing is asked for: their own negative value, else -100."""
    lowest = int(labels.min()) if labels.numel() else 0
    return lowest if lowest < 0 else IGNORED_LABEL


def _along(where: Tensor, value: Tensor, batch: int, time: int) -> Tensor:
    """`where` `[B, T]` in a form that broadcasts against `value`."""
    shape = [1] * value.dim()
    shape[batch], shape[time] = where.shape
    return (where if batch < time else where.t()).reshape(shape)

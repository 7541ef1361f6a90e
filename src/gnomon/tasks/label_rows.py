"""Labelled texts as rows of ids and of labels: one label, whether each label holds, or by word."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gnomon.errors import DataError
from gnomon.tasks.rows import padded
from gnomon.text.framing import Framed, Framing
from gnomon.text.labelled import LabelKind, Labelled

NO_LABEL = -1
_WORD = re.compile(r"\S+")
_AT_ONCE = 2000  # texts whose encodings are held, which are many times as large as their ids
_UNREADABLE = "?"  # stands for a word of which a vocabulary leaves no token


@dataclass(frozen=True, slots=True)
class _Part:
    """Some words of a text that are read together.

    Attributes:
        text: its number.
        start: number within it of the first word.
        words: with the label of each, where they are known.
    """

    text: int
    start: int
    words: Sequence[str]
    labels: Sequence[str]


@dataclass(frozen=True, slots=True)
class LabelRow:
    """What the network reads at once, and what it should say.

    Attributes:
        text: number of the text it is (part of).
        ids: with special tokens around; int32.
        segments: of each id 0, or 1 from the second text on; empty where all are 0.
        labels: indices: one; or 0 or 1 for each label there is; or for each token that begins a
            word that word's, `NO_LABEL` for all other tokens.
        cut: tokens that were left out, as the row would have been too long.
    """

    text: int
    ids: array[int]
    segments: array[int]
    labels: Sequence[int]
    cut: int = 0

    @classmethod
    def of(cls, text: int, framed: Framed, labels: Sequence[int]) -> LabelRow:
        """The row without what nobody asks for once it has labels: all texts' rows are held."""
        segments = framed.segments if any(framed.segments) else ()
        return cls(text, array("i", framed.ids), array("b", segments), labels, framed.cut)


@dataclass(frozen=True, eq=False)
class LabelBatch:
    """Rows as padded tensors.

    Attributes:
        ids, segments: int64 [B, S].
        keep: bool [B, S], True at tokens.
        target: int64 [B, 1 + L]: a column that is not looked at (the objective takes the first for
            the beginning of a text), then the labels, `NO_LABEL` where there is none.
        rows: their numbers.
    """

    ids: Tensor
    segments: Tensor
    keep: Tensor
    target: Tensor
    rows: list[int]

    def to(self, device: torch.device | str) -> LabelBatch:
        """The batch on `device`."""
        moved = {
            name: getattr(self, name).to(device, non_blocking=True)
            for name in ("ids", "segments", "keep", "target")
        }
        return replace(self, **moved)

    def repeated(self, times: int) -> LabelBatch:
        """The rows `times` times over, whole copies one after another."""
        if times == 1:
            return self
        copies = {
            name: getattr(self, name).repeat(times, 1)
            for name in ("ids", "segments", "keep", "target")
        }
        return replace(self, **copies, rows=self.rows * times)


class RowMaker:
    """Makes rows of texts.

    Args:
        framing: the vocabulary.
        labels: all there are, in the order of the model's outputs.
        kind: one label a text, several, or one a word.
        max_length: the longest row in tokens, special ones included; None: any.
    """

    def __init__(
        self, framing: Framing, labels: Sequence[str], kind: LabelKind, max_length: int | None
    ) -> None:
        self.framing = framing
        self.kind = kind
        self.max_length = max_length
        self._index = {label: number for number, label in enumerate(labels)}

    def rows(self, examples: Sequence[Labelled]) -> list[LabelRow]:
        """One row a text; of long texts whose words are labelled several, no word left out.

        Examples without labels (of texts that are to be classified) give rows without.

        Raises:
            DataError: see `Framing.frame`.
        """
        make = self._word_rows if self.kind == "words" else self._text_rows
        found: list[LabelRow] = []
        for first in range(0, len(examples), _AT_ONCE):
            found += make(examples[first : first + _AT_ONCE], first)
        return found

    def _text_rows(self, examples: Sequence[Labelled], first: int) -> Iterator[LabelRow]:
        seconds = [one.pair for one in examples if one.pair is not None]
        framed = self.framing.frame(
            [one.text for one in examples], seconds or None, max_length=self.max_length
        )
        for number, (one, row) in enumerate(zip(examples, framed, strict=True), first):
            yield LabelRow.of(number, self._readable(row), self._labels(one))

    def _labels(self, one: Labelled) -> list[int]:
        if self.kind == "single":
            return [self._index[label] for label in one.labels]
        held = set(one.labels)
        return [int(label in held) for label in self._index]

    def _word_rows(self, examples: Sequence[Labelled], first: int) -> Iterator[LabelRow]:
        whole = self.framing.frame([one.text for one in examples])
        parts: list[_Part] = []
        for number, (one, row) in enumerate(zip(examples, whole, strict=True), first):
            words = one.text.split(" ") if one.text else []
            for start, stop in self._windows(one.text, row):
                parts.append(_Part(number, start, words[start:stop], one.labels[start:stop]))
        for part, row in zip(parts, self._framed(parts), strict=True):
            yield from self._complete(part, row)

    def _framed(self, parts: Sequence[_Part]) -> list[Framed]:
        texts = [" ".join(part.words) for part in parts]
        return [
            self._readable(row) for row in self.framing.frame(texts, max_length=self.max_length)
        ]

    def _complete(self, part: _Part, row: Framed) -> Iterator[LabelRow]:
        """The rows of a part of a text, in which every word begins at a token of its own.

        Words may have more tokens in a part than in the whole text, so that the last ones find no
        room: then the part is halved. Of a word that is nothing but characters that the vocabulary
        passes over no token is left: it is read as a question mark.
        """
        words, labels = part.words, part.labels
        owners = word_of_tokens(" ".join(words), row)
        if missing := set(range(len(words))) - set(owners):
            middle = len(words) // 2
            if row.cut and middle:
                halves = [
                    _Part(part.text, part.start, words[:middle], labels[:middle]),
                    _Part(part.text, part.start + middle, words[middle:], labels[middle:]),
                ]
            elif any(words[word] == _UNREADABLE for word in missing):
                raise DataError(
                    "each word must be a token or more of its own",
                    seen=f"text {part.text + 1}, word {part.start + min(missing) + 1}",
                    mend="take a vocabulary that tells words apart",
                )
            else:
                read = [_UNREADABLE if n in missing else word for n, word in enumerate(words)]
                halves = [_Part(part.text, part.start, read, labels)]
            for half, framed in zip(halves, self._framed(halves), strict=True):
                yield from self._complete(half, framed)
            return
        marks = [NO_LABEL] * len(row.ids)
        begun: set[int] = set()
        for place, word in enumerate(owners):
            if word is not None and word not in begun:
                begun.add(word)
                marks[place] = self._index[labels[word]] if labels else 0
        yield LabelRow.of(part.text, row, array("i", marks))

    def _readable(self, row: Framed) -> Framed:
        """A row that holds a token at least: of a blank text without special tokens padding."""
        return row if row.ids else Framed([self.framing.pad_id], [0], [None])

    def _windows(self, text: str, row: Framed) -> Iterator[tuple[int, int]]:
        """Which words stand together in a row, from and to; a long text gives several."""
        num_words = len(text.split(" ")) if text else 0
        if self.max_length is None or len(row.ids) <= self.max_length:
            yield 0, num_words
            return
        sizes = [0] * num_words
        for word in word_of_tokens(text, row):
            if word is not None:
                sizes[word] += 1
        budget = self.max_length - row.spans.count(None)
        start, used = 0, 0
        for word, size in enumerate(sizes):
            if word > start and used + size > budget:
                yield start, word
                start, used = word, 0
            used += size
        yield start, num_words


def word_of_tokens(text: str, row: Framed) -> list[int | None]:
    """For each token the number of the word (between blanks) it is part of; None for others."""
    ends = [match.end() for match in _WORD.finditer(text)]
    starts = [match.start() for match in _WORD.finditer(text)]
    found: list[int | None] = []
    word = 0
    for span in row.spans:
        if span is None or span[1] <= span[0]:
            found.append(None)
            continue
        last = span[1] - 1  # a piece may begin with the blank before its word
        while word < len(ends) and ends[word] <= last:
            word += 1
        inside = word < len(ends) and starts[word] <= last
        found.append(word if inside else None)
    return found


def at_labels(logits: Tensor, keep: Tensor, kind: LabelKind) -> Tensor:
    """Logits [M, C] of the M labels that `keep` wants, in row order, as the objective takes them.

    Where a text may have several labels each is a choice between 0 and its logit, whose
    cross-entropy is the binary one.

    Args:
        logits: the network's, [B, C], or [B, S, C] where words are labelled.
        keep: bool [B, L].
    """
    if kind == "single":
        return logits
    wanted = logits[keep]
    return wanted if kind == "words" else torch.stack([torch.zeros_like(wanted), wanted], dim=-1)


def collate(rows: Sequence[LabelRow], numbers: Sequence[int], pad_id: int) -> LabelBatch:
    """The rows at `numbers` as one padded batch."""
    chosen = [rows[number] for number in numbers]
    lengths = torch.tensor([len(row.ids) for row in chosen])
    ids = padded([row.ids for row in chosen], pad_id)
    segments = torch.zeros_like(ids)
    for place, row in enumerate(chosen):
        if row.segments:
            segments[place, : len(row.segments)] = torch.tensor(row.segments)
    return LabelBatch(
        ids=ids,
        segments=segments,
        keep=torch.arange(ids.shape[1]) < lengths[:, None],
        target=padded([[0, *row.labels] for row in chosen], NO_LABEL),
        rows=list(numbers),
    )

"""Writes a token store: encodes chunk by chunk, and counts what it leaves out."""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from gnomon.errors import DataError
from gnomon.files import sha256_of
from gnomon.text.corpus import Pair, ParallelCorpus, in_chunks
from gnomon.text.occurrences import Occurrences
from gnomon.text.perturb import is_single_word
from gnomon.text.ragged import Ragged
from gnomon.text.reserved import UNK_ID
from gnomon.text.sources import OnTooLong
from gnomon.text.tokenizer_pair import TokenizerPair
from gnomon.text.variants import VariantEncoder

FORMAT_VERSION = 3
MANIFEST = "manifest.json"
SINGLE_WORDS = "single_words"
_CHUNK_PAIRS = 10_000  # encoded at a time: enough to keep every core busy, little to hold
_CHUNK_CHARACTERS = 4_000_000  # or fewer pairs, where lines are very long or variants many
_AHEAD = 2  # chunks that are encoded at a time, so that one's end leaves no core idle


Variants = tuple[list[Ragged], list[Ragged]]  # sources and targets, each in every variant


@dataclass
class BuildReport:
    """What became of a corpus on its way into the store."""

    num_pairs: int = 0  # kept
    num_source_tokens: int = 0  # without end of sentence
    num_target_tokens: int = 0
    num_source_unknown: int = 0  # tokens that are <unk>
    num_target_unknown: int = 0
    omitted: dict[str, Occurrences] = field(default_factory=dict)  # by reason
    cut: Occurrences = field(default_factory=Occurrences)  # pairs whose source lost its end

    def omit(self, reason: str, line: int) -> None:
        """Count a pair left out."""
        self.omitted.setdefault(reason, Occurrences()).add(line)

    @classmethod
    def of(cls, values: dict[str, Any]) -> BuildReport:
        """Return the report that `dataclasses.asdict` made `values` of."""
        omitted = {
            reason: Occurrences(**omission) for reason, omission in values["omitted"].items()
        }
        cut = Occurrences(**values.get("cut", {}))  # stores of before cutting have none
        return cls(**{**values, "omitted": omitted, "cut": cut})


@dataclass
class _Chunk:
    """Pairs that are encoded together, and how many were read to find them."""

    pairs: list[Pair]
    num_read: int = field(init=False)

    def __post_init__(self) -> None:
        self.num_read = len(self.pairs)

    @property
    def lines(self) -> NDArray[np.int64]:
        return np.array([pair.line for pair in self.pairs], np.int64)

    @property
    def single_words(self) -> NDArray[np.bool_]:
        return np.array(
            [is_single_word(pair.source) and is_single_word(pair.target) for pair in self.pairs],
            np.bool_,
        )


class StoreWriter:
    """Encodes a corpus into a folder, a chunk at a time; nothing but counts stays in memory."""

    def __init__(
        self,
        folder: Path,
        tokenizers: TokenizerPair,
        encoder: VariantEncoder,
        max_length: int | None,
        on_too_long: OnTooLong,
    ) -> None:
        self.folder = folder
        self.tokenizers = tokenizers
        self.encoder = encoder
        self.max_length = max_length
        self.on_too_long = on_too_long
        self.report = BuildReport()
        self.line_numbers = ArrayWriter(folder, "line_numbers", np.dtype("<i8"))
        marks = (SINGLE_WORDS,) if encoder.marks_single_words else ()
        self.marks = [ArrayWriter(folder, name, np.dtype("?")) for name in marks]
        self.sides = {
            name: _SideWriter(folder, name, tokenizer.vocab_size, encoder.num_variants)
            for name, tokenizer in (("source", tokenizers.source), ("target", tokenizers.target))
        }

    def write(
        self, corpus: ParallelCorpus, key: str, progress: Callable[[int], None] | None = None
    ) -> None:
        """Encode every pair, then write what is known only at the end.

        Raises:
            DataError: see `TokenStore.build`.
        """
        with ExitStack() as files:
            for array in (self.line_numbers, *self.marks):
                array.open(files)
            for side in self.sides.values():
                side.open(files)
            chunks = in_chunks(
                corpus.pairs(),
                num_pairs=_CHUNK_PAIRS,
                num_characters=max(1, _CHUNK_CHARACTERS // self.encoder.num_variants),
            )
            num_read = 0
            for chunk, sides in self._encoded(map(_Chunk, chunks)):
                self._add(chunk, sides, corpus)
                num_read += chunk.num_read
                if progress is not None:
                    progress(num_read)
        self._finish(corpus, key)

    def _encoded(self, chunks: Iterator[_Chunk]) -> Iterator[tuple[_Chunk, Variants]]:
        """Encode in threads of their own, since that is most of the work and needs no Python.

        While one chunk is encoded, the next is read and the one before written.
        """
        with ThreadPoolExecutor(_AHEAD, "encode") as workers:
            waiting: deque[tuple[_Chunk, Future[Variants]]] = deque()
            for chunk in chunks:
                self._leave_out_empty(chunk)
                waiting.append((chunk, workers.submit(self._encode, chunk)))
                if len(waiting) > _AHEAD:
                    first, encoded = waiting.popleft()
                    yield first, encoded.result()
            for first, encoded in waiting:
                yield first, encoded.result()

    def _leave_out_empty(self, chunk: _Chunk) -> None:
        kept = []
        for pair in chunk.pairs:
            if pair.source.strip() and pair.target.strip():
                kept.append(pair)
            else:
                self.report.omit("empty side", pair.line)
        chunk.pairs = kept

    def _encode(self, chunk: _Chunk) -> Variants:
        sources, targets = self.encoder.pairs(
            [pair.source for pair in chunk.pairs],
            [pair.target for pair in chunk.pairs],
            chunk.lines,
        )
        if any(pair.tags for pair in chunk.pairs):
            tags = Ragged.of(self.tokenizers.source.tag_ids(pair.tags) for pair in chunk.pairs)
            sources = [rows.behind(tags) for rows in sources]
        return sources, targets

    def _add(self, chunk: _Chunk, encoded: Variants, corpus: ParallelCorpus) -> None:
        lines = chunk.lines
        if self.on_too_long == "cut" and self.max_length is not None:
            encoded = self._cut(encoded[0], lines, self.max_length - 1), encoded[1]
        fits = self._fits(*encoded, lines, corpus)
        for side, variants in zip(self.sides.values(), encoded, strict=True):
            side.write([rows.where(fits) for rows in variants])
        self.line_numbers.write(lines[fits])
        for array in self.marks:
            array.write(chunk.single_words[fits])
        self.report.num_pairs += int(fits.sum())

    def _cut(self, sources: list[Ragged], lines: NDArray[np.int64], limit: int) -> list[Ragged]:
        """The sources without what is beyond `limit` tokens."""
        longest = np.max([rows.lengths for rows in sources], axis=0)
        for line in lines[longest > limit]:
            self.report.cut.add(int(line))
        return [rows.cut(limit) for rows in sources]

    def _fits(
        self,
        sources: list[Ragged],
        targets: list[Ragged],
        lines: NDArray[np.int64],
        corpus: ParallelCorpus,
    ) -> NDArray[np.bool_]:
        """Which pairs are short enough in every variant, so that each epoch has the same pairs."""
        source = np.max([rows.lengths for rows in sources], axis=0) + 1  # end of sentence
        target = np.max([rows.lengths for rows in targets], axis=0) + 1
        if self.max_length is None:
            return np.ones(len(lines), np.bool_)
        fits: NDArray[np.bool_] = np.maximum(source, target) <= self.max_length
        for index in np.flatnonzero(~fits):
            if self.on_too_long == "error":
                raise DataError(
                    f"no side of a pair may have more than {self.max_length} tokens",
                    seen=f"{corpus.place(lines[index])}: {source[index]} and "
                    f"{target[index]} tokens",
                    mend='raise data.max_length, or set data.on_too_long = "drop" (or "cut")',
                )
            self.report.omit(f"more than {self.max_length} tokens", int(lines[index]))
        return fits

    def _finish(self, corpus: ParallelCorpus, key: str) -> None:
        report = self.report
        if report.num_pairs == 0:
            reasons = ", ".join(f"{o.count} {reason}" for reason, o in report.omitted.items())
            raise DataError(
                f"the {corpus.name} text must hold pairs to use",
                seen=f"{', '.join(map(str, corpus.files))}: left out {reasons or 'nothing'}",
                mend="check that these are the right files",
            )
        source, target = self.sides.values()
        report.num_source_tokens, report.num_source_unknown = source.totals()
        report.num_target_tokens, report.num_target_unknown = target.totals()
        arrays = [self.line_numbers, *self.marks, *source.arrays, *target.arrays]
        manifest = {
            "format_version": FORMAT_VERSION,
            "key": key,
            "corpus": corpus.name,
            "files": [str(file) for file in corpus.files],
            "tokenizer": self.tokenizers.fingerprint,
            "num_variants": self.encoder.num_variants,
            "arrays": {
                array.name: {
                    "dtype": array.dtype.str,
                    "length": array.length,
                    "sha256": sha256_of(self.folder / array.name),
                }
                for array in arrays
            },
            "report": asdict(report),
        }
        manifest["sha256"] = manifest_digest(manifest)
        text = json.dumps(manifest, indent=1, ensure_ascii=False) + "\n"
        (self.folder / MANIFEST).write_text(text, encoding="utf-8")


def manifest_digest(manifest: dict[str, Any]) -> str:
    """Hex digest over all of a manifest but the digest itself."""
    rest = {name: value for name, value in manifest.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


class ArrayWriter:
    """Appends to an array in a file."""

    def __init__(self, folder: Path, name: str, dtype: np.dtype[Any]) -> None:
        self.name = name
        self.dtype = dtype
        self.length = 0
        self._path = folder / name
        self._file: BinaryIO | None = None

    def open(self, stack: ExitStack) -> None:
        """Begin the file; `stack` closes it."""
        self._file = stack.enter_context(self._path.open("wb"))

    def write(self, values: NDArray[Any]) -> None:
        """Append values."""
        assert self._file is not None, "open() comes first"
        values.astype(self.dtype).tofile(self._file)
        self.length += len(values)


class _SideWriter:
    """Appends one side's ids, and where each text ends, to two files for each variant."""

    def __init__(self, folder: Path, name: str, vocab_size: int, num_variants: int) -> None:
        dtype: np.dtype[Any] = np.dtype("<u2" if vocab_size <= 1 << 16 else "<u4")
        self._vocab_size = vocab_size
        self._ids = []
        self._offsets = []
        for variant in range(num_variants):
            ids, offsets = array_names(name, variant)
            self._ids.append(ArrayWriter(folder, ids, dtype))
            self._offsets.append(ArrayWriter(folder, offsets, np.dtype("<i8")))
        self._num_unknown = 0  # in the first variant

    @property
    def arrays(self) -> list[ArrayWriter]:
        return [*self._ids, *self._offsets]

    def open(self, stack: ExitStack) -> None:
        for array in self.arrays:
            array.open(stack)
        for offsets in self._offsets:
            offsets.write(np.zeros(1, np.int64))

    def write(self, variants: list[Ragged]) -> None:
        self._num_unknown += int((variants[0].ids == UNK_ID).sum())
        for rows, ids, offsets in zip(variants, self._ids, self._offsets, strict=True):
            assert not len(rows.ids) or rows.ids.max() < self._vocab_size, "id beyond vocabulary"
            offsets.write(ids.length + np.cumsum(rows.lengths))
            ids.write(rows.ids)

    def totals(self) -> tuple[int, int]:
        return self._ids[0].length, self._num_unknown


def array_names(side: str, variant: int) -> tuple[str, str]:
    """Names of the files of a side's ids and offsets in one variant."""
    stem = side if variant == 0 else f"{side}.{variant}"
    return f"{stem}.ids", f"{stem}.offsets"

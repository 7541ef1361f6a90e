"""Writes a token store: encodes chunk by chunk, and counts what it leaves out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gnomon.errors import DataError
from gnomon.files import sha256_of
from gnomon.text.corpus import Pair, ParallelCorpus
from gnomon.text.tokenizer import UNK_ID
from gnomon.text.tokenizer_pair import TokenizerPair

FORMAT_VERSION = 2
MANIFEST = "manifest.json"
_CHUNK_PAIRS = 10_000  # encoded at a time: enough to keep every core busy, little to hold
_CHUNK_CHARACTERS = 4_000_000  # or fewer pairs, where lines are very long
_NUM_EXAMPLES = 5  # line numbers named per reason


@dataclass
class Omission:
    """Pairs left out for one reason."""

    count: int = 0
    first_lines: list[int] = field(default_factory=list)  # numbers in the raw files, from 1

    def add(self, line: int) -> None:
        """Count the pair at `line`."""
        self.count += 1
        if len(self.first_lines) < _NUM_EXAMPLES:
            self.first_lines.append(line)


@dataclass
class BuildReport:
    """What became of a corpus on its way into the store."""

    num_pairs: int = 0  # kept
    num_source_tokens: int = 0  # without end of sentence
    num_target_tokens: int = 0
    num_source_unknown: int = 0  # tokens that are <unk>
    num_target_unknown: int = 0
    omitted: dict[str, Omission] = field(default_factory=dict)  # by reason

    def omit(self, reason: str, line: int) -> None:
        """Count a pair left out."""
        self.omitted.setdefault(reason, Omission()).add(line)

    @property
    def num_omitted(self) -> int:
        """Pairs left out, for whatever reason."""
        return sum(omission.count for omission in self.omitted.values())

    @classmethod
    def of(cls, values: dict[str, Any]) -> BuildReport:
        """Return the report that `dataclasses.asdict` made `values` of."""
        omitted = {reason: Omission(**omission) for reason, omission in values["omitted"].items()}
        return cls(**{**values, "omitted": omitted})


class StoreWriter:
    """Encodes a corpus into a folder; only lengths and line numbers stay in memory."""

    def __init__(
        self,
        folder: Path,
        tokenizers: TokenizerPair,
        max_length: int | None,
        on_too_long: Literal["drop", "error"],
    ) -> None:
        self.folder = folder
        self.tokenizers = tokenizers
        self.max_length = max_length
        self.on_too_long = on_too_long
        self.report = BuildReport()
        self.line_numbers: list[NDArray[np.int64]] = []
        self.source = _SideWriter(folder / "source.ids", tokenizers.source.vocab_size)
        self.target = _SideWriter(folder / "target.ids", tokenizers.target.vocab_size)

    def write(
        self, corpus: ParallelCorpus, key: str, progress: Callable[[int], None] | None = None
    ) -> None:
        """Encode every pair, then write what is known only at the end.

        Raises:
            DataError: see `TokenStore.build`.
        """
        num_read = 0
        with self.source.file, self.target.file:
            for chunk in _chunks(corpus.pairs()):
                self._add(chunk, corpus)
                num_read += len(chunk)
                if progress is not None:
                    progress(num_read)
        self._finish(corpus, key)

    def _add(self, chunk: list[Pair], corpus: ParallelCorpus) -> None:
        pairs = []
        for pair in chunk:
            if pair.source.strip() and pair.target.strip():
                pairs.append(pair)
            else:
                self.report.omit("empty side", pair.line)
        sources = self.tokenizers.source.encode([pair.source for pair in pairs])
        targets = self.tokenizers.target.encode([pair.target for pair in pairs])
        kept = [
            index
            for index, pair in enumerate(pairs)
            if self._fits(len(sources[index]), len(targets[index]), pair, corpus)
        ]
        self.source.write([sources[index] for index in kept])
        self.target.write([targets[index] for index in kept])
        self.line_numbers.append(np.array([pairs[index].line for index in kept], np.int64))
        self.report.num_pairs += len(kept)

    def _fits(self, source: int, target: int, pair: Pair, corpus: ParallelCorpus) -> bool:
        source, target = source + 1, target + 1  # end of sentence
        if self.max_length is None or max(source, target) <= self.max_length:
            return True
        if self.on_too_long == "error":
            raise DataError(
                f"no side of a pair may have more than {self.max_length} tokens",
                seen=f"{corpus.files[0]}, line {pair.line}: {source} and {target} tokens",
                mend='raise data.max_length, or set data.on_too_long = "drop"',
            )
        self.report.omit(f"more than {self.max_length} tokens", pair.line)
        return False

    def _finish(self, corpus: ParallelCorpus, key: str) -> None:
        report = self.report
        if report.num_pairs == 0:
            reasons = ", ".join(f"{o.count} {reason}" for reason, o in report.omitted.items())
            raise DataError(
                f"the {corpus.name} text must hold pairs to use",
                seen=f"{', '.join(map(str, corpus.files))}: left out {reasons or 'nothing'}",
                mend="check that these are the right files",
            )
        report.num_source_tokens, report.num_source_unknown = self.source.totals()
        report.num_target_tokens, report.num_target_unknown = self.target.totals()
        arrays: dict[str, tuple[np.dtype[Any], int]] = {
            "source.ids": (self.source.dtype, report.num_source_tokens),
            "target.ids": (self.target.dtype, report.num_target_tokens),
        }
        for name, array in (
            ("source.offsets", self.source.offsets()),
            ("target.offsets", self.target.offsets()),
            ("line_numbers", np.concatenate(self.line_numbers)),
        ):
            array.astype("<i8").tofile(self.folder / name)
            arrays[name] = (np.dtype("<i8"), len(array))
        manifest = {
            "format_version": FORMAT_VERSION,
            "key": key,
            "corpus": corpus.name,
            "files": [str(file) for file in corpus.files],
            "tokenizer": self.tokenizers.fingerprint,
            "arrays": {
                name: {
                    "dtype": dtype.str,
                    "length": length,
                    "sha256": sha256_of(self.folder / name),
                }
                for name, (dtype, length) in arrays.items()
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


class _SideWriter:
    """Appends one side's ids to a file and remembers where each text ends."""

    def __init__(self, path: Path, vocab_size: int) -> None:
        self.file = path.open("wb")
        self.dtype: np.dtype[Any] = np.dtype("<u2" if vocab_size <= 1 << 16 else "<u4")
        self._vocab_size = vocab_size
        self._lengths: list[NDArray[np.int64]] = [np.zeros(1, np.int64)]
        self._num_unknown = 0

    def write(self, rows: list[list[int]]) -> None:
        flat = np.fromiter(chain.from_iterable(rows), np.int64)
        assert flat.size == 0 or flat.max() < self._vocab_size, "id outside the vocabulary"
        self._num_unknown += int((flat == UNK_ID).sum())
        self._lengths.append(np.array([len(row) for row in rows], np.int64))
        flat.astype(self.dtype).tofile(self.file)

    def offsets(self) -> NDArray[np.int64]:
        return np.cumsum(np.concatenate(self._lengths))

    def totals(self) -> tuple[int, int]:
        return int(self.offsets()[-1]), self._num_unknown


def _chunks(pairs: Iterator[Pair]) -> Iterator[list[Pair]]:
    chunk: list[Pair] = []
    characters = 0
    for pair in pairs:
        chunk.append(pair)
        characters += len(pair.source) + len(pair.target)
        if len(chunk) == _CHUNK_PAIRS or characters >= _CHUNK_CHARACTERS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk

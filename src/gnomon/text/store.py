"""Token ids of a corpus on disk, memory-mapped: encoded once, read at any position for nothing.

A store is a folder of flat arrays and a manifest. Its name holds the hash of everything its
content depends on, so a finished store is never changed: it is found and used, or built beside.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gnomon.errors import DataError
from gnomon.files import atomic_folder
from gnomon.text.corpus import Pair, ParallelCorpus
from gnomon.text.tokenizer import UNK_ID
from gnomon.text.tokenizer_pair import TokenizerPair

FORMAT_VERSION = 1
_MANIFEST = "manifest.json"
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


class TokenStore:
    """Encoded pairs of a corpus; lengths count the special symbols the batch will add.

    Attributes:
        source_lengths: tokens of each source with its end of sentence, int64 [num_pairs].
        target_lengths: tokens of each target with begin and end of sentence, int64 [num_pairs].
        line_numbers: each pair's line in the raw files, from 1, int64 [num_pairs].
        report: what was kept and left out when the store was built.
        reused: True where `build` found the store finished.
    """

    def __init__(self, folder: str | Path) -> None:
        """Open a finished store.

        Raises:
            DataError: no store, one of another version, or a damaged one.
        """
        self.folder = Path(folder)
        self.reused = True
        self.manifest = _read_manifest(self.folder)
        self.report = _report_from(self.manifest["report"])
        self._source_ids = self._array("source.ids")
        self._target_ids = self._array("target.ids")
        self._source_offsets = self._array("source.offsets")
        self._target_offsets = self._array("target.offsets")
        self.line_numbers = self._array("line_numbers")
        self.source_lengths = np.diff(self._source_offsets) + 1
        self.target_lengths = np.diff(self._target_offsets) + 2
        self._check_offsets()

    def __len__(self) -> int:
        return len(self.line_numbers)

    def source(self, index: int) -> NDArray[Any]:
        """Ids of source `index`, without special symbols: uint16 or uint32, read-only."""
        return self._source_ids[self._source_offsets[index] : self._source_offsets[index + 1]]

    def target(self, index: int) -> NDArray[Any]:
        """Ids of target `index`, without special symbols: uint16 or uint32, read-only."""
        return self._target_ids[self._target_offsets[index] : self._target_offsets[index + 1]]

    @classmethod
    def build(
        cls,
        folder: str | Path,
        corpus: ParallelCorpus,
        tokenizers: TokenizerPair,
        *,
        max_length: int | None = None,
        on_too_long: Literal["drop", "error"] = "drop",
        progress: Callable[[int], None] | None = None,
    ) -> TokenStore:
        """Return the store of `corpus` under `folder`, building it unless it is there already.

        Pairs with an empty side cannot be learned from and are left out; so are pairs with more
        than `max_length` tokens on a side (end of sentence included) unless `on_too_long` is
        "error". Both are counted in `report`. Several processes may build at once.

        Args:
            folder: where stores are kept, each in a folder of its own.
            corpus: what to encode.
            tokenizers: how.
            max_length: tokens; None for no limit.
            on_too_long: "drop" or "error".
            progress: called with the number of pairs read so far.

        Raises:
            DataError: a line is no valid text, a pair is too long, or no pair is left.
        """
        key = _key(corpus, tokenizers, max_length, on_too_long)
        place = Path(folder) / f"{corpus.name}-{key[:16]}"
        try:
            return cls(place)
        except DataError:  # absent or damaged: build it
            pass
        try:
            with atomic_folder(place) as temporary:
                builder = _Builder(temporary, tokenizers, max_length, on_too_long)
                builder.add_all(corpus, progress)
                builder.finish(corpus, key)
        except OSError:
            # Another process may have put the same store there between our look and our rename.
            if not place.exists():
                raise
        store = cls(place)
        store.reused = False
        return store

    def _array(self, name: str) -> NDArray[Any]:
        described = self.manifest["arrays"][name]
        path = self.folder / name
        dtype = np.dtype(described["dtype"])
        expected = described["length"] * dtype.itemsize
        actual = path.stat().st_size if path.exists() else -1
        if actual != expected:
            raise _damaged(self.folder, f"{name}: {actual} bytes where {expected} were written")
        if expected == 0:  # an empty file cannot be mapped
            return np.zeros(0, dtype)
        return np.memmap(path, dtype, mode="r")

    def _check_offsets(self) -> None:
        num_pairs = self.manifest["report"]["num_pairs"]
        for offsets, ids in (
            (self._source_offsets, self._source_ids),
            (self._target_offsets, self._target_ids),
        ):
            fits = len(offsets) == num_pairs + 1 and offsets[0] == 0 and offsets[-1] == len(ids)
            if not fits or len(self.line_numbers) != num_pairs:
                raise _damaged(self.folder, "arrays that do not belong together")


class _Builder:
    """Writes ids as they come; only offsets and line numbers stay in memory."""

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

    def add_all(self, corpus: ParallelCorpus, progress: Callable[[int], None] | None) -> None:
        num_read = 0
        with self.source.file, self.target.file:
            for chunk in _chunks(corpus.pairs()):
                self._add(chunk, corpus)
                num_read += len(chunk)
                if progress is not None:
                    progress(num_read)

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
        longest = max(source, target) + 1  # end of sentence
        if self.max_length is None or longest <= self.max_length:
            return True
        if self.on_too_long == "error":
            raise DataError(
                f"no side of a pair may have more than {self.max_length} tokens",
                seen=f"{corpus.files[0]}, line {pair.line}: {longest} tokens",
                mend='raise data.max_length, or set data.on_too_long = "drop"',
            )
        self.report.omit(f"more than {self.max_length} tokens", pair.line)
        return False

    def finish(self, corpus: ParallelCorpus, key: str) -> None:
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
            "arrays": {n: {"dtype": d.str, "length": length} for n, (d, length) in arrays.items()},
            "report": asdict(report),
        }
        text = json.dumps(manifest, indent=1, ensure_ascii=False) + "\n"
        (self.folder / _MANIFEST).write_text(text, encoding="utf-8")


class _SideWriter:
    """Appends one side's ids to a file and remembers where each text ends."""

    def __init__(self, path: Path, vocab_size: int) -> None:
        self.file = path.open("wb")
        self.dtype: np.dtype[Any] = np.dtype("<u2" if vocab_size <= 1 << 16 else "<u4")
        self._vocab_size = vocab_size
        self._lengths: list[NDArray[np.int64]] = [np.zeros(1, np.int64)]
        self._num_unknown = 0

    def write(self, rows: list[list[int]]) -> None:
        flat = np.array([index for row in rows for index in row], np.int64)
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


def _key(
    corpus: ParallelCorpus,
    tokenizers: TokenizerPair,
    max_length: int | None,
    on_too_long: str,
) -> str:
    parts = [FORMAT_VERSION, corpus.fingerprint, tokenizers.fingerprint, max_length, on_too_long]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _read_manifest(folder: Path) -> dict[str, Any]:
    try:
        manifest = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(
            "a token store must hold a manifest", seen=folder, mend="run gnomon prepare"
        ) from None
    except (OSError, ValueError) as error:
        raise _damaged(folder, str(error)) from error
    if not isinstance(manifest, dict) or manifest.get("format_version") != FORMAT_VERSION:
        raise DataError(
            f"a token store must have format {FORMAT_VERSION}",
            seen=folder,
            mend=f"remove {folder}; it is built again from the text",
        )
    return manifest


def _report_from(values: dict[str, Any]) -> BuildReport:
    omitted = {reason: Omission(**omission) for reason, omission in values["omitted"].items()}
    return BuildReport(**{**values, "omitted": omitted})


def _damaged(folder: Path, what: str) -> DataError:
    return DataError(
        "a token store must be whole",
        seen=f"{folder}: {what}",
        mend=f"remove {folder}; it is built again from the text",
    )

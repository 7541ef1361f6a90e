"""One pass over a corpus that judges every pair; the verdicts are kept beside the token stores.

Verdicts are one byte a pair on disk. Reading a cleaned corpus streams them beside the text, so
neither judging nor reading holds anything of the size of the corpus.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from gnomon.errors import DataError
from gnomon.files import atomic_folder, lock_beside, sha256_of
from gnomon.text.cleaning import EMPTY_SIDE, CleaningConfig
from gnomon.text.cleaning_controls import mend_controls
from gnomon.text.cleaning_filters import FILTERS, Chunk
from gnomon.text.cleaning_report import CleaningReport, FindingsFile
from gnomon.text.corpus import Pair, ParallelCorpus, in_chunks
from gnomon.text.key_file import NO_KEY, KeyFile
from gnomon.text.lines import in_step

FINDINGS = "omitted.tsv"
_MANIFEST = "manifest.json"
_VERDICTS = "verdicts"
_FORMAT_VERSION = 2
_CHUNK_PAIRS = 8192
_CHUNK_CHARACTERS = 1_000_000
_BLOCK = 1 << 16  # verdicts read at a time

_KEPT, _REPAIRED, _REPEATED = 1, 2, 4  # bits of a verdict


@dataclass(frozen=True)
class Cleaned:
    """A corpus as it is learned from, and what was found in it.

    Attributes:
        corpus: the corpus itself where nothing was dropped or repaired.
        report: counts and first lines by reason.
        findings: TSV with every line, its reason, what was done and what was seen.
    """

    corpus: ParallelCorpus
    report: CleaningReport
    findings: Path


def clean(corpus: ParallelCorpus, config: CleaningConfig, folder: str | Path) -> Cleaned:
    """Judge every pair of `corpus`, or find the verdicts under `folder` from an earlier time.

    Raises:
        DataError: a line is no valid text, the options do not fit together, or nothing is left.
    """
    if problems := config.problems():
        raise DataError("the cleaning options must fit together", seen="; ".join(problems))
    parts = [_FORMAT_VERSION, corpus.fingerprint, asdict(config)]
    key = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
    place = Path(folder) / f"cleaned-{corpus.name}-{key[:16]}"
    try:
        with lock_beside(place):  # another process may be judging the same text
            report = _read_report(place)
            if report is None:
                with atomic_folder(place) as temporary:
                    report = _judge_into(temporary, corpus, config)
    except OSError as error:
        raise DataError(
            "the verdicts of cleaning must be written whole",
            seen=f"{place}: {error}",
            mend="make room on that disk, or keep the run in another folder",
        ) from error
    if report.num_kept == 0:
        counts = ", ".join(f"{found.count} {reason}" for reason, found in report.in_order())
        raise DataError(
            f"the {corpus.name} text must hold pairs to use",
            seen=f"{', '.join(map(str, corpus.files))}: left out {counts}",
            mend="check that these are the right files, and the actions in [cleaning]",
        )
    if report.num_dropped or report.num_repaired:
        corpus = corpus.through(Verdicts(place / _VERDICTS, report.num_kept))
    return Cleaned(corpus, report, place / FINDINGS)


def look(corpus: ParallelCorpus, config: CleaningConfig) -> CleaningReport:
    """Judge every pair and keep nothing but the counts."""
    with TemporaryDirectory(prefix="gnomon-cleaning-") as folder:
        return judge(corpus, config, Path(folder))


def judge(corpus: ParallelCorpus, config: CleaningConfig, folder: Path) -> CleaningReport:
    """Write the verdicts and the findings of `corpus` into `folder`, and count them."""
    report = CleaningReport()
    with ExitStack() as files:
        scratch = Path(files.enter_context(TemporaryDirectory(dir=folder)))
        text = files.enter_context((folder / FINDINGS).open("w", encoding="utf-8", newline="\n"))
        verdicts = files.enter_context((folder / _VERDICTS).open("wb"))
        lines = files.enter_context((scratch / "lines").open("wb"))
        keys = {
            name: files.enter_context(KeyFile(scratch / name))
            for name in ("duplicate_pair", "duplicate_source", "duplicate_target")
        }
        judging = _Judging(corpus, config, report, FindingsFile(text))
        chunks = in_chunks(corpus.pairs(), num_pairs=_CHUNK_PAIRS, num_characters=_CHUNK_CHARACTERS)
        for pairs in chunks:
            states = judging.states(pairs)
            verdicts.write(states.tobytes())
            lines.write(np.array([pair.line for pair in pairs], "<i8").tobytes())
            for name, row_keys in _keys(pairs, states).items():
                keys[name].add(row_keys)
        verdicts.close()
        lines.close()
        if report.num_pairs:
            judging.repeats(keys, folder / _VERDICTS, scratch / "lines")
    return report


class Verdicts:
    """What to leave out of a corpus and what to repair in it, streamed beside its pairs."""

    def __init__(self, path: Path, num_kept: int) -> None:
        self._path = path
        self._num_kept = num_kept
        self.fingerprint = sha256_of(path)

    def __len__(self) -> int:
        """Pairs that are kept."""
        return self._num_kept

    def apply(self, pairs: Iterator[Pair]) -> Iterator[Pair]:
        """Yield the pairs that are kept, repaired where that was the verdict."""
        for pair, verdict in in_step(pairs, self._stream()):
            if not verdict & _KEPT:
                continue
            if verdict & _REPAIRED:
                source, target = mend_controls(pair.source), mend_controls(pair.target)
                yield pair._replace(source=source, target=target)
            else:
                yield pair

    def _stream(self) -> Iterator[int]:
        with self._path.open("rb") as file:
            while block := file.read(_BLOCK):
                yield from block


class _Judging:
    """Applies the filters chunk by chunk, and the search for repeats at the end."""

    def __init__(
        self,
        corpus: ParallelCorpus,
        config: CleaningConfig,
        report: CleaningReport,
        findings: FindingsFile,
    ) -> None:
        self.corpus = corpus
        self.config = config
        self.report = report
        self.findings = findings

    def states(self, pairs: list[Pair]) -> NDArray[np.uint8]:
        """Return the verdict on each pair, repeats aside."""
        states = np.full(len(pairs), _KEPT, np.uint8)
        chunk = Chunk(pairs)
        empty: set[int] = set()
        for reason, filter_ in FILTERS.items():
            action = self.config.action(reason)
            seen: set[int] = set()
            # One side after the other is how filters look; in the order of the lines is how
            # people read.
            for row, detail in sorted(filter_(chunk, self.config), key=itemgetter(0)):
                if row in empty:
                    continue
                self._note(reason, action, pairs[row].line, detail, again=row in seen)
                seen.add(row)
                if action == "drop":
                    states[row] &= ~np.uint8(_KEPT)
                elif action == "repair":
                    states[row] |= _REPAIRED
            if reason == EMPTY_SIDE:
                empty = seen
        states[(states & _KEPT) == 0] = 0  # what is left out need not be repaired
        self.report.num_pairs += len(pairs)
        self.report.num_dropped += int((states == 0).sum())
        self.report.num_repaired += int((states & _REPAIRED != 0).sum())
        return states

    def repeats(self, keys: dict[str, KeyFile], verdicts: Path, lines: Path) -> None:
        """Look for what stands in an earlier line, and change the verdicts."""
        states = np.memmap(verdicts, np.uint8, "r+")
        numbers = np.memmap(lines, "<i8", "r")
        for reason, file in keys.items():
            action = self.config.action(reason)
            for found in file.repeated():
                # A pair that is repeated as a whole says nothing new by its sides.
                new = states[found.rows] & (_REPEATED | _KEPT) == _KEPT
                rows, first = found.rows[new], found.first[new]
                for line, other in zip(
                    numbers[rows].tolist(), numbers[first].tolist(), strict=True
                ):
                    self._note(reason, action, line, f"as line {self.corpus.spot(other)}")
                if reason == "duplicate_pair":
                    states[rows] |= _REPEATED
                if action == "drop":
                    self.report.num_dropped += len(rows)
                    self.report.num_repaired -= int((states[rows] & _REPAIRED != 0).sum())
                    states[rows] = 0
        states.flush()

    def _note(
        self, reason: str, action: str, line: int, detail: str, *, again: bool = False
    ) -> None:
        self.findings.add(self.corpus.spot(line), reason, action, detail)
        if not again:  # both sides show it: one pair
            self.report.add(reason, action, line, detail)


def _keys(pairs: list[Pair], states: NDArray[np.uint8]) -> dict[str, NDArray[np.uint64]]:
    """Hashes of the pairs and their sides; under other tags a text is another one.

    Python's own hash of a text differs from process to process, but not which texts are equal.
    """
    num_pairs = len(pairs)
    keys = {
        "duplicate_pair": (hash((p.source, p.target, p.tags)) for p in pairs),
        "duplicate_source": (hash((p.source, p.tags)) for p in pairs),
        "duplicate_target": (hash((p.target, p.tags)) for p in pairs),
    }
    arrays = {}
    for name, values in keys.items():
        array = np.fromiter(values, np.int64, num_pairs).view(np.uint64)
        array[array == NO_KEY] = 1
        array[states == 0] = NO_KEY
        arrays[name] = array
    return arrays


def _judge_into(folder: Path, corpus: ParallelCorpus, config: CleaningConfig) -> CleaningReport:
    report = judge(corpus, config, folder)
    manifest = {
        "format_version": _FORMAT_VERSION,
        "report": report.to_dict(),
        "sha256": sha256_of(folder / _VERDICTS, folder / FINDINGS),
    }
    text = json.dumps(manifest, indent=1, ensure_ascii=False) + "\n"
    (folder / _MANIFEST).write_text(text, encoding="utf-8")
    return report


def _read_report(folder: Path) -> CleaningReport | None:
    """The report of an earlier time, None where there is none or it is damaged."""
    try:
        manifest = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
        report = CleaningReport.of(manifest["report"])
        whole = manifest["sha256"] == sha256_of(folder / _VERDICTS, folder / FINDINGS)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return report if whole else None

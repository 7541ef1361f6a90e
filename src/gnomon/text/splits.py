"""The corpora of a run: what is trained on, validated on and tested on, and what they share."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gnomon.errors import DataError
from gnomon.files import write_atomically
from gnomon.text.corpus import ParallelCorpus
from gnomon.text.occurrences import Occurrences
from gnomon.text.overlap import find_overlap
from gnomon.text.sources import DataConfig, SourceConfig, Split
from gnomon.text.text_source import TextSource

_CACHE_VERSION = 2


@dataclass(frozen=True)
class SplitReport:
    """What the splits share; a source counts as the same up to case and blanks."""

    held_out: int  # training pairs set aside for validation
    valid_in_train: Occurrences  # validation pairs whose source is trained on
    test_in_train: Occurrences  # test pairs whose source is trained on
    line_breaks: Occurrences  # training pairs in which a line break became a blank


@dataclass(frozen=True)
class Corpora:
    """The splits of a run."""

    train: ParallelCorpus
    valid: ParallelCorpus | None
    test: ParallelCorpus | None
    report: SplitReport
    terms: TextSource | None = None  # the last part of the training text, where it was added

    def with_terms(self, file: str, weight: float) -> Corpora:
        """Add a file of pairs to the training text; what is held out stays as it is.

        Args:
            file: TSV, JSON lines or Parquet.
            weight: times that an epoch shows each of its pairs.

        Raises:
            DataError: the file cannot be used.
        """
        terms = TextSource(SourceConfig(pairs=file, weight=weight))
        return replace(self, train=self.train.and_then(terms), terms=terms)


def open_corpora(config: DataConfig, cache: Path | None = None) -> Corpora:
    """Open every split, and find out what they share.

    Where no validation files are given, pairs are set aside by the hash of their source: the
    same corpus gives the same pairs, in whatever order its lines stand, and pairs with the same
    source stay on one side.

    What was found is kept under `cache` by the hash of all files. Their bytes are read once to
    compare it, every time: a date and a size would not show every change. Counting, decoding and
    hashing the lines, which takes far longer, is done only when a file is new. Memory does not
    grow with the training text.

    Raises:
        DataError: options that contradict, files that cannot be read, lines that do not pair up.
    """
    _check(config)
    if not config.split("train"):
        raise DataError(
            "training text must be given, none is",
            mend="give --src and --tgt, or --data; or set data.source and data.target, or "
            "data.pairs, or list [[data.sources]]",
        )
    texts = {split: _texts(config, split) for split in _SPLITS}
    place = None
    if cache is not None:
        prints = {split: [text.fingerprint for text in texts[split]] for split in _SPLITS}
        key = json.dumps([_CACHE_VERSION, prints, config.holdout])
        place = cache / f"splits-{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"
    found = _read(place)
    if found is None:
        found = _examine(texts, config.holdout, cache)
        if place is not None:
            write_atomically(place, json.dumps(found) + "\n")
    return _put_together(texts, found)


def open_split(config: DataConfig, split: Split) -> ParallelCorpus | None:
    """Open a split for which files are given, and read no other; None where there are none.

    Raises:
        DataError: as `open_corpora`.
    """
    _check(config)
    texts = _texts(config, split)
    return ParallelCorpus.of(split, texts) if texts else None


_SPLITS: tuple[Split, ...] = ("train", "valid", "test")


def _check(config: DataConfig) -> None:
    if problems := config.problems():
        raise DataError("the data options must fit together", seen="; ".join(problems))


def _texts(config: DataConfig, split: Split) -> list[TextSource]:
    return [TextSource(source) for source in config.split(split)]


def _examine(
    texts: dict[Split, list[TextSource]], holdout: int, scratch: Path | None
) -> dict[str, Any]:
    """Read everything once: what JSON can keep of it, and all that opening it again needs."""
    whole = {split: ParallelCorpus.of(split, texts[split]) for split in _SPLITS if texts[split]}
    train, valid, test = whole["train"], whole.get("valid"), whole.get("test")
    breaks = Occurrences()
    num_wanted = min(holdout, len(train) // 10) if valid is None else 0
    overlap = find_overlap(train, [valid, test], num_wanted, breaks, scratch)
    report = SplitReport(
        held_out=len(overlap.held_out),
        valid_in_train=overlap.others[0],
        test_in_train=overlap.others[1],
        line_breaks=breaks,
    )
    counts = {split: [p.stop - p.start for p in corpus.parts] for split, corpus in whole.items()}
    return {"counts": counts, "held_out": overlap.held_out, "report": asdict(report)}


def _put_together(texts: dict[Split, list[TextSource]], found: dict[str, Any]) -> Corpora:
    whole = {
        split: ParallelCorpus.of(split, texts[split], found["counts"][split])
        for split in _SPLITS
        if texts[split]
    }
    train, valid = whole["train"], whole.get("valid")
    if found["held_out"]:
        rows = np.array(found["held_out"], np.int64)
        train, valid = train.without("train", rows), train.select("valid", rows)
    report: dict[str, Any] = {
        name: value if isinstance(value, int) else Occurrences(**value)
        for name, value in found["report"].items()
    }
    return Corpora(train, valid, whole.get("test"), SplitReport(**report))


def _read(place: Path | None) -> dict[str, Any] | None:
    """What was kept; None where it is not there or was damaged, to be found anew."""
    if place is None:
        return None
    try:
        found: dict[str, Any] = json.loads(place.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return found if found.keys() == {"counts", "held_out", "report"} else None

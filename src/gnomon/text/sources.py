"""Where text comes from: one or several sources for each split, their tags and their weights."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

MAX_WEIGHT = 1000.0  # the examples of an epoch are listed in memory

OnTooLong = Literal["drop", "cut", "error"]
PairFormat = Literal["auto", "tsv", "jsonl", "parquet"]
Split = Literal["train", "valid", "test"]

# In front of a source text a tag is one id. Names of the ids that every vocabulary holds are taken.
_TAG = re.compile(r"<(?!(?:pad|unk|s|/s|0x[0-9A-F]{2})>)[A-Za-z0-9_:+./-]{1,32}>")


@dataclass(frozen=True, kw_only=True)
class SourceConfig:
    """One source of a split: two files whose line i belong together, or one file of pairs."""

    name: str = ""  # what messages call it; default: its files
    source: str | None = None  # one text a line
    target: str | None = None  # its translation, line by line
    pairs: str | None = None  # in place of the two: TSV, JSON lines or Parquet
    format: PairFormat = "auto"  # of `pairs`; "auto" goes by the name, and takes the rest for TSV
    source_field: str = "source"  # of JSON lines and Parquet; "translation.en" looks inside
    target_field: str = "target"
    weight: float = 1.0  # times that a pair is seen per epoch, on average and as evenly as can be
    tags: tuple[str, ...] = ()  # put in front of each source text, one id each: ["<2de>", "<news>"]

    paths: ClassVar[tuple[str, ...]] = ("source", "target", "pairs")

    def problems(self, key: str) -> list[str]:
        """Return every rule broken, each beginning with `key`; empty if all is well."""
        found = [f"{key}.{problem}" for problem in self._file_problems()]
        found += [f"{key}.tags: {problem}" for problem in tag_problems(self.tags)]
        if not (math.isfinite(self.weight) and self.weight > 0):
            found.append(f"{key}.weight must be above 0, is {self.weight}: leave the source out")
        elif self.weight > MAX_WEIGHT:
            found.append(
                f"{key}.weight must be at most {MAX_WEIGHT:g}, is {self.weight:g}: an epoch would "
                "be that many passes; lower the weights of the other sources instead"
            )
        return found

    def _file_problems(self) -> Iterator[str]:
        if self.pairs is not None and (self.source is not None or self.target is not None):
            yield "pairs cannot stand beside source and target: give one file or two"
        elif self.pairs is None and (self.source is None or self.target is None):
            missing = "source" if self.source is None else "target"
            if self.source is None and self.target is None:
                missing += " (or pairs)"
            yield f"{missing} is missing: set it"

    @property
    def files(self) -> tuple[str, ...]:
        """The files' paths: one or two."""
        both = (self.pairs,) if self.pairs is not None else (self.source, self.target)
        return tuple(file for file in both if file is not None)


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Which files hold the text, and which pairs of them are learned from.

    Each split is two files whose line i belong together, or one file of pairs (TSV, JSON lines,
    Parquet), or a list of sources (`[[data.sources]]`, `[[data.valid]]`, `[[data.test]]`). Every
    file may be gzip. JSON lines and Parquet hold texts with line breaks: each becomes a blank.
    """

    source: str | None = None  # training text, one sentence a line
    target: str | None = None  # its translation, line by line
    pairs: str | None = None  # in place of the two: source TAB target, JSON lines or Parquet
    valid_source: str | None = None
    valid_target: str | None = None
    valid_pairs: str | None = None
    test_source: str | None = None
    test_target: str | None = None
    test_pairs: str | None = None
    format: PairFormat = "auto"  # of the files of pairs above
    source_field: str = "source"  # of those that are JSON lines or Parquet
    target_field: str = "target"
    sources: tuple[SourceConfig, ...] = ()  # in place of source and target: several, with weights
    valid: tuple[SourceConfig, ...] = ()  # in place of valid_source and valid_target
    test: tuple[SourceConfig, ...] = ()
    holdout: int = 1000  # pairs kept from training to validate on, where no validation files are
    #                      given; never more than a tenth of the training pairs
    max_length: int = 256  # tokens of either side, tags and end of sentence included
    # longer pairs: left out and counted, or refused; "cut" leaves out the end of a longer source
    # (as where titles are learned from documents), and pairs whose target is longer
    on_too_long: OnTooLong = "drop"
    # Variants of the training text in the token store, where BPE-dropout or augmentation leaves
    # something to chance; epoch e reads number e mod these.
    variants: int = 8

    paths: ClassVar[tuple[str, ...]] = (
        *("source", "target", "pairs"),
        *("valid_source", "valid_target", "valid_pairs"),
        *("test_source", "test_target", "test_pairs"),
    )

    def problems(self) -> list[str]:
        """Return every rule broken across fields; empty if all is well."""
        found = []
        for split, prefix, table in _SPLITS:
            source, target, pairs = self._flat(prefix)
            several: tuple[SourceConfig, ...] = getattr(self, table)
            given = [key for key in _FLAT if getattr(self, prefix + key) is not None]
            if several and given:
                found.append(
                    f"data.{prefix}{given[0]} cannot stand beside [[data.{table}]]: add it there"
                )
            elif pairs is not None and (source is not None or target is not None):
                found.append(
                    f"data.{prefix}pairs cannot stand beside data.{prefix}source and "
                    f"data.{prefix}target: give one file or two"
                )
            elif (source is None) != (target is None):
                missing, option = ("source", "--src") if source is None else ("target", "--tgt")
                mend = f"set it{'' if prefix else f', or give {option}'}"
                found.append(f"data.{prefix}{missing} is missing beside the other side: {mend}")
            for number, one in enumerate(several):
                found += one.problems(f"data.{table}[{number}]")
                if split != "train" and one.weight != 1.0:
                    found.append(
                        f"data.{table}[{number}].weight has no meaning, as every pair is judged "
                        "once: remove it"
                    )
        if self.holdout < 0:
            found.append(f"data.holdout must be 0 or more, is {self.holdout}")
        if not 1 <= self.variants <= 100:
            found.append(f"data.variants must be from 1 to 100, is {self.variants}: set it to 8")
        if self.max_length < 2:
            found.append(f"data.max_length must be 2 or more, is {self.max_length}: set it to 256")
        return found

    def unused(self) -> list[str]:
        """Return a sentence for each key that has no effect beside the others."""
        found = []
        if self.split("valid") and self.holdout != DataConfig.holdout:
            found.append("data.holdout has no effect beside validation text")
        splits = [(prefix, table) for name, prefix, table in _SPLITS if self.split(name)]
        if splits and all(getattr(self, f"{prefix}pairs") is None for prefix, _ in splits):
            found += [
                f"data.{key} has no effect: it is of data.pairs, and a source has its own"
                for key in _OF_PAIRS
                if getattr(self, key) != getattr(DataConfig, key)
            ]
        for _, table in splits:
            for number, one in enumerate(getattr(self, table)):
                found += [
                    f"data.{table}[{number}].{key} has no effect without pairs"
                    for key in _OF_PAIRS
                    if one.pairs is None and getattr(one, key) != getattr(SourceConfig, key)
                ]
        return found

    def split(self, split: Split) -> tuple[SourceConfig, ...]:
        """Return the sources of a split, however they were given; none where it has no text."""
        ((prefix, table),) = [(p, t) for name, p, t in _SPLITS if name == split]
        source, target, pairs = self._flat(prefix)
        if source is None and pairs is None:
            several: tuple[SourceConfig, ...] = getattr(self, table)
            return several
        return (
            SourceConfig(
                source=source,
                target=target,
                pairs=pairs,
                format=self.format,
                source_field=self.source_field,
                target_field=self.target_field,
            ),
        )

    @property
    def tags(self) -> tuple[str, ...]:
        """Every tag of every split, in the order of first mention."""
        every = (tag for table in _TABLES for one in getattr(self, table) for tag in one.tags)
        return tuple(dict.fromkeys(every))

    def _flat(self, prefix: str) -> tuple[str | None, str | None, str | None]:
        source, target, pairs = (getattr(self, prefix + key) for key in _FLAT)
        return source, target, pairs


_FLAT = ("source", "target", "pairs")
_OF_PAIRS = ("format", "source_field", "target_field")
_SPLITS: tuple[tuple[Split, str, str], ...] = (
    ("train", "", "sources"),
    ("valid", "valid_", "valid"),
    ("test", "test_", "test"),
)
_TABLES = tuple(table for _, _, table in _SPLITS)

SOURCE_TABLES = _TABLES
"""The keys of `DataConfig` that hold lists of sources."""


def tag_problems(tags: Sequence[str]) -> list[str]:
    """Return what is wrong with a list of tags."""
    found = [
        f"{tag!r} is no tag: write <name>, of up to 32 letters, digits and _:+./-, such as <2de>; "
        "<pad>, <unk>, <s>, </s> and <0x..> are taken"
        for tag in tags
        if not _TAG.fullmatch(tag)
    ]
    if len(set(tags)) < len(tags):
        found.append(f"{', '.join(tags)}: name each tag once")
    return found

"""Texts with labels: one text or two, and one label, any number of labels, or one for each word."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from gnomon.errors import DataError, excerpt
from gnomon.text.table_file import TableFile, TableFormat

LabelKind = Literal["single", "multi", "words"]
_BREAK = re.compile(r"\s*[\r\n]\s*")
_SHOWN = 60
_SPLITS = ("train", "valid", "test")


@dataclass(frozen=True, kw_only=True)
class LabelledDataConfig:
    """Which files hold labelled texts, and how their columns are called.

    CSV, TSV, JSON lines or Parquet, gzip or not. A column is a name of the first line, or a number
    from 1 in a file without a head; in JSON lines and Parquet a field.
    """

    train: str | None = None
    valid: str | None = None
    test: str | None = None
    format: TableFormat = "auto"  # by the file's name; unknown names are TSV
    text: str | int = "text"
    pair: str | int | None = None  # column of a second text, such as a hypothesis or an answer
    label: str | int = "label"
    # single: one label a text; multi: any number, none included; words: one for each word, as in
    # tagging (texts and labels split at blanks, or lists in JSON lines and Parquet)
    labels_are: LabelKind = "single"
    separator: str = ","  # between the labels of one text in CSV and TSV, with "multi"
    labels: tuple[str, ...] = ()  # all there may be, in their order; default: those of the training
    holdout: int = 1000  # texts kept from training to validate on, where no validation file is
    #                      given; never more than a tenth of the training texts
    max_length: int = 256  # tokens of a row, special ones included
    # rows that are longer: their end is left out and they are counted, or they are refused
    on_too_long: Literal["cut", "error"] = "cut"

    paths: ClassVar[tuple[str, ...]] = _SPLITS

    def problems(self) -> list[str]:
        """Return every rule broken across fields; empty if all is well."""
        found = []
        if self.holdout < 0:
            found.append(f"data.holdout must be 0 or more, is {self.holdout}")
        if self.max_length < 4:
            found.append(
                f"data.max_length must be 4 or more (special tokens count), is {self.max_length}"
            )
        if self.labels_are == "words" and self.pair is not None:
            found.append(
                "data.pair cannot stand beside labels_are = 'words': words of one text are labelled"
            )
        if odd := [label for label in self.labels if not label.strip() or not is_plain(label)]:
            found.append(
                f"data.labels must each be one line that is not blank, without TABs, is {odd[0]!r}"
            )
        if not self.separator:
            found.append("data.separator must not be empty")
        if len(set(self.labels)) < len(self.labels):
            found.append(f"data.labels must not repeat: {', '.join(self.labels)}")
        if len(self.labels) == 1 and self.labels_are != "multi":
            found.append(f"data.labels must be two or more, is {self.labels[0]!r} alone")
        columns = [*self.text_columns, self.label_column]
        if len(set(columns)) < len(columns):
            found.append(f"data.text, pair and label must be columns of their own: {columns}")
        return found

    @property
    def text_columns(self) -> list[str]:
        """The columns of the text, and of the second one if there is one."""
        return [str(name) for name in (self.text, self.pair) if name is not None]

    @property
    def label_column(self) -> str:
        """The column of the label."""
        return str(self.label)

    def unused(self) -> list[str]:
        """Return every key that has no effect beside the others."""
        if self.labels_are != "multi" and self.separator != LabelledDataConfig.separator:
            return ["data.separator has no effect: only labels_are = 'multi' splits a label"]
        return []


@dataclass(frozen=True, slots=True)
class Labelled:
    """One example.

    Attributes:
        row: its number in its file, from 1, a head counted, as messages about the file count.
        text: without line breaks; with word labels its words with a blank between them.
        pair: the second text, if there are two.
        labels: one; or any number, each once; or one for each word of `text`.
    """

    row: int
    text: str
    pair: str | None
    labels: tuple[str, ...]


@dataclass(frozen=True)
class LabelledText:
    """The examples of one file, or those set aside of it.

    Attributes:
        name: of the split, for messages.
        path: the file.
        examples: in the order of the file.
        num_breaks: texts in which line breaks became blanks.
        fingerprint: hex digest of all that is learned from.
    """

    name: str
    path: Path
    examples: list[Labelled]
    num_breaks: int
    fingerprint: str

    @classmethod
    def of(cls, name: str, path: Path, examples: list[Labelled], num_breaks: int) -> LabelledText:
        """The same with its fingerprint."""
        digest = hashlib.sha256()
        for one in examples:
            digest.update(repr((one.text, one.pair, one.labels)).encode("utf-8"))
        return cls(name, path, examples, num_breaks, digest.hexdigest())

    @property
    def texts(self) -> list[str]:
        """The first text of each example."""
        return [one.text for one in self.examples]

    @property
    def pairs(self) -> list[str] | None:
        """The second text of each; None where there is one alone."""
        found = [one.pair for one in self.examples if one.pair is not None]
        return found or None

    def label_counts(self) -> Counter[str]:
        """How often each label stands."""
        return Counter(label for one in self.examples for label in one.labels)


@dataclass(frozen=True)
class LabelledSplits:
    """The texts of a run and the labels there are.

    Attributes:
        labels: in the order of the model's outputs.
        held_out: training texts that were set aside for validation.
        seen_before: of "valid" and "test", rows whose text is also trained on.
    """

    train: LabelledText
    valid: LabelledText | None
    test: LabelledText | None
    labels: tuple[str, ...]
    held_out: int
    seen_before: dict[str, list[int]]


def open_labelled(config: LabelledDataConfig) -> LabelledSplits:
    """Read every split.

    Where no validation file is given, texts are set aside by their hash: the same file gives the
    same ones, in whatever order it stands, and equal texts stay on one side.

    Raises:
        DataError: no training file, files that cannot be read, labels that are missing or unknown.
    """
    if config.train is None:
        raise DataError(
            "labelled text to train on must be given, none is",
            mend="give --data FILE, or set data.train",
        )
    train = read_labelled(config, "train", config.train)
    labels = _labels(config, train)
    valid = None if config.valid is None else read_labelled(config, "valid", config.valid)
    test = None if config.test is None else read_labelled(config, "test", config.test)
    for split in (valid, test):
        if split is not None:
            check_labels(split, labels)
    held_out = 0
    if valid is None and config.holdout:
        train, valid = _set_aside(train, config.holdout)
        if valid is not None:
            _refuse_wordless(config, valid)
        held_out = 0 if valid is None else len(valid.examples)
    known = {_same(one) for one in train.examples}
    seen = {
        split.name: [one.row for one in split.examples if _same(one) in known]
        for split in (valid, test)
        if split is not None
    }
    return LabelledSplits(train, valid, test, labels, held_out, seen)


def read_labelled(
    config: LabelledDataConfig, name: str, file: str | Path, *, with_labels: bool = True
) -> LabelledText:
    """Read one file.

    Args:
        name: of the split, for messages.
        with_labels: False reads texts alone, for a file that holds no labels.

    Raises:
        DataError: it cannot be read, holds no examples, or a row lacks a text or a label.
    """
    path = Path(file)
    label = config.label_column
    keys = [*config.text_columns, *([label] if with_labels else [])]
    table = TableFile(
        path,
        tuple(keys),
        config.format,
        naming="name the columns: data.text, data.pair and data.label in a recipe, --text, --pair "
        "and --label on the command line",
    )
    examples, num_breaks = [], 0
    for row, values in enumerate(table.rows(), start=1):
        number = row + table.has_head
        named = dict(zip(keys, values, strict=True))
        if config.labels_are == "words":
            words = _words(table, named[keys[0]], row, keys[0])
            labels = _words(table, named[label], row, label) if with_labels else ()
            if with_labels and len(words) != len(labels):
                raise DataError(
                    "every word needs a label",
                    seen=f"{table.place(row, label)}: {len(words)} words, {len(labels)} labels",
                )
            examples.append(Labelled(number, " ".join(words), None, tuple(labels)))
            continue
        texts = [table.text(named[key], row, key) for key in keys[: len(keys) - with_labels]]
        flat = [one_line(text) for text in texts]
        num_breaks += any(_BREAK.search(text.strip()) for text in texts)
        given = _given(config, table, named[label], row) if with_labels else ()
        examples.append(Labelled(number, flat[0], flat[1] if len(flat) > 1 else None, given))
    if not examples:
        raise DataError("a file of labelled texts must hold some", seen=f"{path}: none")
    found = LabelledText.of(name, path, examples, num_breaks)
    if with_labels:
        _refuse_wordless(config, found)
    return found


def _refuse_wordless(config: LabelledDataConfig, split: LabelledText) -> None:
    """Where words are labelled, texts without any would be right whatever is said of them."""
    if config.labels_are == "words" and not any(one.labels for one in split.examples):
        raise DataError(
            "labelled words must be there, not empty texts alone",
            seen=f"{split.path}: {len(split.examples):,} {split.name} texts, 0 words",
            mend="give texts with words; of what is held out, another data.holdout or a file",
        )


def one_line(text: str) -> str:
    """A text as it is judged: line breaks are blanks, and there are none around it."""
    return _BREAK.sub(" ", text.strip())


def check_labels(split: LabelledText, labels: Sequence[str]) -> None:
    """Every label is one that the model knows.

    Raises:
        DataError: naming the first that is not.
    """
    known = set(labels)
    for one in split.examples:
        for label in one.labels:
            if label not in known:
                shown = ", ".join(map(repr, labels[:12])) + (" …" if len(labels) > 12 else "")
                raise DataError(
                    "a label must be one that the training text has",
                    seen=f"{split.path}, row {one.row}: {excerpt(label, _SHOWN)!r}; known: {shown}",
                    mend="mend the label, add examples of it to the training text, or list all "
                    "there may be in data.labels",
                )


def _labels(config: LabelledDataConfig, train: LabelledText) -> tuple[str, ...]:
    if config.labels:
        check_labels(train, config.labels)
        return config.labels
    found = sorted(train.label_counts(), key=_by_number)
    least = 1 if config.labels_are == "multi" else 2
    if len(found) < least:
        raise DataError(
            f"training text must hold {least} different labels or more",
            seen=f"{train.path}: {', '.join(map(repr, found)) or 'none'}",
            mend="look whether data.label names the right column",
        )
    if len(found) > 1000 and len(found) > len(train.examples) // 2:
        raise DataError(
            "labels must repeat",
            seen=f"{train.path}: {len(found):,} different ones in {len(train.examples):,} rows",
            mend="look whether data.label names the right column",
        )
    return tuple(found)


def _by_number(label: str) -> tuple[int, int, str, str]:
    """Numbers in their own order, before names; a number may have more digits than Python reads."""
    if not label.isdecimal():
        return 1, 0, "", label
    digits = "".join(str(unicodedata.digit(char)) for char in label).lstrip("0")
    return 0, len(digits), digits, label


def _given(config: LabelledDataConfig, table: TableFile, value: Any, row: int) -> tuple[str, ...]:
    """The labels of one row."""
    label = config.label_column
    if config.labels_are == "multi":
        parts = value
        if not isinstance(value, list):
            parts = _label(table, value, row, label, may_be_empty=True).split(config.separator)
        each = [_label(table, part, row, label, may_be_empty=True) for part in parts]
        return tuple(dict.fromkeys(label for label in each if label))
    return (_label(table, value, row, label),)


def _label(table: TableFile, value: Any, row: int, key: str, *, may_be_empty: bool = False) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise DataError(
            "a label must be a text or a whole number",
            seen=f"{table.place(row, key)}: {excerpt(str(value), _SHOWN)}",
        )
    label = str(value).strip()
    if not label and not may_be_empty:
        raise DataError(
            "every text needs a label", seen=f"{table.place(row, key)}: none", mend="leave it out"
        )
    if not is_plain(label):
        raise DataError(
            "a label must be one line without TABs, as results are",
            seen=f"{table.place(row, key)}: {excerpt(label, _SHOWN)!r}",
            mend="write it with blanks",
        )
    return table.text(label, row, key)


def is_plain(label: str) -> bool:
    """Whether it is one line by any program's rule, and one column."""
    return len(label.splitlines()) <= 1 and "\t" not in label


def _words(table: TableFile, value: Any, row: int, key: str) -> list[str]:
    if isinstance(value, list):
        words = []
        for word in value:
            if isinstance(word, bool) or not isinstance(word, str | int):
                raise DataError(
                    "a word and its label must be texts or whole numbers",
                    seen=f"{table.place(row, key)}: {excerpt(repr(word), _SHOWN)}",
                )
            words.append(table.text(str(word), row, key))
        if bad := [word for word in words if not word or word.split() != [word]]:
            raise DataError(
                "a word must not be empty or hold blanks",
                seen=f"{table.place(row, key)}: {bad[0]!r}",
            )
        return words
    return table.text(value, row, key).split()


def _same(one: Labelled) -> tuple[str, str]:
    """What makes two texts the same: all but case and blanks."""
    return " ".join(one.text.split()).casefold(), " ".join((one.pair or "").split()).casefold()


def _set_aside(train: LabelledText, holdout: int) -> tuple[LabelledText, LabelledText | None]:
    """Keep some texts from training: those whose hash is least, and all that are the same."""
    wanted = min(holdout, len(train.examples) // 10)
    if wanted == 0:
        return train, None
    digests = [hashlib.sha256("\0".join(_same(one)).encode()).digest() for one in train.examples]
    limit = sorted(digests)[wanted - 1]
    sides: tuple[list[Labelled], list[Labelled]] = ([], [])
    for one, digest in zip(train.examples, digests, strict=True):
        sides[digest <= limit].append(one)
    if not sides[0]:
        return train, None  # all are the same text
    kept, aside = (
        LabelledText.of(name, train.path, examples, train.num_breaks)
        for name, examples in zip(("train", "valid"), sides, strict=True)
    )
    return kept, aside

"""Documents of plain text: one a line, between blank lines, a file each, or fields of rows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import ClassVar, Literal

from gnomon.errors import DataError
from gnomon.files import sha256_of
from gnomon.text.lines import check_readable, check_rereadable, read_lines
from gnomon.text.table_file import TableFile, TableFormat

DocumentFormat = Literal["auto", "text", "tsv", "csv", "jsonl", "parquet"]
Side = Literal["all", "train", "held_out"]
_SPLITS = ("train", "valid", "test")
_TABLES: dict[str, TableFormat] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
}


@dataclass(frozen=True, kw_only=True)
class DocumentsConfig:
    """Which files hold the text of a language model, and what in them is one document."""

    train: str | None = None  # a file, or a folder of them
    valid: str | None = None
    test: str | None = None
    format: DocumentFormat = "auto"  # by the file's name; unknown names are plain text
    # of plain text: each line; what stands between blank lines, line breaks kept; each file whole
    documents_are: Literal["lines", "paragraphs", "files"] = "lines"
    pattern: str = "*"  # of a folder: which of its files, in folders of any depth
    field: str = "text"  # of JSON lines and Parquet; of TSV and CSV the column
    # share of the training documents kept to validate on where no validation file is given; of a
    # single document its end
    holdout: float = 0.05
    context: int = 256  # tokens of a row: what the model sees at once in training

    paths: ClassVar[tuple[str, ...]] = _SPLITS

    def problems(self) -> list[str]:
        """Return every rule broken across fields; empty if all is well."""
        found = []
        if not 0 <= self.holdout < 1:
            found.append(f"data.holdout must be at least 0 and below 1, is {self.holdout}")
        if not 2 <= self.context <= 1 << 24:
            found.append(f"data.context must be between 2 and {1 << 24:,}, is {self.context}")
        if not self.pattern or Path(self.pattern).is_absolute() or ".." in self.pattern:
            found.append(f"data.pattern must be a pattern of names like *.py, is {self.pattern!r}")
        return found


class DocumentSource:
    """The documents of one split, read anew at every pass; nothing is kept but where they are.

    Args:
        config: see `DocumentsConfig`.
        name: of the split, for messages.
        path: a file or a folder.
        side: "train" and "held_out" are the two parts of what is set aside by hash: equal documents
            stay on one side, whatever stands around them. A single document is cut instead.

    Raises:
        DataError: there is nothing that can be read.
    """

    def __init__(
        self, config: DocumentsConfig, name: str, path: str | Path, side: Side = "all"
    ) -> None:
        self.config = config
        self.name = name
        self.path = Path(path)
        self.side = side
        self.files = _files(self.path, config.pattern)
        for file in self.files:
            check_rereadable(file)
            check_readable(file, allow_empty=True)

    @cached_property
    def fingerprint(self) -> str:
        """Hex digest of the files' bytes and of how they are read.

        Where the files lie and what they are called is no part of it, since it is no part of their
        text: a copy is the same text. The order of a folder's files, which their names decide, is
        that of their bytes; and where a name says how a file is read, that counts.
        """
        config = self.config
        reading: list[object] = [self.side, config.documents_are, config.format, config.field]
        reading += [config.holdout] if self.side != "all" else []
        kinds = [self._kind(file) for file in self.files]
        if config.format == "auto" and set(kinds) != {"text"}:
            reading.append(kinds)
        return hashlib.sha256(f"{sha256_of(*self.files)} {reading}".encode()).hexdigest()

    def __iter__(self) -> Iterator[str]:
        return (text for _, text in self.numbered())

    def numbered(self) -> Iterator[tuple[int, str]]:
        """Each document that is not blank, and its number among all, from 1.

        Raises:
            DataError: a file is no text, or lacks the field.
        """
        if self.side == "all":
            return self._all()
        if self.is_single:
            return self._cut()
        wanted = self.side == "held_out"
        limit = int(self.config.holdout * 2.0**64)
        return (one for one in self._all() if (_hash(one[1]) < limit) == wanted)

    @cached_property
    def is_single(self) -> bool:
        """Whether there is one document alone."""
        return len(list(islice(self._all(), 2))) == 1

    def _all(self) -> Iterator[tuple[int, str]]:
        texts = (text for file in self.files for text in self._of_file(file))
        return ((number, text) for number, text in enumerate(texts, 1) if text.strip())

    def _cut(self) -> Iterator[tuple[int, str]]:
        for number, text in self._all():
            end = int(len(text) * (1 - self.config.holdout))
            part = text[:end] if self.side == "train" else text[end:]
            if part.strip():
                yield number, part

    def _kind(self, file: Path) -> DocumentFormat:
        kind = self.config.format
        return _format_of(file) if kind == "auto" else kind

    def _of_file(self, file: Path) -> Iterator[str]:
        kind = self._kind(file)
        if kind != "text":
            assert kind != "auto", "resolved"
            return _of_table(file, self.config.field, kind)
        lines = read_lines(file) if file.stat().st_size else iter(())
        if self.config.documents_are == "lines":
            return lines
        if self.config.documents_are == "files":
            return iter(["".join(f"{line}\n" for line in lines)])
        return _paragraphs(lines)


def open_documents(
    config: DocumentsConfig,
) -> tuple[DocumentSource, DocumentSource | None]:
    """The training and the validation documents.

    Raises:
        DataError: there is no training text, or it cannot be read.
    """
    if config.train is None:
        raise DataError(
            "text to train on must be given, none is", mend="give --data FILE, or set data.train"
        )
    if config.valid is not None:
        train = DocumentSource(config, "train", config.train)
        return train, DocumentSource(config, "valid", config.valid)
    if not config.holdout:
        return DocumentSource(config, "train", config.train), None
    train = DocumentSource(config, "train", config.train, "train")
    held_out = DocumentSource(config, "valid", config.train, "held_out")
    return train, held_out if any(True for _ in held_out) else None


def _files(path: Path, pattern: str) -> tuple[Path, ...]:
    if not path.is_dir():
        return (path,)
    found = tuple(sorted(file for file in path.rglob(pattern) if file.is_file()))
    if not found:
        raise DataError(
            "a folder of documents must hold some",
            seen=f"{path}: no file like {pattern}",
            mend="set data.pattern",
        )
    return found


def _format_of(file: Path) -> DocumentFormat:
    suffixes = [suffix.lower() for suffix in file.suffixes]
    if suffixes[-1:] == [".gz"]:
        suffixes.pop()
    return _TABLES.get(suffixes[-1] if suffixes else "", "text")


def _of_table(file: Path, field: str, kind: TableFormat) -> Iterator[str]:
    table = TableFile(
        file, (field,), kind, naming="name the column: data.field", line='{"text": "…"}'
    )
    for row, (value,) in enumerate(table.rows(), start=1):
        yield table.text(value, row, field)


def _paragraphs(lines: Iterator[str]) -> Iterator[str]:
    own: list[str] = []
    for line in lines:
        if line.strip():
            own.append(line)
        elif own:
            yield "\n".join(own)
            own = []
    if own:
        yield "\n".join(own)


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.strip().encode("utf-8")).digest()[:8], "big")

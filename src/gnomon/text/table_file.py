"""Files of rows with named fields: TSV, CSV, JSON lines, Parquet; read row by row.

A text may hold line breaks in all but TSV. Each becomes one blank ("\\r\\n" too), since
everywhere else one text is one line; how often that was is counted.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from gnomon.errors import DataError, excerpt
from gnomon.text.lines import check_readable, read_lines

TableFormat = Literal["auto", "tsv", "csv", "jsonl", "parquet"]
_SUFFIXES: dict[str, TableFormat] = {
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
}
_BATCH_ROWS = 4096
_SHOWN = 70  # characters of a value in a message


@dataclass(frozen=True)
class TableFile:
    """A file of rows, and the fields of them that are wanted.

    Attributes:
        fields: names of JSON fields or columns; "translation.en" looks inside `translation`. Of TSV
            and CSV numbers count the columns from 1, in a file without a head; names are looked up
            in the first line.
        naming: how the user names the fields, for messages.
        line: what a row must look like in JSON lines, for messages.
    """

    path: Path
    fields: tuple[str, ...]
    format: TableFormat = "auto"
    naming: str = "name the fields"
    line: str = '{"text": "…", "label": "…"}'

    @property
    def kind(self) -> TableFormat:
        """The format, by the name where none was given; unknown names are TSV."""
        return self.format if self.format != "auto" else kind_by_name(self.path)

    @property
    def has_head(self) -> bool:
        """Whether the first line of a TSV or CSV file names its columns."""
        return self.kind in ("tsv", "csv") and not all(name.isdecimal() for name in self.fields)

    @property
    def _row(self) -> str:
        return "row" if self.kind in ("parquet", "csv") else "line"

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Iterate over the wanted fields of each row, as they stand there.

        Raises:
            DataError: naming the first row that is none, or lacks a field.
        """
        if self.kind == "parquet":
            return self._parquet_rows()
        if self.kind == "jsonl":
            return self._json_rows()
        return self._columns(self._split_rows())

    def num_rows(self) -> int:
        """How many rows a Parquet file says it has."""
        with self._parquet() as file:
            return int(file.metadata.num_rows)

    def place(self, number: int, key: str) -> str:
        """Where a value stands, for messages; `number` counts rows from 1, a head not counted."""
        number += self.has_head
        return f"{self.path}, {self._row} {number}, field {key}"

    def text(self, value: Any, number: int, key: str) -> str:
        """A value as a text that can be learned from, line breaks included.

        Raises:
            DataError: it is no text, or holds what no text may hold.
        """
        if not isinstance(value, str):
            shown = excerpt(json.dumps(value, default=str), _SHOWN)
            raise DataError(
                f"the field {key} must be a text",
                seen=f"{self.place(number, key)}: {shown}",
                mend="give a string, which may be empty",
            )
        if "\0" in value:
            raise DataError(
                "text to learn from must not hold NUL characters",
                seen=self.place(number, key),
                mend="remove them",
            )
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise DataError(
                "text must not hold lone surrogates (half of a character)",
                seen=f"{self.place(number, key)}: {error.reason} at position {error.start}",
                mend="write both halves (\\ud83d\\ude00), or remove it",
            ) from error
        return value

    # -- TSV and CSV ---------------------------------------------------------------------------

    def _split_rows(self) -> Iterator[list[str]]:
        lines = read_lines(self.path)
        if self.kind == "tsv":
            return (line.split("\t") for line in lines)
        return self._csv_rows(f"{line}\n" for line in lines)

    def _csv_rows(self, lines: Iterator[str]) -> Iterator[list[str]]:
        reader = csv.reader(lines, strict=True)
        limit = csv.field_size_limit(1 << 30)
        try:
            # A quoted field may hold line breaks; the last one is the row's own end.
            yield from reader
        except csv.Error as error:
            raise DataError(
                "CSV must be well formed: commas between fields, quotes doubled inside quotes",
                seen=f"{self.path}, line {reader.line_num}: {error}",
                mend="write it with a CSV library, or give TSV or JSON lines",
            ) from error
        finally:
            csv.field_size_limit(limit)

    def _columns(self, rows: Iterator[list[str]]) -> Iterator[tuple[Any, ...]]:
        numbers: list[int] | None = None
        blank: int | None = None  # the first of the blank lines that stand last so far, of CSV
        for number, row in enumerate(rows, start=1):
            if not row and numbers is not None:
                blank = blank or number
                continue
            if blank is not None:
                number, row = blank, []
            if numbers is None:
                numbers = self._numbers(row)
                if self.has_head:
                    continue
            if max(numbers) >= len(row):
                raise DataError(
                    f"each {self._row} must hold column {max(numbers) + 1}",
                    seen=f"{self.path}, {self._row} {number}: {len(row)} columns",
                    mend=f"complete it; or {self.naming}",
                )
            yield tuple(row[place] for place in numbers)

    def _numbers(self, head: list[str]) -> list[int]:
        if not self.has_head:
            numbers = [int(name) - 1 for name in self.fields]
            if min(numbers) < 0:
                raise DataError("columns are counted from 1", seen=", ".join(self.fields))
            return numbers
        if missing := [name for name in self.fields if name not in head]:
            raise DataError(
                "the first line of a table must name its columns",
                seen=f"{self.path}: no column {', '.join(missing)} among {_fields(head)}",
                mend=f"{self.naming}; columns of a file without a head are numbers from 1",
            )
        if several := [name for name in self.fields if head.count(name) > 1]:
            raise DataError(
                "the name of a column must be its own",
                seen=f"{self.path}: {several[0]!r} {head.count(several[0])} times",
                mend="rename the other",
            )
        return [head.index(name) for name in self.fields]

    # -- JSON lines -----------------------------------------------------------------------------

    def _json_rows(self) -> Iterator[tuple[Any, ...]]:
        for number, line in enumerate(read_lines(self.path), start=1):
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise self._fault(number, f"{excerpt(line, _SHOWN)} ({error})") from error
            if not isinstance(row, dict):
                raise self._fault(number, excerpt(line, _SHOWN))
            yield tuple(self._look_up(row, key, number) for key in self.fields)

    def _parquet_rows(self) -> Iterator[tuple[Any, ...]]:
        number = 0
        with self._parquet() as file:
            self._check_columns(file.schema_arrow)
            batches = file.iter_batches(batch_size=_BATCH_ROWS, columns=[*self.fields])
            try:
                for batch in batches:
                    for row in batch.to_pylist():
                        number += 1
                        yield tuple(self._look_up(row, key, number) for key in self.fields)
            except (OSError, ValueError) as error:  # ArrowInvalid is a ValueError
                raise self._unreadable(error, number) from error

    def _look_up(self, row: dict[str, Any], key: str, number: int) -> Any:
        """A field by its name, or by a path of names; one whose own name has dots goes first."""
        if key in row:
            return row[key]
        value: Any = row
        for part in key.split("."):
            if not isinstance(value, dict) or part not in value:
                raise DataError(
                    f"each {self._row} must hold the field {key}",
                    seen=f"{self.path}, {self._row} {number}: fields {_fields(row)}",
                    mend=f"{self.naming}; a.b looks for b inside a",
                )
            value = value[part]
        return value

    def _fault(self, number: int, seen: str) -> DataError:
        return DataError(
            "each line of a JSON lines file must be one object",
            seen=f"{self.path}, line {number}: {seen}",
            mend=f'write {self.line} on each line (jq -c ".[]" unpacks an array)',
        )

    # -- Parquet -------------------------------------------------------------------------------

    def _parquet(self) -> Any:
        """Open the file; columns are read in small buffers, never a row group at once."""
        try:
            import pyarrow.parquet
        except ImportError as error:
            raise DataError(
                "Parquet files are read by pyarrow, which is not installed",
                seen=self.path,
                mend="pip install 'gnomon[parquet]'",
            ) from error
        check_readable(self.path, allow_empty=False)
        try:
            return pyarrow.parquet.ParquetFile(self.path, pre_buffer=False, buffer_size=1 << 16)
        except (OSError, ValueError) as error:
            raise self._unreadable(error, 0) from error

    def _unreadable(self, error: Exception, number: int) -> DataError:
        with self.path.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
        mend = "gunzip it: Parquet packs by itself" if packed else "write the file again"
        return DataError(
            "a Parquet file must be whole and readable",
            seen=f"{self.path}, after row {number:,}: {error}",
            mend=mend,
        )

    def _check_columns(self, schema: Any) -> None:
        for key in self.fields:
            if key not in schema.names and key.split(".")[0] not in schema.names:
                raise DataError(
                    f"a Parquet file must hold the column {key}",
                    seen=f"{self.path}: columns {', '.join(schema.names)}",
                    mend=self.naming,
                )


def _fields(row: Iterable[str]) -> str:
    names = list(row)
    return ", ".join(map(repr, names[:8])) + (" …" if len(names) > 8 else "") if names else "none"


def kind_by_name(path: Path) -> TableFormat:
    """The format that a file's name says; unknown names are TSV."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes[-1:] == [".gz"]:
        suffixes.pop()
    return _SUFFIXES.get(suffixes[-1] if suffixes else "", "tsv")

"""Files that hold both sides of each pair: TSV, JSON lines, Parquet; read row by row.

A text may hold line breaks in JSON lines and Parquet. Each becomes one blank ("\\r\\n" too), since
everywhere else one text is one line; how often that was is counted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from gnomon.errors import DataError, excerpt
from gnomon.text.lines import check_readable, count_lines, read_lines
from gnomon.text.occurrences import Occurrences
from gnomon.text.sources import PairFormat

Texts = tuple[str, str]
_SUFFIXES: dict[str, Literal["tsv", "jsonl", "parquet"]] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
}
_BREAK = re.compile(r"\r?\n")
_BATCH_ROWS = 4096
_SHOWN = 70  # characters of a value in a message


@dataclass(frozen=True)
class PairFile:
    """A file of pairs: how many rows it has, and the rows."""

    path: Path
    format: PairFormat = "auto"
    source_field: str = "source"
    target_field: str = "target"

    @property
    def kind(self) -> Literal["tsv", "jsonl", "parquet"]:
        """The format, by the name where none was given; unknown names are TSV."""
        if self.format != "auto":
            return self.format
        suffixes = [suffix.lower() for suffix in self.path.suffixes]
        if suffixes[-1:] == [".gz"]:
            suffixes.pop()
        return _SUFFIXES.get(suffixes[-1] if suffixes else "", "tsv")

    def count(self) -> int:
        """Return the number of rows.

        Raises:
            DataError: the file cannot be read.
        """
        if self.kind == "parquet":
            with self._parquet() as file:
                return int(file.metadata.num_rows)
        return count_lines(self.path)

    def rows(self, breaks: Occurrences | None = None) -> Iterator[Texts]:
        """Iterate over source and target of each row.

        Args:
            breaks: counts rows with a text in which a line break became a blank.

        Raises:
            DataError: naming the first row that is not a pair of texts.
        """
        if self.kind == "tsv":
            yield from self._tsv_rows()
            return
        every = self._json_rows() if self.kind == "jsonl" else self._parquet_rows()
        for number, values in enumerate(every, start=1):
            texts = [
                self._text(value, key, number)
                for value, key in zip(values, self._keys, strict=True)
            ]
            if any("\n" in text for text in texts):
                texts = [_BREAK.sub(" ", text) for text in texts]
                if breaks is not None:
                    breaks.add(number)
            yield texts[0], texts[1]

    @property
    def _keys(self) -> tuple[str, str]:
        return self.source_field, self.target_field

    @property
    def _row(self) -> str:
        return "row" if self.kind == "parquet" else "line"

    def _tsv_rows(self) -> Iterator[Texts]:
        for number, line in enumerate(read_lines(self.path), start=1):
            columns = line.split("\t")
            if len(columns) != 2:
                raise DataError(
                    "a TSV line must hold exactly one TAB: source TAB target",
                    seen=f"{self.path}, line {number}: {len(columns) - 1} TABs",
                    mend="keep two columns (cut -f1,2), and no TAB within a text",
                )
            yield columns[0], columns[1]

    def _json_rows(self) -> Iterator[tuple[Any, Any]]:
        for number, line in enumerate(read_lines(self.path), start=1):
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise self._fault(number, f"{excerpt(line, _SHOWN)} ({error})") from error
            if not isinstance(row, dict):
                raise self._fault(number, excerpt(line, _SHOWN))
            yield (
                self._look_up(row, self.source_field, number),
                self._look_up(row, self.target_field, number),
            )

    def _parquet_rows(self) -> Iterator[tuple[Any, Any]]:
        number = 0
        with self._parquet() as file:
            self._check_columns(file.schema_arrow)
            batches = file.iter_batches(batch_size=_BATCH_ROWS, columns=[*self._keys])
            try:
                for batch in batches:
                    for row in batch.to_pylist():
                        number += 1
                        yield (
                            self._look_up(row, self.source_field, number),
                            self._look_up(row, self.target_field, number),
                        )
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
                    mend="name the fields (--source-field and --target-field, in a recipe "
                    "data.source_field and data.target_field); "
                    "translation.en looks inside translation",
                )
            value = value[part]
        return value

    def _text(self, value: Any, key: str, number: int) -> str:
        place = f"{self.path}, {self._row} {number}, field {key}"
        if not isinstance(value, str):
            raise DataError(
                "both sides of a pair must be texts",
                seen=f"{place}: {excerpt(json.dumps(value, default=str), _SHOWN)}",
                mend="give a string, which may be empty",
            )
        if "\0" in value:
            raise DataError(
                "text to learn from must not hold NUL characters", seen=place, mend="remove them"
            )
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise DataError(
                "text must not hold lone surrogates (half of a character)",
                seen=f"{place}: {error.reason} at position {error.start}",
                mend="write both halves (\\ud83d\\ude00), or remove it",
            ) from error
        return value

    def _fault(self, number: int, seen: str) -> DataError:
        return DataError(
            "each line of a JSON lines file must be one object",
            seen=f"{self.path}, line {number}: {seen}",
            mend='write {"source": "…", "target": "…"} on each line (jq -c ".[]" unpacks an array)',
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
        for key in self._keys:
            if key not in schema.names and key.split(".")[0] not in schema.names:
                raise DataError(
                    f"a Parquet file must hold the column {key}",
                    seen=f"{self.path}: columns {', '.join(schema.names)}",
                    mend="name the columns: --source-field and --target-field, in a recipe "
                    "data.source_field and data.target_field",
                )


def _fields(row: dict[str, Any]) -> str:
    names = list(row)
    return ", ".join(map(repr, names[:8])) + (" …" if len(names) > 8 else "") if names else "none"

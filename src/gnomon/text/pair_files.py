"""Files that hold both sides of each pair: TSV, JSON lines, Parquet; read row by row.

A text may hold line breaks in JSON lines and Parquet. Each becomes one blank ("\\r\\n" too), since
everywhere else one text is one line; how often that was is counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gnomon.errors import DataError
from gnomon.text.lines import count_lines, read_lines
from gnomon.text.occurrences import Occurrences
from gnomon.text.sources import PairFormat
from gnomon.text.table_file import TableFile, kind_by_name

Texts = tuple[str, str]
_BREAK = re.compile(r"\r?\n")


@dataclass(frozen=True)
class PairFile:
    """A file of pairs: how many rows it has, and the rows."""

    path: Path
    format: PairFormat = "auto"
    source_field: str = "source"
    target_field: str = "target"

    @property
    def kind(self) -> PairFormat:
        """The format, by the name where none was given; unknown names are TSV."""
        if self.format != "auto":
            return self.format
        kind = kind_by_name(self.path)
        return "tsv" if kind == "csv" else kind

    @property
    def _table(self) -> TableFile:
        return TableFile(
            self.path,
            (self.source_field, self.target_field),
            self.kind,
            naming="name the fields (--source-field and --target-field, in a recipe "
            "data.source_field and data.target_field)",
            line='{"source": "…", "target": "…"}',
        )

    def count(self) -> int:
        """Return the number of rows.

        Raises:
            DataError: the file cannot be read.
        """
        return self._table.num_rows() if self.kind == "parquet" else count_lines(self.path)

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
        table = self._table
        for number, values in enumerate(table.rows(), start=1):
            source, target = (
                table.text(value, number, key)
                for value, key in zip(values, table.fields, strict=True)
            )
            if "\n" in source or "\n" in target:
                source, target = _BREAK.sub(" ", source), _BREAK.sub(" ", target)
                if breaks is not None:
                    breaks.add(number)
            yield source, target

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

"""Pairs of texts that the user names in a call: two files, or one with a TAB in each line."""

from __future__ import annotations

from pathlib import Path

from gnomon.errors import DataError
from gnomon.text import ParallelCorpus


def given_pairs(
    source: str | Path | None, target: str | Path | None, data: str | Path | None
) -> ParallelCorpus:
    """The pairs of `source` and `target`, or of the TSV file `data`.

    Raises:
        DataError: neither or both ways are used, or a file cannot be read.
    """
    if data is not None and source is None and target is None:
        return ParallelCorpus("given", tsv=data)
    if data is None and source is not None and target is not None:
        return ParallelCorpus("given", source=source, target=target)
    given = {"source": source, "reference": target, "data": data}
    raise DataError(
        "source and reference go together, or both lie in one TSV file",
        seen=", ".join(name for name, value in given.items() if value is not None) or "no file",
        mend="give --src with the other side's file, or --data alone",
    )

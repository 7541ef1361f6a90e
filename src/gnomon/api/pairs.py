"""Pairs of texts that the user names in a call: two files, or one file of pairs."""

from __future__ import annotations

from pathlib import Path

from gnomon.errors import DataError
from gnomon.text import DataConfig, ParallelCorpus

_DEFAULT = DataConfig()


def given_pairs(
    source: str | Path | None,
    target: str | Path | None,
    data: str | Path | None,
    fields: DataConfig = _DEFAULT,
) -> ParallelCorpus:
    """The pairs of `source` and `target`, or of `data`: TSV, JSON lines or Parquet.

    Args:
        fields: where `format`, `source_field` and `target_field` of `data` are taken from.

    Raises:
        DataError: neither or both ways are used, or a file cannot be read.
    """
    if data is not None and source is None and target is None:
        return ParallelCorpus(
            "given",
            pairs=data,
            format=fields.format,
            source_field=fields.source_field,
            target_field=fields.target_field,
        )
    if data is None and source is not None and target is not None:
        return ParallelCorpus("given", source=source, target=target)
    given = {"source": source, "reference": target, "data": data}
    raise DataError(
        "source and reference go together, or both lie in one file of pairs",
        seen=", ".join(name for name, value in given.items() if value is not None) or "no file",
        mend="give --src with the other side's file, or --data alone",
    )

"""Pairs of texts that the user names in a call: two files, or one file of pairs."""

from __future__ import annotations

from pathlib import Path

from gnomon.api.claim import read_run_recipe
from gnomon.api.load import model_folder, run_of
from gnomon.errors import DataError
from gnomon.recipes.tasks import translation
from gnomon.text import DataConfig, ParallelCorpus
from gnomon.text.pair_files import PairFile


def given_pairs(
    source: str | Path | None,
    target: str | Path | None,
    data: str | Path | None,
    *,
    source_field: str | None = None,
    target_field: str | None = None,
    model: str | Path | None = None,
    checkpoint: str = "best",
) -> ParallelCorpus:
    """The pairs of `source` and `target`, or of `data`: TSV, JSON lines or Parquet.

    Args:
        source_field, target_field: fields of JSON lines or columns of Parquet; "translation.en"
            looks inside `translation`. By default those that `model`'s run was trained from.
        model, checkpoint: see `load`.

    Raises:
        DataError: neither or both ways are used, or a file cannot be read.
    """
    if data is not None and source is None and target is None:
        run = None if model is None else run_of(model_folder(model, checkpoint))
        fields = DataConfig() if run is None else translation(read_run_recipe(run)).data
        if (source_field or target_field) and PairFile(Path(data), fields.format).kind == "tsv":
            raise DataError(
                "fields are named for JSON lines and Parquet",
                seen=f"--source-field or --target-field beside {data}, which is read as TSV",
                mend="leave them out: source TAB target is all that a line of TSV holds",
            )
        return ParallelCorpus(
            "given",
            pairs=data,
            format=fields.format,
            source_field=source_field or fields.source_field,
            target_field=target_field or fields.target_field,
        )
    if source_field or target_field:
        raise DataError(
            "fields are named for a file of pairs",
            seen="--source-field or --target-field without --data alone",
            mend="give --data FILE, or leave the fields out",
        )
    if data is None and source is not None and target is not None:
        return ParallelCorpus("given", source=source, target=target)
    given = {"source": source, "reference": target, "data": data}
    raise DataError(
        "source and reference go together, or both lie in one file of pairs",
        seen=", ".join(name for name, value in given.items() if value is not None) or "no file",
        mend="give --src with the other side's file, or --data alone",
    )

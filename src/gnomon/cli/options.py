"""Options and arguments that several verbs share, spelled once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import typer

RecipeArgument = Annotated[str, typer.Argument(help="A preset's name or a TOML file.")]
ModelArgument = Annotated[
    Path, typer.Argument(help="A run (its best checkpoint), a checkpoint or a model folder.")
]
CheckpointOption = Annotated[
    str, typer.Option(help="Which checkpoint of a run: best, last, averaged or step-N.")
]
SourceOption = Annotated[
    Path | None, typer.Option("--src", help="Your source text, one sentence a line.")
]
TargetOption = Annotated[Path | None, typer.Option("--tgt", help="Its translation, line by line.")]
DataOption = Annotated[
    Path | None,
    typer.Option("--data", help="Instead of --src and --tgt: one TSV, JSON lines or Parquet file."),
]
ValidSourceOption = Annotated[
    Path | None,
    typer.Option(help="Source text to validate on. Default: some pairs are held out."),
]
ValidTargetOption = Annotated[Path | None, typer.Option(help="Its translation, line by line.")]
ValidDataOption = Annotated[
    Path | None, typer.Option(help="Instead of these two: one TSV, JSON lines or Parquet file.")
]
ReferenceOption = Annotated[
    Path | None, typer.Option("--ref", "--tgt", help="Reference translations, line by line.")
]
GivenTargetOption = Annotated[
    Path | None, typer.Option("--tgt", "--ref", help="Its translation, line by line.")
]
ReferenceDataOption = Annotated[
    Path | None,
    typer.Option("--data", help="Instead of --src and --ref: one TSV, JSON lines or Parquet file."),
]
SourceFieldOption = Annotated[
    str | None,
    typer.Option(help="Of --data in JSON lines or Parquet; a.b is b in a. Default: the run's."),
]
TargetFieldOption = Annotated[str | None, typer.Option(help="The same for the translation.")]
InputOption = Annotated[
    Path | None,
    typer.Option("--input", "-i", help="Text file, also gzip. Default: standard input."),
]
OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", help="Default: standard output.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", help="Change one key: table.key=value. May be given again.", show_default=False
    ),
]
TagOption = Annotated[
    list[str] | None,
    typer.Option(
        "--tag",
        help='A tag in front of every source, such as "<2de>". May be given again.',
        show_default=False,
    ),
]
BeamOption = Annotated[
    int | None, typer.Option(help="Beam size; 1 is greedy. Default: the recipe's.")
]
BatchOption = Annotated[
    int,
    typer.Option("--batch-tokens", min=1, help="Padded source tokens at once (speed only)."),
]
DeviceOption = Annotated[str, typer.Option(help="cpu, cuda, … or auto.")]
WithOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--with",
        help="Another model with the same vocabulary that decodes along. May be given again.",
        show_default=False,
    ),
]
CombineOption = Annotated[
    Literal["mean", "log_mean"],
    typer.Option(help="Of several models: mean of probabilities, or log_mean."),
]

ProgressOption = Annotated[
    bool | None,
    typer.Option(
        "--progress/--no-progress",
        help="On standard error, how far it is. Default: at a terminal that shows no results.",
        show_default=False,
    ),
]


def refuse_beside(option: str, others: Mapping[str, object], rule: str) -> None:
    """What is asked for and would be passed over is a mistake.

    Args:
        option: what is done.
        others: values of options that play no part in it, by name.
        rule: why they play none.

    Raises:
        DataError: one of them was given.
    """
    from gnomon.errors import DataError

    if seen := [name for name, value in others.items() if value not in (None, False)]:
        raise DataError(
            rule, seen=f"{option} beside {', '.join(seen)}", mend="leave one of them out"
        )

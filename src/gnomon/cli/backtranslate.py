"""`gnomon backtranslate`: synthetic training pairs from text of the target language."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gnomon.cli import options
from gnomon.cli.console import print_line, say, warn

if TYPE_CHECKING:
    from gnomon.tasks import BacktranslationReport


def backtranslate(
    model: Annotated[
        Path, typer.Argument(help="A run or model of the reverse direction, target to source.")
    ],
    mono: Annotated[
        Path, typer.Option("--mono", help="Text of the target language, one sentence a line.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The pairs: .tsv or .jsonl, with .gz compressed.")
    ],
    tag: options.TagOption = None,
    synthetic_tag: Annotated[
        list[str] | None,
        typer.Option(
            help='Tag of the pairs in the recipe lines; default "<bt>", "" for none. May be given '
            "again.",
            show_default=False,
        ),
    ] = None,
    beam: options.BeamOption = None,
    sample: Annotated[
        bool, typer.Option("--sample", help="Sample the translations instead of searching.")
    ] = False,
    seed: Annotated[int | None, typer.Option(help="Of the samples.")] = None,
    max_ratio: Annotated[
        float, typer.Option(help="Drop pairs whose token counts differ by more than this factor.")
    ] = 3.0,
    batch_tokens: options.BatchOption = 4096,
    checkpoint: options.CheckpointOption = "best",
    device: options.DeviceOption = "auto",
) -> None:
    """Make training pairs: the translation of each line as the source, the line as the target.

    Standard output gets the recipe lines that add the pairs. Stopped at any moment, the same
    command goes on where it was.
    """
    from gnomon import api
    from gnomon.errors import RecipeError
    from gnomon.tasks import recipe_lines
    from gnomon.text.sources import tag_problems

    tags = tuple(filter(None, ["<bt>"] if synthetic_tag is None else synthetic_tag))
    if problems := tag_problems(tags):  # told before hours of work, not after
        raise RecipeError("the recipe lines must be usable", seen=problems[0])

    def progress(num_lines: int) -> None:
        say(f"{num_lines:,} lines done")

    report = api.backtranslate(
        model,
        mono,
        output,
        tags=tag or [],
        max_ratio=max_ratio,
        checkpoint=checkpoint,
        device=device,
        batch_tokens=batch_tokens,
        progress=progress,
        beam=beam,
        sample=sample or None,
        seed=seed,
    )
    _tell(report, output)
    if report.num_pairs:
        print_line(recipe_lines(output, tags).rstrip("\n"))
    else:
        warn("there is no pair to add to a recipe")


def _tell(report: BacktranslationReport, output: Path) -> None:
    say(f"{report.num_pairs:,} pairs from {report.num_lines:,} lines: {output}")
    for reason, dropped in sorted(report.dropped.items()):
        shown = ", ".join(map(str, dropped.first_lines))
        more = " …" if dropped.count > len(dropped.first_lines) else ""
        say(f"{dropped.count:,} left out, {reason}: lines {shown}{more}")

"""`gnomon evaluate`: scores with their signatures, stored with the run."""

from __future__ import annotations

from typing import Annotated

import typer

from gnomon.cli import options
from gnomon.cli.console import console, print_line, say


def evaluate(
    model: options.ModelArgument,
    src: options.SourceOption = None,
    ref: options.ReferenceOption = None,
    data: options.ReferenceDataOption = None,
    beam: options.BeamOption = None,
    json_: Annotated[
        bool, typer.Option("--json", help="The whole report: scores, signatures and every line.")
    ] = False,
    batch_tokens: options.BatchOption = 4096,
    checkpoint: options.CheckpointOption = "best",
    device: options.DeviceOption = "auto",
) -> None:
    """Score a model; without files on a run's own test text, or else its validation text."""
    from gnomon import api
    from gnomon.cli.report import print_scores

    report = api.evaluate(
        model,
        source=src,
        reference=ref,
        data=data,
        checkpoint=checkpoint,
        device=device,
        beam=beam,
        batch_tokens=batch_tokens,
    )
    if json_:
        print_line(report.to_json().rstrip("\n"))
        return
    say(f"model: {report.about['model']}")  # which checkpoint of a run it was
    print_scores(report, console())
    for score in report.scores:
        print_line(f"{score.name}\t{score.value:.4f}\t{score.signature}")

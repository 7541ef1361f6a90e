"""`gnomon classify`: labels of texts, one line out per line in."""

from __future__ import annotations

from typing import Annotated

import typer

from gnomon.cli import bulk, options


def classify(
    model: options.ModelArgument,
    input_: bulk.InputsOption = None,
    output: options.OutputOption = None,
    threshold: Annotated[
        float | None,
        typer.Option(help="Of several labels: those at least so probable. Default: the model's."),
    ] = None,
    json_: Annotated[
        bool, typer.Option("--json", help="One JSON object a line, with probabilities.")
    ] = False,
    batch_tokens: options.BatchOption = 4096,
    checkpoint: options.CheckpointOption = "best",
    device: options.DeviceOption = "auto",
    progress: options.ProgressOption = None,
    on: bulk.OnOption = None,
    workers: bulk.WorkersOption = None,
    threads: bulk.ThreadsOption = None,
    part_lines: bulk.PartOption = None,
    ray_address: bulk.AddressOption = None,
    restart: bulk.RestartOption = False,
) -> None:
    """Label texts, one a line; for a classifier of pairs two with a TAB between them.

    Of several labels there are commas between them (a blank line: none holds), where words are
    labelled blanks, one label a word.
    """
    from gnomon.api.lines import ClassifyLines

    job = ClassifyLines(
        model=model,
        checkpoint=checkpoint,
        device=device,
        threshold=threshold,
        batch_tokens=batch_tokens,
        as_json=json_,
    )
    bulk.run_lines(
        job,
        input_,
        output,
        on=on,
        progress=progress,
        workers=workers,
        threads=threads,
        part_lines=part_lines,
        ray_address=ray_address,
        restart=restart,
    )

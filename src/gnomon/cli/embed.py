"""`gnomon embed`: texts as vectors, one line out per line in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from gnomon.cli import options
from gnomon.cli.line_flow import line_flow

if TYPE_CHECKING:
    from gnomon.tasks import Encoder

CHUNK = 1024  # texts read before they are embedded, which sorts them by length


def embed(
    model: options.ModelArgument,
    input_: options.InputOption = None,
    output: options.OutputOption = None,
    npy: Annotated[
        Path | None,
        typer.Option(help="Write one NumPy array [texts, width], float32, to this file instead."),
    ] = None,
    pooling: Annotated[
        Literal["mean", "first", "last", "max", "pooler"] | None,
        typer.Option(help="How token vectors become one. Default: the model's."),
    ] = None,
    normalise: Annotated[
        bool | None,
        typer.Option("--normalise/--no-normalise", help="To length 1. Default: the model's."),
    ] = None,
    truncate: Annotated[
        bool,
        typer.Option(help="Read the beginning of texts that are too long, instead of refusing."),
    ] = False,
    batch_tokens: options.BatchOption = 4096,
    checkpoint: options.CheckpointOption = "best",
    device: options.DeviceOption = "auto",
    progress: options.ProgressOption = None,
) -> None:
    """Embed texts, one a line, as one JSON list of numbers a line.

    A text with a TAB in it is two texts that are read together. A blank line has a vector, too.
    """
    from gnomon import api

    if npy is not None:
        options.refuse_beside(
            "--npy", {"--output": output}, "vectors are written as lines or as an array"
        )
    encoder: Encoder = api.load_for("encoder", model, checkpoint=checkpoint, device=device)
    arrays = []
    with line_flow(input_, npy or output, size=CHUNK, doing="embedding", progress=progress) as flow:
        for first, chunk in flow:
            vectors = api.embed_lines(
                encoder,
                chunk,
                first,
                pooling=pooling,
                normalise=normalise,
                truncate=truncate,
                batch_tokens=batch_tokens,
                progress=flow.done,
            )
            if npy is not None:
                arrays.append(vectors)
                continue
            for vector in vectors:
                # Nine digits give back the same float32.
                numbers = [float(f"{value:.9g}") for value in vector]
                flow.write(json.dumps(numbers))
        if npy is not None:
            import numpy as np

            width = encoder.model.config.d_model
            np.save(flow.out, np.concatenate([np.zeros((0, width), np.float32), *arrays]))

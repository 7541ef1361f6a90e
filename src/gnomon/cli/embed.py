"""`gnomon embed`: texts as vectors, one line out per line in."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from gnomon.cli import options
from gnomon.cli.console import standard_input, warn_of_replaced
from gnomon.cli.destination import destination
from gnomon.cli.line_progress import LineProgress, lines_of

if TYPE_CHECKING:
    from gnomon.tasks import Encoder

CHUNK = 1024  # texts read before they are embedded, which sorts them by length


def embed(
    model: options.ModelArgument,
    input_: Annotated[
        Path | None, typer.Option("--input", "-i", help="Default: standard input.")
    ] = None,
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
    from gnomon.text import Replacements, read_lines

    if npy is not None:
        options.refuse_beside(
            "--npy", {"--output": output}, "vectors are written as lines or as an array"
        )
    encoder: Encoder = api.load_for("encoder", model, checkpoint=checkpoint, device=device)
    given = input_ or standard_input()
    replaced = Replacements()
    shown = LineProgress(progress, prints=output is None and npy is None)
    lines = read_lines(given, errors="replace", replacements=replaced)
    arrays = []
    with destination(npy or output) as out, shown:
        done = shown.begin("embedding", lines_of(given) if shown.shown else None)
        first = 1
        while chunk := list(islice(lines, CHUNK)):
            vectors = api.embed_lines(
                encoder,
                chunk,
                first,
                pooling=pooling,
                normalise=normalise,
                truncate=truncate,
                batch_tokens=batch_tokens,
                progress=done,
            )
            first += len(chunk)
            if npy is not None:
                arrays.append(vectors)
                continue
            for vector in vectors:
                # Nine digits give back the same float32.
                numbers = [float(f"{value:.9g}") for value in vector]
                out.write(json.dumps(numbers).encode() + b"\n")
            out.flush()
        if npy is not None:
            import numpy as np

            width = encoder.model.config.d_model
            np.save(out, np.concatenate([np.zeros((0, width), np.float32), *arrays]))
    warn_of_replaced(replaced)

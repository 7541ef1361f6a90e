"""Models of others in, ours out, and vectors of lines."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon import interop
from gnomon.api.load import model_folder
from gnomon.errors import DataError
from gnomon.tasks import Encoder


def import_model(
    name: str | Path,
    out: str | Path,
    *,
    ignore: Collection[str] = (),
    head: bool = True,
    pairs: bool = False,
) -> interop.Imported:
    """Write the model folder of a Hugging Face model; see `gnomon.interop.import_model`."""
    return interop.import_model(name, out, ignore=ignore, head=head, pairs=pairs)


def export_model(
    path: str | Path, out: str | Path, *, checkpoint: str = "best"
) -> interop.Exported:
    """Write a Hugging Face folder of a run's or a folder's model.

    Raises:
        ModelError: no architecture there computes what the model does.
        RunError: the run has no such checkpoint.
    """
    return interop.export_model(model_folder(path, checkpoint), out)


def embed_lines(
    encoder: Encoder, lines: Sequence[str], first: int, **settings: Any
) -> NDArray[np.float32]:
    """A vector for each line, whose two texts may stand on either side of a TAB.

    Args:
        first: number of the first line, for messages.
        **settings: as for `Encoder.embed`.

    Raises:
        DataError: a line has several TABs, or a text is too long; the line is named.
    """
    rows = [line.split("\t") for line in lines]
    for number, row in enumerate(rows, first):
        if len(row) > 2:
            raise DataError(
                "a line is a text, or two with one TAB between them",
                seen=f"line {number}: {len(row) - 1} TABs",
            )
    found = np.zeros((len(rows), encoder.model.config.d_model), np.float32)
    for width in (1, 2):
        places = [place for place, row in enumerate(rows) if len(row) == width]
        if places:
            firsts = [rows[place][0] for place in places]
            seconds = [rows[place][1] for place in places] if width == 2 else None
            numbers = [first + place for place in places]
            found[places] = encoder.embed(firsts, seconds, numbers=numbers, **settings)
    return found

"""Validation curves as a picture, by matplotlib where it is installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path

from gnomon.errors import RunError


def plot_curves(curves: Mapping[str, Sequence[tuple[int, float]]], path: Path) -> None:
    """Draw loss over steps, one line a run, to a file whose suffix says the format.

    Raises:
        RunError: matplotlib is missing, the format is unknown, or there is nothing to draw.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise RunError("drawing curves needs matplotlib", mend="pip install 'gnomon[plot]'")
    if path.suffix not in (".png", ".svg", ".pdf"):
        raise RunError("a plot is a .png, .svg or .pdf file", seen=path)
    if not any(curves.values()):
        raise RunError("there is nothing to draw: no run has validated yet")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.add_subplot()
    for name, curve in curves.items():
        if curve:
            steps, values = zip(*curve, strict=True)
            axes.plot(steps, values, marker=".", label=name)
    axes.set_xlabel("step")
    axes.set_ylabel("validation loss, nats per token")
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)

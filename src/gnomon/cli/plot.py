"""Pictures for a file, by matplotlib where it is installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gnomon.errors import RunError

if TYPE_CHECKING:
    from gnomon.evaluation.classification import ClassificationReport
    from gnomon.evaluation.language import PositionRow
    from gnomon.evaluation.retrieval import RetrievalReport


def check_picture(path: Path | None) -> None:
    """Tell before any work is done that a picture, if one is asked for, cannot be drawn.

    Raises:
        RunError: matplotlib is missing, or the format is unknown.
    """
    if path is None:
        return
    if importlib.util.find_spec("matplotlib") is None:
        raise RunError("drawing a picture needs matplotlib", mend="pip install 'gnomon[plot]'")
    if path.suffix not in (".png", ".svg", ".pdf"):
        raise RunError("a plot is a .png, .svg or .pdf file", seen=path)


def _figure(path: Path, width: float, height: float) -> Any:
    """An empty picture.

    Raises:
        RunError: as `check_picture`.
    """
    check_picture(path)
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def plot_confusion(report: ClassificationReport, path: Path) -> None:
    """Draw which label was taken for which, each row as shares of its texts.

    Raises:
        RunError: as `plot_curves`; or a text has several labels, so that none is taken for another.
    """
    if report.confusion is None:
        raise RunError(
            "a confusion matrix is of one label a text or word", seen="a text may have several"
        )
    names = [row.label for row in report.labels]
    size = min(20.0, 2.5 + 0.5 * len(names))
    figure = _figure(path, size + 1, size)
    axes = figure.add_subplot()
    shares = [[count / max(1, sum(row)) for count in row] for row in report.confusion]
    image = axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    places = range(len(names))
    axes.set_xticks(places, names, rotation=90 if len(names) > 4 else 0)
    axes.set_yticks(places, names)
    axes.set_xlabel("given")
    axes.set_ylabel("label")
    if len(names) <= 25:
        for row, values in enumerate(report.confusion):
            for column, count in enumerate(values):
                shade = "white" if shares[row][column] > 0.5 else "black"
                axes.text(column, row, f"{count:,}", ha="center", va="center", color=shade)
    figure.colorbar(image, label="share of the label's texts")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def plot_positions(
    found: Mapping[str, Sequence[PositionRow]], trained: int | None, path: Path
) -> None:
    """Draw perplexity over the tokens in view, one line a model.

    Args:
        trained: tokens that were in view in training, marked if known.

    Raises:
        RunError: as `plot_curves`.
    """
    axes = (figure := _figure(path, 8, 5)).add_subplot()
    for name, rows in found.items():
        places = [(row.first * row.last) ** 0.5 for row in rows]
        axes.plot(places, [row.perplexity for row in rows], marker="o", label=name)
    if trained is not None:
        axes.axvline(trained, color="grey", linestyle="--", label="in view in training")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    for axis in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
        axis("{x:,g}")
    axes.set_xlabel("tokens before")
    axes.set_ylabel("perplexity")
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def plot_retrieval(report: RetrievalReport, path: Path) -> None:
    """Draw the share of answers found by tokens in view and distance.

    Raises:
        RunError: as `plot_curves`.
    """
    lengths = sorted({row.length for row in report.rows})
    farthest = {n: max(row.distance for row in report.rows if row.length == n) for n in lengths}
    near = sorted({row.distance for row in report.rows if row.distance != farthest[row.length]})
    names = [f"{distance:,}" for distance in near] + ["from the begin"]
    figure = _figure(path, 2.5 + 0.9 * len(lengths), 1.5 + 0.6 * len(names))
    axes = figure.add_subplot()
    table = [[float("nan")] * len(lengths) for _ in names]
    for row in report.rows:
        is_far = row.distance == farthest[row.length]
        line, column = len(near) if is_far else near.index(row.distance), lengths.index(row.length)
        table[line][column] = row.found
        shade = "white" if row.found > 0.5 else "black"
        axes.text(column, line, f"{row.found:.2f}", ha="center", va="center", color=shade)
    image = axes.imshow(table, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axes.set_xticks(range(len(lengths)), [f"{length:,}" for length in lengths])
    axes.set_yticks(range(len(names)), names)
    axes.set_xlabel("tokens in view")
    axes.set_ylabel("tokens back to the answer")
    figure.colorbar(image, label="share found")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def plot_curves(curves: Mapping[str, Sequence[tuple[int, float]]], path: Path) -> None:
    """Draw loss over steps, one line a run, to a file whose suffix says the format.

    Raises:
        RunError: matplotlib is missing, the format is unknown, or there is nothing to draw.
    """
    figure = _figure(path, 8, 5)
    if not any(curves.values()):
        raise RunError("there is nothing to draw: no run has validated yet")
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

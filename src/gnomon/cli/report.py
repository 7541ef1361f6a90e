"""Results as tables for a person."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from gnomon.evaluation import EvaluationReport, Score


def print_scores(report: EvaluationReport, console: Console) -> None:
    """The model's scores, with those of the baselines beside them, and how each was measured."""
    table = Table(title=f"{len(report.lines):,} lines", title_justify="left")
    table.add_column("score")
    table.add_column("model", justify="right", style="bold")
    for name in report.baselines:
        table.add_column(name, justify="right")
    for score in report.scores:
        beside = [_value(score.name, scores) for scores in report.baselines.values()]
        table.add_row(score.name, f"{score.value:.2f}", *beside)
    console.print(table)
    for score in report.scores:
        console.print(f"{score.name}: {score.signature}", style="dim", highlight=False)


def _value(name: str, scores: list[Score]) -> str:
    return next((f"{score.value:.2f}" for score in scores if score.name == name), "–")

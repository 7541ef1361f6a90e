"""Results as tables: aligned for a person at a terminal, tab-separated for a program."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gnomon.cli.console import console, print_line, say
from gnomon.errors import excerpt
from gnomon.evaluation import Comparison, EvaluationReport, RobustnessRow, Score
from gnomon.evaluation.classification import ClassificationReport
from gnomon.evaluation.language import LanguageReport

AnyReport = EvaluationReport | ClassificationReport | LanguageReport
ARROWS = {True: "↑", False: "↓"}


@dataclass(frozen=True)
class Sheet:
    """A table of texts. `left` names the columns that are aligned left, beside the first."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: Sequence[str] = ()

    def draw(self, console: Console) -> None:
        """Aligned, for a person."""
        table = Table(title=self.title, title_justify="left")
        for place, name in enumerate(self.columns):
            is_left = place == 0 or name in self.left
            table.add_column(name, justify="left" if is_left else "right")
        for row in self.rows:
            table.add_row(*map(_shown, row))
        console.print(table)

    def print(self) -> None:
        """Tab-separated on standard output, the title and the columns in a comment line."""
        print_line(f"# {self.title}: " + "\t".join(self.columns))
        for row in self.rows:
            print_line("\t".join(_shown(cell, as_markup=False) for cell in row))


def print_report(report: AnyReport, sheets: Sequence[Sheet]) -> None:
    """The scores and these sheets, once: drawn where standard output is a terminal.

    Elsewhere standard output holds one line per score (name, value, signature, lower and upper end
    of the interval, details), and the sheets below.
    """
    if sys.stdout.isatty():
        print_scores(report, console())
        print_sheets(sheets)
        return
    for score in report.scores:
        ends = ("", "") if score.interval is None else map("{:.4f}".format, score.interval)
        row = [score.name, f"{score.value:.4f}", score.signature, *ends, score.details]
        print_line("\t".join(row))
    if report.baselines:
        _beside(report).print()
    print_sheets(sheets)


def print_sheets(sheets: Sequence[Sheet]) -> None:
    """Drawn at a terminal, tab-separated elsewhere."""
    for sheet in sheets:
        if sys.stdout.isatty():
            sheet.draw(console())
        else:
            sheet.print()


def tell(report: AnyReport, text: str, sheets: Sequence[Sheet]) -> None:
    """What was judged on which text, how well, and where the report is kept."""
    if scored := report.about.get("model"):
        say(f"model: {scored}")  # which checkpoint of a run it was
        say(f"text: {text}")
    print_report(report, sheets)
    if stored := report.about.get("report"):
        say(f"report: {stored}")


def _beside(report: AnyReport) -> Sheet:
    """What other models, n-grams or the most frequent label reach on the same text."""
    return Sheet(
        "beside",
        ["model", *(score.name for score in report.scores)],
        [
            [name, *(_value(score.name, scores, digits=4) for score in report.scores)]
            for name, scores in report.baselines.items()
        ],
    )


def print_scores(report: AnyReport, console: Console) -> None:
    """The model's scores, with those of the baselines beside them, and how each was measured."""
    if isinstance(report, LanguageReport):
        title = f"{report.num_documents:,} documents"
    else:
        title = f"{len(report.lines):,} lines"
    table = Table(title=title, title_justify="left")
    table.add_column("score")
    table.add_column("model", justify="right", style="bold")
    table.add_column("95 % interval", justify="right")
    for name in report.baselines:
        table.add_column(name, justify="right")
    table.add_column("made of")
    for score in report.scores:
        beside = [_value(score.name, scores) for scores in report.baselines.values()]
        name = f"{score.name} {ARROWS[score.higher_is_better]}"
        table.add_row(
            name, f"{score.value:.2f}", interval_text(score.interval), *beside, score.details
        )
    console.print(table)
    if isinstance(report, EvaluationReport) and (line := outputs_text(report)):
        console.print(line, highlight=False)
    for score in report.scores:
        console.print(f"{score.name}: {score.signature}", style="dim", highlight=False)


def outputs_text(report: EvaluationReport) -> str:
    """One line about the outputs: length, empty, truncated and far ones, loops, copies."""
    found = report.outputs
    if found is None:
        return ""
    parts = [f"length {found.length_ratio:.2f} × the references' ({found.unit})"]
    parts.append(f"{found.empty:,} empty")
    if found.truncated is not None:
        parts.append(f"{found.truncated:,} truncated")
    if found.cut is not None:
        parts.append(f"{found.cut:,} sources read in part")
    if found.far is not None:
        parts.append(f"{found.far:,} inputs far from the training text")
    parts.append(
        f"repeated 4-grams {found.repeated:.1%} (references {found.repeated_in_references:.1%})"
    )
    if found.copied is not None:
        parts.append(f"copied {found.copied:.1%} (references {found.copied_in_references:.1%})")
    return "outputs: " + ", ".join(parts)


def by_length_sheet(report: EvaluationReport) -> Sheet:
    """Scores by source length."""
    buckets = report.by_length
    names = list(buckets[0].scores) if buckets else []
    unit = buckets[0].unit if buckets else "words"
    return Sheet(
        "by source length",
        [unit, "lines", *names, "length ratio"],
        [
            [
                bucket.label,
                f"{bucket.num_lines:,}",
                *(f"{bucket.scores[name]:.2f}" for name in names),
                f"{bucket.length_ratio:.2f}",
            ]
            for bucket in buckets
        ],
    )


def worst_sheet(report: EvaluationReport, count: int) -> Sheet:
    """The worst sentences by chrF."""
    return Sheet(
        "worst sentences by chrF",
        ["line", "chrF", "source", "reference", "output"],
        [
            [
                str(line.number),
                f"{line.chrf:.1f}",
                line.source or "",
                line.reference,
                line.hypothesis,
            ]
            for line in report.worst(count)
        ],
        left=("source", "reference", "output"),
    )


def comparison_sheets(report: EvaluationReport | ClassificationReport) -> list[Sheet]:
    """One for each system this one was compared with."""
    return [
        comparison_sheet(f"against {name}", comparisons)
        for name, comparisons in report.comparisons.items()
    ]


def comparison_sheet(title: str, comparisons: Sequence[Comparison]) -> Sheet:
    """Differences with interval and p-value."""
    return Sheet(
        f"{title}, paired bootstrap",
        ["score", "this", "other", "difference", "95 % interval", "p", "this one is"],
        [
            [
                one.name,
                f"{one.value:.2f}",
                f"{one.against:.2f}",
                f"{one.value - one.against:+.2f}",
                interval_text(one.interval),
                f"{one.p_value:.3f}",
                one.verdict,
            ]
            for one in comparisons
        ],
        left=("this one is",),
    )


def robustness_sheet(report: EvaluationReport) -> Sheet:
    """How the scores hold when the sources are typed differently."""
    rows = report.robustness
    names = next((list(row.scores) for row in rows if row.scores), [])
    return Sheet(
        "robustness (score, difference to the clean text)",
        ["sources", "lines", *names, "unchanged", "empty", "truncated", "beside"],
        [_robustness_row(row, names) for row in rows],
        left=("beside",),
    )


def _robustness_row(row: RobustnessRow, names: Sequence[str]) -> list[str]:
    if row.skipped is not None:
        return [row.name, "–", *("–" for _ in names), "–", "–", "–", f"skipped: {row.skipped}"]
    scores = [
        f"{row.scores[name]:.2f} ({row.scores[name] - row.clean[name]:+.2f})"
        if name in row.scores
        else "–"
        for name in names
    ]
    beside = ", ".join(f"{name} {_figure(name, value)}" for name, value in row.figures.items())
    shares = [_percent(share) for share in (row.unchanged, row.empty, row.truncated)]
    return [row.name, f"{row.num_lines:,}", *scores, *shares, beside]


def _figure(name: str, value: float) -> str:
    return f"{value:.2f}" if name == "units a word" else f"{value:.0%}"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.0%}"


def interval_text(bounds: tuple[float, float] | None) -> str:
    """For example "40.12 to 42.30"."""
    return "–" if bounds is None else f"{bounds[0]:.2f} to {bounds[1]:.2f}"


def _value(name: str, scores: list[Score], digits: int = 2) -> str:
    return next((f"{score.value:.{digits}f}" for score in scores if score.name == name), "–")


def _shown(text: str, *, as_markup: bool = True) -> str:
    return escape(excerpt(text)) if as_markup else excerpt(text)

"""`gnomon evaluate` for classifiers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gnomon.cli.console import print_line
from gnomon.cli.line_progress import LineProgress
from gnomon.cli.report import Sheet, tell

if TYPE_CHECKING:
    from gnomon.evaluation.classification import ClassificationReport

_LARGEST_CONFUSION = 20  # labels; a larger table is in the JSON report


def evaluate_labels(
    model: Path,
    *,
    data: Path | None,
    columns: Mapping[str, str | None],
    against: Sequence[Path],
    settings: Mapping[str, Any],
    worst: int,
    picture: Path | None,
    json_: bool,
    batch_tokens: int,
    checkpoint: str,
    device: str,
    progress: bool | None,
) -> None:
    """Scores, a row for each label, and which label was taken for which."""
    from gnomon import api
    from gnomon.cli.plot import check_picture, plot_confusion

    check_picture(picture)
    with LineProgress(progress, prints=False) as shown:
        report = api.evaluate_classifier(
            model,
            data=data,
            columns=columns,
            checkpoint=checkpoint,
            device=device,
            against=against,
            settings=settings,
            batch_tokens=batch_tokens,
            progress=shown.begin,
        )
    if picture is not None:
        plot_confusion(report, picture)
    if json_:
        print_line(report.to_json().rstrip("\n"))
        return
    sheets = [*_comparisons(report), _labels(report)]
    if report.confusion is not None and len(report.labels) <= _LARGEST_CONFUSION:
        sheets.append(_confusion(report))
    if worst:
        sheets.append(_worst(report, worst))
    tell(report, f"{report.about['files'][0]} ({report.about['split']})", sheets)


def _comparisons(report: ClassificationReport) -> list[Sheet]:
    from gnomon.cli.report import comparison_sheets

    return comparison_sheets(report)


def _labels(report: ClassificationReport) -> Sheet:
    return Sheet(
        "by label",
        ("label", "precision", "recall", "F1", "texts", "given"),
        [
            (
                row.label,
                *(f"{value:.1f}" for value in (row.precision, row.recall, row.f1)),
                f"{row.support:,}",
                f"{row.given:,}",
            )
            for row in report.labels
        ],
    )


def _confusion(report: ClassificationReport) -> Sheet:
    assert report.confusion is not None, "there is a table to show"
    names = [row.label for row in report.labels]
    return Sheet(
        "rows: what it is; columns: what was given",
        ("", *names),
        [(name, *map(str, row)) for name, row in zip(names, report.confusion, strict=True)],
    )


def _worst(report: ClassificationReport, count: int) -> Sheet:
    from gnomon.errors import excerpt

    rows = []
    for line in report.worst(count):
        rows.append(
            (
                str(line.number),
                excerpt(" ".join(line.labels), 40),
                excerpt(" ".join(line.given), 40),
                f"{max(line.confidence, default=0.0):.2f}",
                excerpt(line.text if line.pair is None else f"{line.text} | {line.pair}", 80),
            )
        )
    return Sheet(
        "wrong with most confidence",
        ("row", "label", "given", "confidence", "text"),
        rows,
        left=("label", "given", "text"),
    )

"""`gnomon evaluate` for language models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gnomon.cli.console import print_line
from gnomon.cli.line_progress import LineProgress
from gnomon.cli.report import Sheet, tell

if TYPE_CHECKING:
    from gnomon.evaluation.language import LanguageReport


def evaluate_language(
    model: Path,
    *,
    data: Path | None,
    documents: str | None,
    field: str | None,
    length: int | None,
    stride: int | None,
    against: Sequence[Path],
    ngrams: int,
    by_position: bool,
    picture: Path | None,
    json_: bool,
    batch_tokens: int,
    checkpoint: str,
    device: str,
    progress: bool | None,
) -> None:
    """Loss, perplexity and bits; by position on demand."""
    from gnomon import api
    from gnomon.cli.plot import check_picture, plot_positions

    check_picture(picture)
    with LineProgress(progress, prints=False) as shown:
        report = api.evaluate_language_model(
            model,
            data=data,
            documents_are=documents,
            field=field,
            length=length,
            stride=stride,
            against=against,
            ngrams=ngrams,
            checkpoint=checkpoint,
            device=device,
            batch_tokens=batch_tokens,
            progress=lambda stage, _: shown.begin(stage, None),
        )
    if picture is not None:
        plot_positions({str(model): report.positions}, report.about["trained_with"], picture)
    if json_:
        print_line(report.to_json().rstrip("\n"))
        return
    sheets = [_positions(report)] if by_position else []
    tell(report, f"{report.about['files'][0]} ({report.about['split']})", sheets)


def _positions(report: LanguageReport) -> Sheet:
    trained = report.about["trained_with"]
    return Sheet(
        "by position" + (f" (trained with {trained:,} tokens in view)" if trained else ""),
        ("tokens before", "tokens", "nll", "perplexity"),
        [
            (
                f"{row.first:,}" if row.first == row.last else f"{row.first:,} to {row.last:,}",
                f"{row.tokens:,}",
                f"{row.nll:.4f}",
                f"{row.perplexity:.2f}",
            )
            for row in report.positions
        ],
    )

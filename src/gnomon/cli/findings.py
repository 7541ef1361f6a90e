"""The table of what cleaning found: reason, what is done, pairs, share, first lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from gnomon.api import Look

_NUM_SHOWN = 3  # lines shown per reason
_SPLITS = {"train": "training", "valid": "validation", "test": "test"}


def print_findings(look: Look, console: Console) -> None:
    """One table per split, and a sentence that says what would be kept."""
    from gnomon.text import REASONS

    for split, report in look.reports.items():
        if report.findings:
            table = Table(
                "reason", "action", "pairs", "share", "first lines", title=f"{_SPLITS[split]} text"
            )
            for reason, finding in report.in_order():
                shown = [
                    f"{look.spots[split][line]}: {' → '.join(look.excerpts[split][line])}"
                    + (f" ({detail})" if detail else "")
                    for line, detail in zip(finding.lines, finding.details, strict=True)
                ]
                table.add_row(
                    REASONS[reason],
                    finding.action if split == "train" else "keep",
                    f"{finding.count:,}",
                    f"{finding.count / report.num_pairs:.2%}",
                    Text("\n".join(shown[:_NUM_SHOWN])),
                )
            console.print(table)
        dropped = report.num_dropped if split == "train" else 0
        repaired = report.num_repaired if split == "train" else 0
        console.print(
            f"{report.num_pairs - dropped:,} of {report.num_pairs:,} {_SPLITS[split]} pairs would "
            f"be kept, {repaired:,} of them repaired",
            highlight=False,
        )

"""What cleaning found: counts by reason, first examples, and every line in a TSV."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, TextIO

from gnomon.text.cleaning import REASONS

NUM_EXAMPLES = 5  # lines named per reason
COLUMNS = ("line", "reason", "action", "detail")


@dataclass
class Finding:
    """Pairs that show one reason."""

    action: str  # "drop", "keep" or "repair"
    count: int = 0
    lines: list[int] = field(default_factory=list)  # the first few, numbers in the corpus from 1
    details: list[str] = field(default_factory=list)  # what was seen there


@dataclass
class CleaningReport:
    """What was looked at, what it showed, and what became of it."""

    num_pairs: int = 0  # looked at
    num_dropped: int = 0
    num_repaired: int = 0
    findings: dict[str, Finding] = field(default_factory=dict)  # by reason, a key of `REASONS`

    @property
    def num_kept(self) -> int:
        """Pairs to learn from, repaired ones among them."""
        return self.num_pairs - self.num_dropped

    def add(self, reason: str, action: str, line: int, detail: str) -> None:
        """Count a pair that shows `reason`."""
        finding = self.findings.setdefault(reason, Finding(action))
        finding.count += 1
        if len(finding.lines) < NUM_EXAMPLES:
            finding.lines.append(line)
            finding.details.append(detail)

    def in_order(self) -> list[tuple[str, Finding]]:
        """The findings in the order of `REASONS`."""
        return [(reason, self.findings[reason]) for reason in REASONS if reason in self.findings]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)

    @classmethod
    def of(cls, values: dict[str, Any]) -> CleaningReport:
        """Return the report that `to_dict` made `values` of."""
        findings = {reason: Finding(**finding) for reason, finding in values["findings"].items()}
        return cls(**{**values, "findings": findings})


class FindingsFile:
    """A TSV with one row for each line and reason, in the order they are found."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._write(COLUMNS)

    def add(self, spot: str, reason: str, action: str, detail: str) -> None:
        """Write one row; for `spot` see `ParallelCorpus.spot`."""
        self._write((spot, reason, action, detail))

    def _write(self, cells: Iterable[str]) -> None:
        # A detail may quote text; what would break the table is written as Python escapes it.
        clean = (cell if cell.isprintable() else ascii(cell)[1:-1] for cell in cells)
        self._file.write("\t".join(clean) + "\n")

"""Scores of short lines and long ones apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gnomon.evaluation.measure import Measured
from gnomon.evaluation.outputs import length_unit, line_length

LAST = {"words": (0, 5, 10, 15, 20, 30, 50), "characters": (0, 10, 20, 30, 40, 60, 100)}
"""The longest line of each bucket but the last, which is open."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LengthBucket:
    """The lines whose source has from `first` to `last` units.

    Attributes:
        first, last: in `unit`; `last` is None in the open bucket.
        unit: "words" or "characters".
        num_lines: never 0.
        scores: value by measure.
        length_ratio: total length of the outputs over that of the references.
    """

    first: int
    last: int | None
    unit: str
    num_lines: int
    scores: dict[str, float]
    length_ratio: float

    @property
    def label(self) -> str:
        """For example "6–10" or "51+"."""
        if self.last is None:
            return f"{self.first}+"
        return str(self.first) if self.first == self.last else f"{self.first}–{self.last}"


def by_length(
    sources: Sequence[str],
    hypotheses: Sequence[str],
    references: Sequence[str],
    measured: Measured,
) -> list[LengthBucket]:
    """Buckets by source length, shortest first; empty ones are left out.

    Args:
        sources, hypotheses, references: one entry a line.
        measured: each measure with its rows of these lines.
    """
    unit, target_unit = length_unit(sources), length_unit(references)
    edges = LAST[unit]
    places = np.searchsorted(edges, [line_length(source, unit) for source in sources])
    buckets = []
    for place in sorted(set(places.tolist())):
        lines: list[int] = np.flatnonzero(places == place).tolist()
        ours = sum(line_length(hypotheses[line], target_unit) for line in lines)
        theirs = sum(line_length(references[line], target_unit) for line in lines)
        buckets.append(
            LengthBucket(
                first=edges[place - 1] + 1 if place else 0,
                last=edges[place] if place < len(edges) else None,
                unit=unit,
                num_lines=len(lines),
                scores={
                    measure.name: measure.value(rows[lines].sum(axis=0))
                    for measure, rows in measured
                },
                length_ratio=ours / theirs if theirs else 0.0,
            )
        )
    return buckets

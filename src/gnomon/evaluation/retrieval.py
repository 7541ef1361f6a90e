"""Whether a language model finds what was said far before: shares by length and distance."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from gnomon.evaluation.language import FORMAT_VERSION
from gnomon.files import json_value


@dataclass(frozen=True, slots=True)
class Retrieval:
    """What a model made of one document.

    Attributes:
        found: whether it answers with the value that the document states.
        control: whether it gives the same answer where the document states another.
        gain: log-probability of the answer, less that of the same answer in the control, in nats.
    """

    found: bool
    control: bool
    gain: float


@dataclass(frozen=True, kw_only=True)
class RetrievalRow:
    """Documents of one length whose answer stands as far before the question.

    Attributes:
        length: tokens in view, at most.
        distance: tokens from the answer back to where it was stated, at most.
        documents: how many.
        found: share of them that were answered.
        control: share that got the same answer with the values dealt otherwise: guessing.
        told_apart: share in which the answer is more probable than in the control; half by chance.
        gain: by how much, in nats, the mean; 0 for a model that does not look.
    """

    length: int
    distance: int
    documents: int
    found: float
    control: float
    told_apart: float
    gain: float


def retrieval_row(length: int, distance: int, results: Sequence[Retrieval]) -> RetrievalRow:
    """Shares and means of some documents."""
    count = len(results)
    return RetrievalRow(
        length=length,
        distance=distance,
        documents=count,
        found=sum(each.found for each in results) / count,
        control=sum(each.control for each in results) / count,
        told_apart=sum(each.gain > 0 for each in results) / count,
        gain=sum(each.gain for each in results) / count,
    )


@dataclass(frozen=True)
class RetrievalReport:
    """How far a model reaches.

    Attributes:
        rows: by length, then distance.
        about: model and settings.
    """

    rows: list[RetrievalRow]
    about: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> str:
        """Strict JSON, readable."""
        tree = {
            "format_version": FORMAT_VERSION,
            "task": "retrieval",
            "about": self.about,
            "rows": json_value(self.rows),
        }
        return json.dumps(tree, ensure_ascii=False, allow_nan=False, indent=2) + "\n"

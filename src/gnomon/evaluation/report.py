"""The result of evaluating translations, in a form to keep."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from gnomon.errors import DataError
from gnomon.evaluation.config import EvaluationConfig
from gnomon.evaluation.score import Score
from gnomon.evaluation.translation import is_exact_match, translation_scores

FORMAT_VERSION = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class EvaluatedLine:
    """One line of the evaluated text. `number` counts from 1; `exact` is the exact match."""

    number: int
    source: str | None
    reference: str
    hypothesis: str
    exact: bool


@dataclass(frozen=True, kw_only=True)
class EvaluationReport:
    """Scores of a text, the same scores of the baselines, and every line.

    Attributes:
        scores: in the order of the configuration.
        baselines: by name ("copy", "nearest"), the scores of a baseline on the same lines.
        lines: one per reference, in order, blank lines included.
        about: what else it takes to get these scores again, such as checkpoint and search.
    """

    scores: list[Score]
    baselines: dict[str, list[Score]]
    lines: list[EvaluatedLine]
    about: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Score:
        """The score of that name; KeyError where it was not taken."""
        for score in self.scores:
            if score.name == name:
                return score
        raise KeyError(name)

    def to_json(self) -> str:
        """Strict JSON, readable, one line of it per line of text; what is not finite is null."""
        head = {
            "format_version": FORMAT_VERSION,
            "about": self.about,
            "num_lines": len(self.lines),
            "scores": [_plain(score) for score in self.scores],
            "baselines": {
                name: [_plain(score) for score in scores] for name, scores in self.baselines.items()
            },
        }
        text = json.dumps(head, ensure_ascii=False, allow_nan=False, indent=2)
        rows = (json.dumps(asdict(line), ensure_ascii=False) for line in self.lines)
        return (
            text.removesuffix("\n}") + ',\n  "lines": [\n    ' + ",\n    ".join(rows) + "\n  ]\n}\n"
        )


def evaluate_translations(
    hypotheses: Sequence[str],
    references: Sequence[str],
    config: EvaluationConfig,
    *,
    sources: Sequence[str] | None = None,
    baselines: Mapping[str, Sequence[str]] | None = None,
    language: str | None = None,
) -> EvaluationReport:
    """Score translations, and baselines beside them, against the references.

    Args:
        hypotheses, references, config, language: see `translation_scores`.
        sources: what was translated, for the report's rows.
        baselines: by name, other translations of the same lines.

    Raises:
        DataError: no lines, or counts that differ.
    """
    if sources is not None and len(sources) != len(references):
        raise DataError(
            "There must be one source line for each reference line.",
            seen=f"{len(sources)} sources, {len(references)} references",
        )
    scores = translation_scores(hypotheses, references, config, language=language)
    return EvaluationReport(
        scores=scores,
        baselines={
            name: translation_scores(lines, references, config, language=language)
            for name, lines in (baselines or {}).items()
        },
        lines=[
            EvaluatedLine(
                number=number,
                source=None if sources is None else sources[number - 1],
                reference=reference,
                hypothesis=hypothesis,
                exact=is_exact_match(hypothesis, reference, lowercase=config.lowercase),
            )
            for number, (hypothesis, reference) in enumerate(
                zip(hypotheses, references, strict=True), start=1
            )
        ],
    )


def _plain(score: Score) -> dict[str, Any]:
    value = score.value if math.isfinite(score.value) else None
    return {**asdict(score), "value": value}

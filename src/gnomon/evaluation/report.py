"""The result of evaluating translations, in a form to keep."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from gnomon.errors import DataError
from gnomon.evaluation.bootstrap import Comparison, compared, score_interval
from gnomon.evaluation.by_length import LengthBucket, by_length
from gnomon.evaluation.config import EvaluationConfig
from gnomon.evaluation.measure import chrf_measure, is_exact_match, measured_lines
from gnomon.evaluation.outputs import Output, OutputFigures, output_figures
from gnomon.evaluation.robustness import RobustnessRow
from gnomon.evaluation.score import Score
from gnomon.evaluation.translation import translation_scores
from gnomon.files import json_value

FORMAT_VERSION = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class EvaluatedLine:
    """One line of the evaluated text.

    `number` counts from 1; `exact` is the exact match, `chrf` the sentence's chrF; `truncated` and
    `far` are None where the system does not say.
    """

    number: int
    source: str | None
    reference: str
    hypothesis: str
    exact: bool
    chrf: float
    truncated: bool | None = None
    far: bool | None = None


@dataclass(frozen=True, kw_only=True)
class EvaluationReport:
    """Scores of a text, the same scores of the baselines, and every line.

    Attributes:
        scores: in the order of the configuration.
        baselines: by name ("copy", "nearest"), the scores of a baseline on the same lines.
        lines: one per reference, in order, blank lines included.
        about: what else it takes to get these scores again, such as checkpoint and search.
        outputs: length ratio, empty, truncated and far outputs, loops, copies.
        by_length: scores by source length; empty where there are no sources.
        comparisons: by the name of another system, this one against it on the same lines.
        robustness: how the scores hold when the sources are perturbed; empty if not asked for.
    """

    scores: list[Score]
    baselines: dict[str, list[Score]]
    lines: list[EvaluatedLine]
    about: dict[str, Any] = field(default_factory=dict)
    outputs: OutputFigures | None = None
    by_length: list[LengthBucket] = field(default_factory=list)
    comparisons: dict[str, list[Comparison]] = field(default_factory=dict)
    robustness: list[RobustnessRow] = field(default_factory=list)

    def __getitem__(self, name: str) -> Score:
        """The score of that name; KeyError where it was not taken."""
        for score in self.scores:
            if score.name == name:
                return score
        raise KeyError(name)

    def worst(self, count: int) -> list[EvaluatedLine]:
        """The lines with the lowest sentence chrF, worst first; blank references are left out."""
        lines = [line for line in self.lines if line.reference.strip()]
        return sorted(lines, key=lambda line: (line.chrf, line.number))[:count]

    def to_json(self) -> str:
        """Strict JSON, readable, one line of it per line of text; what is not finite is null."""
        head = {
            "format_version": FORMAT_VERSION,
            "about": self.about,
            "num_lines": len(self.lines),
            "scores": json_value(self.scores),
            "baselines": json_value(self.baselines),
            "outputs": json_value(self.outputs),
            "by_length": json_value(self.by_length),
            "comparisons": json_value(self.comparisons),
            "robustness": json_value(self.robustness),
        }
        text = json.dumps(head, ensure_ascii=False, allow_nan=False, indent=2)
        rows = (json.dumps(asdict(line), ensure_ascii=False) for line in self.lines)
        return (
            text.removesuffix("\n}") + ',\n  "lines": [\n    ' + ",\n    ".join(rows) + "\n  ]\n}\n"
        )


def evaluate_translations(
    hypotheses: Sequence[str] | Sequence[Output],
    references: Sequence[str],
    config: EvaluationConfig,
    *,
    sources: Sequence[str] | None = None,
    baselines: Mapping[str, Sequence[str]] | None = None,
    against: Mapping[str, Sequence[str]] | None = None,
) -> EvaluationReport:
    """Score translations, and baselines beside them, against the references.

    Args:
        hypotheses: texts, or outputs with what the system said of them.
        references, config: see `translation_scores`.
        sources: what was translated, for the report's rows.
        baselines: by name, other translations of the same lines.
        against: by name, translations of other systems to test for a significant difference.

    Raises:
        DataError: no lines, or counts that differ.
    """
    if sources is not None and len(sources) != len(references):
        raise DataError(
            "There must be one source line for each reference line.",
            seen=f"{len(sources)} sources, {len(references)} references",
        )
    outputs = [text if isinstance(text, Output) else Output(text) for text in hypotheses]
    texts = [output.text for output in outputs]
    measured = measured_lines(texts, references, config)
    return EvaluationReport(
        scores=[
            measure.score(rows, score_interval(measure, rows, config)) for measure, rows in measured
        ],
        baselines={
            name: translation_scores(lines, references, config)
            for name, lines in (baselines or {}).items()
        },
        lines=_lines(outputs, references, sources, lowercase=config.lowercase),
        outputs=output_figures(outputs, references, sources),
        by_length=[] if sources is None else by_length(sources, texts, references, measured),
        comparisons={
            name: compared(measured, lines, references, config)
            for name, lines in (against or {}).items()
        },
    )


def _lines(
    outputs: Sequence[Output],
    references: Sequence[str],
    sources: Sequence[str] | None,
    *,
    lowercase: bool,
) -> list[EvaluatedLine]:
    sentence = chrf_measure(lowercase=lowercase)
    rows = sentence.rows([output.text for output in outputs], references)
    return [
        EvaluatedLine(
            number=number,
            source=None if sources is None else sources[number - 1],
            reference=reference,
            hypothesis=output.text,
            exact=is_exact_match(output.text, reference, lowercase=lowercase),
            chrf=round(sentence.value(row), 2),
            truncated=output.truncated,
            far=output.far,
        )
        for number, (output, reference, row) in enumerate(
            zip(outputs, references, rows, strict=True), start=1
        )
    ]

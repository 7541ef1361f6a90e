"""How outputs hold when the sources are typed differently."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from gnomon.evaluation.config import EvaluationConfig
from gnomon.evaluation.outputs import Output, length_unit, line_length, repeated_share
from gnomon.evaluation.perturb import (
    OTHER_NUMBERS,
    PERTURBATIONS,
    Perturbation,
    numbers,
    single_words,
    view_of,
)
from gnomon.evaluation.translation import translation_scores

Translate = Callable[[Sequence[str]], Sequence[Output]]

RUN_AWAY = 4
"""An output of more than this many times the characters of its word (or of 8) has run away."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RobustnessRow:
    """One perturbation; shares are of 1.

    Attributes:
        name: of the perturbation.
        skipped: why it was not tried, or None; then all figures are empty.
        num_lines: lines that the perturbation changed (all are scored), or single words.
        scores, clean: value by metric of the perturbed and of the clean sources, both compared in
            the perturbation's view (without case, without punctuation).
        unchanged: of the changed lines, those whose output is the clean one, in that view and
            blanks at the ends aside.
        empty, truncated: of the changed lines.
        figures: further shares of this perturbation, by name.
    """

    name: str
    skipped: str | None = None
    num_lines: int = 0
    scores: dict[str, float] = field(default_factory=dict)
    clean: dict[str, float] = field(default_factory=dict)
    unchanged: float | None = None
    empty: float | None = None
    truncated: float | None = None
    figures: dict[str, float] = field(default_factory=dict)


def robustness(
    translate: Translate,
    sources: Sequence[str],
    references: Sequence[str],
    clean: Sequence[Output],
    config: EvaluationConfig,
    *,
    seed: int = 1,
) -> list[RobustnessRow]:
    """Translate each perturbed test set and set it beside the clean one.

    Args:
        translate: texts to outputs, one for one.
        sources, references: the test set.
        clean: the outputs for `sources`.
        config: which scores; exact match and the intervals are left out.
        seed: of the typos, blanks and numbers.
    """
    metrics = tuple(name for name in config.metrics if name != "exact_match") or ("chrf",)
    config = replace(config, metrics=metrics)
    clean_texts = [output.text for output in clean]
    rows = [
        _perturbed(translate, perturbation, sources, references, clean_texts, config, seed)
        for perturbation in PERTURBATIONS
    ]
    rows.append(_other_numbers(translate, sources, clean_texts, seed))
    rows.append(_single_words(translate, sources))
    return rows


def _perturbed(
    translate: Translate,
    perturbation: Perturbation,
    sources: Sequence[str],
    references: Sequence[str],
    clean: Sequence[str],
    config: EvaluationConfig,
    seed: int,
) -> RobustnessRow:
    lines = perturbation(sources, seed)
    changed = [place for place, line in enumerate(lines) if line != sources[place]]
    if not changed:
        return _skipped(perturbation)
    outputs = translate([lines[place] for place in changed])
    texts = list(clean)
    for place, output in zip(changed, outputs, strict=True):
        texts[place] = output.text
    seen, before, wanted = (view_of(part, perturbation.view) for part in (texts, clean, references))
    if perturbation.view == "lowercase":
        config = replace(config, lowercase=True)
    return RobustnessRow(
        name=perturbation.name,
        num_lines=len(changed),
        scores={score.name: score.value for score in translation_scores(seen, wanted, config)},
        clean={score.name: score.value for score in translation_scores(before, wanted, config)},
        unchanged=_share([seen[place].strip() == before[place].strip() for place in changed]),
        empty=_empty_share(outputs, [lines[place] for place in changed]),
        truncated=_truncated_share(outputs),
    )


def _other_numbers(
    translate: Translate, sources: Sequence[str], clean: Sequence[str], seed: int
) -> RobustnessRow:
    """Whether a number that takes another's place arrives in the output."""
    lines = OTHER_NUMBERS(sources, seed)
    changed = [place for place, line in enumerate(lines) if line != sources[place]]
    if not changed:
        return _skipped(OTHER_NUMBERS)
    outputs = translate([lines[place] for place in changed])
    return RobustnessRow(
        name=OTHER_NUMBERS.name,
        num_lines=len(changed),
        unchanged=_share(
            [output.text == clean[place] for place, output in zip(changed, outputs, strict=True)]
        ),
        empty=_empty_share(outputs, [lines[place] for place in changed]),
        truncated=_truncated_share(outputs),
        figures={
            "numbers carried": _share(
                [
                    numbers(lines[place]) <= numbers(output.text)
                    for place, output in zip(changed, outputs, strict=True)
                ]
            ),
            "numbers carried before": _share(
                [numbers(sources[place]) <= numbers(clean[place]) for place in changed]
            ),
        },
    )


def _single_words(translate: Translate, sources: Sequence[str]) -> RobustnessRow:
    """A word alone: does its output run away, and is it the same in capitals?"""
    words = single_words(sources)
    if not words:
        return RobustnessRow(name="single words", skipped="the text has no words")
    outputs = translate(words)
    loud = translate([word.upper() for word in words])
    texts = [output.text for output in outputs]
    unit = length_unit(texts)
    lengths = [line_length(text, unit) for text in texts]
    cased = [place for place, word in enumerate(words) if word.upper() != word]
    figures = {
        "units a word": sum(lengths) / len(words),
        "ran away": _share(
            [
                len(text) > RUN_AWAY * max(len(word), 8)
                for text, word in zip(texts, words, strict=True)
            ]
        ),
        "repeated units": repeated_share(texts, unit, order=1),
    }
    if cased:
        figures["same in capitals"] = _share(
            [texts[place].lower() == loud[place].text.lower() for place in cased]
        )
    return RobustnessRow(
        name="single words",
        num_lines=len(words),
        empty=_empty_share(outputs, words),
        truncated=_truncated_share(outputs),
        figures=figures,
    )


def _empty_share(outputs: Sequence[Output], lines: Sequence[str]) -> float:
    return _share(
        [
            bool(line.strip()) and not output.text.strip()
            for line, output in zip(lines, outputs, strict=True)
        ]
    )


def _truncated_share(outputs: Sequence[Output]) -> float | None:
    known = [output.truncated for output in outputs if output.truncated is not None]
    return _share(known) if known else None


def _skipped(perturbation: Perturbation) -> RobustnessRow:
    reason = f"it changes no line: the text has no {perturbation.needs}"
    return RobustnessRow(name=perturbation.name, skipped=reason)


def _share(marks: Sequence[bool]) -> float:
    return sum(marks) / len(marks) if marks else 0.0

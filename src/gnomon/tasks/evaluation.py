"""The one way a translator is judged: after training, during it and from the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gnomon.errors import DataError
from gnomon.evaluation import (
    EvaluationConfig,
    EvaluationReport,
    Output,
    evaluate_translations,
    perplexity,
    robustness,
)
from gnomon.tasks.likelihood import summed_nll
from gnomon.tasks.progress import Progress, Stages, unseen
from gnomon.tasks.tags import Tags, tags_of_each
from gnomon.tasks.translator import Translator


def evaluate_translator(
    translator: Translator,
    sources: Sequence[str],
    references: Sequence[str],
    config: EvaluationConfig,
    *,
    baselines: Mapping[str, Sequence[str]] | None = None,
    against: Mapping[str, Sequence[str]] | None = None,
    with_robustness: bool = False,
    tags: Tags = (),
    batch_tokens: int = 4096,
    progress: Stages = unseen,
    **search: Any,
) -> EvaluationReport:
    """Translate `sources`, score against `references`, and add the references' perplexity.

    Args:
        baselines: by name, other translations of the same lines, scored beside.
        against: by name, translations of other systems to test for a significant difference.
        with_robustness: also translate the sources as people type them; see
            `gnomon.evaluation.robustness`.
        tags: as for `Translator.translate`.
        progress: is told what begins, and over how many texts.
        **search: fields of `SearchConfig` to change.

    Raises:
        DataError: no lines, or counts that differ.
    """

    def translate(texts: Sequence[str], tags: Tags, done: Progress) -> list[Output]:
        found = translator.translate(
            texts, tags=tags, batch_tokens=batch_tokens, progress=done, **search
        )
        cut = translator.cuts_sources
        return [
            Output(one.text, one.truncated, one.far, one.num_cut > 0 if cut else None)
            for one in found
        ]

    outputs = translate(sources, tags, progress("translating", len(sources)))
    report = evaluate_translations(
        outputs, references, config, sources=sources, baselines=baselines, against=against
    )
    done = progress("perplexity", len(sources))
    nll, num_tokens = summed_nll(
        translator, sources, references, batch_tokens, tags=tags, progress=done
    )
    if num_tokens:
        fingerprint = translator.tokenizers.target.fingerprint[:12]
        score = perplexity(nll, num_tokens, tokenizer=fingerprint)
        report = replace(report, scores=[*report.scores, score])
    if with_robustness:
        same = _the_same(tags_of_each(tags, len(sources)))
        rows = robustness(
            lambda texts: translate(texts, same, progress("robustness", len(texts))),
            sources,
            references,
            outputs,
            config,
        )
        report = replace(report, robustness=rows)
    return report


def _the_same(every: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    if len(sets := set(every)) > 1:
        raise DataError(
            "robustness is measured with the same tags in front of every source",
            seen="; ".join(sorted(" ".join(some) or "no tag" for some in sets)),
            mend="name those of one direction with --tag",
        )
    return every[0]

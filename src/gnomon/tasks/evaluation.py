"""The one way a translator is judged: after training, during it and from the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gnomon.evaluation import (
    EvaluationConfig,
    EvaluationReport,
    evaluate_translations,
    perplexity,
)
from gnomon.tasks.likelihood import summed_nll
from gnomon.tasks.translator import Translator


def evaluate_translator(
    translator: Translator,
    sources: Sequence[str],
    references: Sequence[str],
    config: EvaluationConfig,
    *,
    baselines: Mapping[str, Sequence[str]] | None = None,
    batch_tokens: int = 4096,
    **search: Any,
) -> EvaluationReport:
    """Translate `sources`, score against `references`, and add the references' perplexity.

    Args:
        baselines: by name, other translations of the same lines, scored beside.
        **search: fields of `SearchConfig` to change.

    Raises:
        DataError: no lines, or counts that differ.
    """
    found = translator.translate(sources, batch_tokens=batch_tokens, **search)
    report = evaluate_translations(
        [translation.text for translation in found],
        references,
        config,
        sources=sources,
        baselines=baselines,
    )
    nll, num_tokens = summed_nll(translator, sources, references, batch_tokens)
    if num_tokens:
        fingerprint = translator.tokenizers.target.fingerprint[:12]
        score = perplexity(nll, num_tokens, tokenizer=fingerprint)
        report = replace(report, scores=[*report.scores, score])
    return report

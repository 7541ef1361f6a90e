"""BLEU, chrF, TER and exact match of detokenized translations, with sacreBLEU's signatures."""

from __future__ import annotations

from collections.abc import Sequence

from gnomon.evaluation.config import EvaluationConfig
from gnomon.evaluation.measure import (
    ExactMatch,
    bleu_measure,
    chrf_measure,
    measured_lines,
    ter_measure,
)
from gnomon.evaluation.score import Score


def translation_scores(
    hypotheses: Sequence[str], references: Sequence[str], config: EvaluationConfig
) -> list[Score]:
    """The scores `config` asks for, in its order, without intervals.

    Args:
        hypotheses: detokenized outputs, one per reference; an empty line counts as an output.
        references: the lines as written, one for each hypothesis.
        config: which metrics, and how they read the text.

    Raises:
        DataError: there are no lines, or not as many of one as of the other.
    """
    return [measure.score(rows) for measure, rows in measured_lines(hypotheses, references, config)]


def bleu(
    hypotheses: Sequence[str],
    references: Sequence[str],
    tokenize: str = "13a",
    *,
    lowercase: bool = False,
) -> Score:
    """Corpus BLEU; see `bleu_measure`.

    Raises:
        DataError: see `translation_scores`; or the tokenizer needs a package that is not there.
    """
    measure = bleu_measure(tokenize, lowercase=lowercase)
    return measure.score(measure.rows(hypotheses, references))


def chrf(hypotheses: Sequence[str], references: Sequence[str], *, lowercase: bool = False) -> Score:
    """Corpus chrF2; see `chrf_measure`.

    Raises:
        DataError: see `translation_scores`.
    """
    measure = chrf_measure(lowercase=lowercase)
    return measure.score(measure.rows(hypotheses, references))


def ter(
    hypotheses: Sequence[str],
    references: Sequence[str],
    tokenize: str = "13a",
    *,
    lowercase: bool = False,
) -> Score:
    """Translation edit rate, lower is better; see `ter_measure`.

    Raises:
        DataError: see `translation_scores`.
    """
    measure = ter_measure(tokenize, lowercase=lowercase)
    return measure.score(measure.rows(hypotheses, references))


def exact_match(
    hypotheses: Sequence[str], references: Sequence[str], *, lowercase: bool = False
) -> Score:
    """Share of lines equal to their reference but for surrounding white space, in percent.

    Raises:
        DataError: see `translation_scores`.
    """
    measure = ExactMatch(lowercase=lowercase)
    return measure.score(measure.rows(hypotheses, references))

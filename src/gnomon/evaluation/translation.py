"""BLEU, chrF and exact match of detokenized translations, by sacreBLEU and with its signatures."""

from __future__ import annotations

from collections.abc import Sequence

from gnomon.errors import DataError
from gnomon.evaluation.config import EvaluationConfig
from gnomon.evaluation.score import Score
from gnomon.evaluation.tokenization import bleu_tokenizer


def translation_scores(
    hypotheses: Sequence[str],
    references: Sequence[str],
    config: EvaluationConfig,
    *,
    language: str | None = None,
) -> list[Score]:
    """The scores `config` asks for, in its order.

    Args:
        hypotheses: detokenized outputs, one per reference; an empty line counts as an output.
        references: the lines as written, one for each hypothesis.
        config: which metrics, and how they read the text.
        language: the target language's code, if known; see `bleu_tokenizer`.

    Raises:
        DataError: there are no lines, or not as many of one as of the other.
    """
    tokenize: str = config.tokenize
    if tokenize == "auto":
        tokenize = bleu_tokenizer(references, language)
    scores = []
    for metric in config.metrics:
        if metric == "bleu":
            scores.append(bleu(hypotheses, references, tokenize, lowercase=config.lowercase))
        elif metric == "chrf":
            scores.append(chrf(hypotheses, references, lowercase=config.lowercase))
        else:
            scores.append(exact_match(hypotheses, references, lowercase=config.lowercase))
    return scores


def bleu(
    hypotheses: Sequence[str],
    references: Sequence[str],
    tokenize: str = "13a",
    *,
    lowercase: bool = False,
) -> Score:
    """Corpus BLEU (Papineni et al. 2002), sacreBLEU's defaults: 4-grams, exponential smoothing.

    Raises:
        DataError: see `translation_scores`; or the tokenizer needs a package that is not there.
    """
    check_lines(hypotheses, references)
    from sacrebleu.metrics.bleu import BLEU

    try:
        metric = BLEU(tokenize=tokenize, lowercase=lowercase)
    except (RuntimeError, ImportError) as error:
        raise DataError(
            "This BLEU tokenizer needs a package that is not installed.",
            seen=f"tokenize = {tokenize!r}",
            mend=f"pip install 'sacrebleu[{tokenize[:2]}]', or take \"char\".",
        ) from error
    value = metric.corpus_score(list(hypotheses), [list(references)]).score
    return Score(name="bleu", value=value, signature=metric.get_signature().format())


def chrf(hypotheses: Sequence[str], references: Sequence[str], *, lowercase: bool = False) -> Score:
    """Corpus chrF2 (Popović 2015), sacreBLEU's defaults: character 6-grams, no words.

    Raises:
        DataError: see `translation_scores`.
    """
    check_lines(hypotheses, references)
    from sacrebleu.metrics.chrf import CHRF

    metric = CHRF(lowercase=lowercase)
    value = metric.corpus_score(list(hypotheses), [list(references)]).score
    return Score(name="chrf", value=value, signature=metric.get_signature().format())


def exact_match(
    hypotheses: Sequence[str], references: Sequence[str], *, lowercase: bool = False
) -> Score:
    """Share of lines equal to their reference but for surrounding white space, in percent.

    Raises:
        DataError: see `translation_scores`.
    """
    check_lines(hypotheses, references)
    matches = sum(
        is_exact_match(hypothesis, reference, lowercase=lowercase)
        for hypothesis, reference in zip(hypotheses, references, strict=True)
    )
    case = "lc" if lowercase else "mixed"
    return Score(
        name="exact_match",
        value=100.0 * matches / len(references),
        signature=f"nrefs:1|case:{case}|strip:yes|unicode:as-is",
    )


def is_exact_match(hypothesis: str, reference: str, *, lowercase: bool = False) -> bool:
    """Whether two lines are equal but for surrounding white space (and case, if asked)."""
    if lowercase:
        hypothesis, reference = hypothesis.lower(), reference.lower()
    return hypothesis.strip() == reference.strip()


def check_lines(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    """Refuse to score nothing, or lists that cannot belong together."""
    if len(hypotheses) != len(references):
        raise DataError(
            "There must be one translation for each reference line.",
            seen=f"{len(hypotheses)} translations, {len(references)} references",
            mend="Keep blank lines in both, and look for a stray line break in either.",
        )
    if not references:
        raise DataError("There is nothing to score: no reference lines.")

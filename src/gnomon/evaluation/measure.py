"""Metrics as sums over lines: what a score, an interval, a bucket and a comparison share.

Each line gives a row of statistics (matched and possible n-grams, edits, lengths); a score is a
function of the rows' sum, over all lines, a bucket's lines or a bootstrap sample's. The rows and
the function are sacreBLEU's own, so that every figure is the one its command line prints; its names
for them are private, and this file is the only one that uses them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.errors import DataError
from gnomon.evaluation.config import ROUGE, EvaluationConfig
from gnomon.evaluation.score import Score
from gnomon.evaluation.tokenization import bleu_tokenizer

Rows = NDArray[np.float64]
"""Statistics [lines, k] of a measure."""


class Measure(ABC):
    """One metric with its settings."""

    name: str
    higher_is_better = True

    @abstractmethod
    def value(self, sums: Rows) -> float:
        """The score of lines whose statistics sum to `sums`, [k]."""

    @abstractmethod
    def details(self, sums: Rows) -> str:
        """What the score is made of, for a person."""

    @abstractmethod
    def signature(self) -> str:
        """Everything the score depends on beside the texts."""

    def score(self, rows: Rows, interval: tuple[float, float] | None = None) -> Score:
        """The score of all these lines together."""
        sums = rows.sum(axis=0)
        return Score(
            name=self.name,
            value=self.value(sums),
            signature=self.signature(),
            higher_is_better=self.higher_is_better,
            details=self.details(sums),
            interval=interval,
        )


class TextMeasure(Measure):
    """A metric of output texts against reference texts."""

    @abstractmethod
    def rows(self, hypotheses: Sequence[str], references: Sequence[str]) -> Rows:
        """Statistics of each line, [lines, k].

        Raises:
            DataError: there are no lines, or not as many of one as of the other.
        """


Measured = Sequence[tuple[TextMeasure, Rows]]


class SacreBleu(TextMeasure):
    """A metric object of sacreBLEU, against one reference a line."""

    def __init__(self, name: str, metric: Any, *, higher_is_better: bool = True) -> None:
        self.name = name
        self.higher_is_better = higher_is_better
        self.metric = metric

    def rows(self, hypotheses: Sequence[str], references: Sequence[str]) -> Rows:
        """What sacreBLEU counts in each line."""
        check_lines(hypotheses, references)
        rows = self.metric._extract_corpus_statistics(list(hypotheses), [list(references)])
        return np.array(rows, dtype=np.float64)

    def value(self, sums: Rows) -> float:
        """sacreBLEU's corpus score."""
        return float(self.metric._compute_score_from_stats(sums.tolist()).score)

    def details(self, sums: Rows) -> str:
        """Precisions, brevity penalty and reference length of BLEU; edits and length of TER."""
        found = self.metric._compute_score_from_stats(sums.tolist())
        if self.name == "bleu":
            return f"{found.prec_str} BP {found.bp:.3f} ref {found.ref_len:,}"
        if self.name == "ter":
            return f"{found.num_edits:,} edits ref {found.ref_length:,.0f}"
        return ""

    def signature(self) -> str:
        """sacreBLEU's own."""
        self.metric.num_refs = 1  # what `rows` always has; sacreBLEU learns it by scoring
        return str(self.metric.get_signature().format())


class ExactMatch(TextMeasure):
    """Share of lines equal to their reference but for surrounding white space, in percent."""

    name = "exact_match"

    def __init__(self, *, lowercase: bool = False) -> None:
        self.lowercase = lowercase

    def rows(self, hypotheses: Sequence[str], references: Sequence[str]) -> Rows:
        """Whether the line matches, and 1."""
        check_lines(hypotheses, references)
        return np.array(
            [
                (is_exact_match(hypothesis, reference, lowercase=self.lowercase), 1)
                for hypothesis, reference in zip(hypotheses, references, strict=True)
            ],
            dtype=np.float64,
        )

    def value(self, sums: Rows) -> float:
        """Percent of the lines."""
        return float(100.0 * sums[0] / sums[1])

    def details(self, sums: Rows) -> str:
        """The two counts."""
        return f"{sums[0]:,.0f} of {sums[1]:,.0f} lines"

    def signature(self) -> str:
        """How lines were compared."""
        case = "lc" if self.lowercase else "mixed"
        return f"nrefs:1|case:{case}|strip:yes|unicode:as-is"


def bleu_measure(tokenize: str = "13a", *, lowercase: bool = False) -> TextMeasure:
    """Corpus BLEU (Papineni et al. 2002), sacreBLEU's defaults: 4-grams, exponential smoothing.

    Raises:
        DataError: the tokenizer needs a package that is not there.
    """
    from sacrebleu.metrics.bleu import BLEU

    try:
        # force: a line that looks tokenized is not worth a message; the signature says how it was
        # read.
        metric = BLEU(tokenize=tokenize, lowercase=lowercase, force=True)
    except (RuntimeError, ImportError) as error:
        raise DataError(
            "This BLEU tokenizer needs a package that is not installed.",
            seen=f"tokenize = {tokenize!r}",
            mend=f"pip install 'sacrebleu[{tokenize[:2]}]', or take \"char\".",
        ) from error
    return SacreBleu("bleu", metric)


def chrf_measure(*, lowercase: bool = False) -> TextMeasure:
    """Corpus chrF2 (Popović 2015), sacreBLEU's defaults: character 6-grams, no words."""
    from sacrebleu.metrics.chrf import CHRF

    return SacreBleu("chrf", CHRF(lowercase=lowercase))


def ter_measure(tokenize: str = "13a", *, lowercase: bool = False) -> TextMeasure:
    """Translation edit rate (Snover et al. 2006): edits and shifts per reference word, in percent.

    Text that BLEU reads by characters is split likewise (sacreBLEU's `asian` and `norm`). Case
    counts unless `lowercase`, as in the other metrics; sacreBLEU's command line ignores it.
    """
    from sacrebleu.metrics.ter import TER

    split = tokenize in ("zh", "char")
    metric = TER(case_sensitive=not lowercase, normalized=split, asian_support=split)
    return SacreBleu("ter", metric, higher_is_better=False)


def measures_of(config: EvaluationConfig, references: Sequence[str]) -> list[TextMeasure]:
    """The measures `config` names, in its order, set for the references' language.

    Raises:
        DataError: one of them needs a package that is not there.
    """
    tokenize: str = config.tokenize
    if tokenize == "auto":
        tokenize = bleu_tokenizer(references, config.language)
    lowercase = config.lowercase
    made: dict[str, Callable[[], TextMeasure]] = {
        "bleu": lambda: bleu_measure(tokenize, lowercase=lowercase),
        "chrf": lambda: chrf_measure(lowercase=lowercase),
        "ter": lambda: ter_measure(tokenize, lowercase=lowercase),
        "exact_match": lambda: ExactMatch(lowercase=lowercase),
        **{name: partial(_rouge, name, config) for name in ROUGE},
    }
    return [made[name]() for name in config.scores]


def _rouge(name: str, config: EvaluationConfig) -> TextMeasure:
    from gnomon.evaluation.rouge import Rouge  # a package of its own

    return Rouge(name, characters=config.tokenize == "char", stem=config.stem)


def measured_lines(
    hypotheses: Sequence[str], references: Sequence[str], config: EvaluationConfig
) -> Measured:
    """Each measure that `config` names, with its rows of these lines.

    Raises:
        DataError: there are no lines, or not as many of one as of the other.
    """
    measures = measures_of(config, references)
    return [(measure, measure.rows(hypotheses, references)) for measure in measures]


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

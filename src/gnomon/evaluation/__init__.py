"""How good an output is: scores with their signature, baselines, and the report that is kept.

Knows lines of text and sums of losses; knows no model, no search and no file.
"""

from gnomon.evaluation.alignment import alignment_scores, parse_links
from gnomon.evaluation.baselines import NearestLine, copy_source
from gnomon.evaluation.config import EvaluationConfig
from gnomon.evaluation.perplexity import perplexity
from gnomon.evaluation.report import EvaluatedLine, EvaluationReport, evaluate_translations
from gnomon.evaluation.score import Score
from gnomon.evaluation.tokenization import bleu_tokenizer
from gnomon.evaluation.translation import bleu, chrf, exact_match, translation_scores

__all__ = [
    "EvaluatedLine",
    "EvaluationConfig",
    "EvaluationReport",
    "NearestLine",
    "Score",
    "alignment_scores",
    "bleu",
    "bleu_tokenizer",
    "chrf",
    "copy_source",
    "evaluate_translations",
    "exact_match",
    "parse_links",
    "perplexity",
    "translation_scores",
]

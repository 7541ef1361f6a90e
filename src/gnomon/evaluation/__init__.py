"""How good an output is: scores with their signature, baselines, and the report that is kept.

Knows lines of text and sums of losses; knows no model, no search and no file.
"""

from gnomon.evaluation.alignment import alignment_scores, parse_links
from gnomon.evaluation.baselines import NearestLine, copy_source
from gnomon.evaluation.bootstrap import Comparison, compared, paired_bootstrap
from gnomon.evaluation.by_length import LengthBucket, by_length
from gnomon.evaluation.config import EvaluationConfig
from gnomon.evaluation.measure import Measure, measured_lines, measures_of
from gnomon.evaluation.outputs import Output, OutputFigures, output_figures
from gnomon.evaluation.perplexity import perplexity
from gnomon.evaluation.perturb import PERTURBATIONS, Perturbation
from gnomon.evaluation.report import EvaluatedLine, EvaluationReport, evaluate_translations
from gnomon.evaluation.robustness import RobustnessRow, robustness
from gnomon.evaluation.score import Score
from gnomon.evaluation.tokenization import bleu_tokenizer
from gnomon.evaluation.translation import bleu, chrf, exact_match, ter, translation_scores

__all__ = [
    "PERTURBATIONS",
    "Comparison",
    "EvaluatedLine",
    "EvaluationConfig",
    "EvaluationReport",
    "LengthBucket",
    "Measure",
    "NearestLine",
    "Output",
    "OutputFigures",
    "Perturbation",
    "RobustnessRow",
    "Score",
    "alignment_scores",
    "bleu",
    "bleu_tokenizer",
    "by_length",
    "chrf",
    "compared",
    "copy_source",
    "evaluate_translations",
    "exact_match",
    "measured_lines",
    "measures_of",
    "output_figures",
    "paired_bootstrap",
    "parse_links",
    "perplexity",
    "robustness",
    "ter",
    "translation_scores",
]

"""From next-token scores to sequences: search and sampling over any `TokenScorer`.

The searches know nothing of models, text or tokenizers: they see ids and log-probabilities.
`transformer.py` is the one file here that knows `gnomon.model`; it adapts a Transformer.
"""

from gnomon.decoding.beam import beam_search
from gnomon.decoding.config import SearchConfig
from gnomon.decoding.constraints import Constraints, TokenAutomaton
from gnomon.decoding.ensemble import Combination, EnsembleScorer, combined
from gnomon.decoding.greedy import greedy_search, greedy_steps
from gnomon.decoding.hypothesis import Hypothesis
from gnomon.decoding.required import contains, essential
from gnomon.decoding.sampling import sample, sample_steps
from gnomon.decoding.scorer import AttendingScorer, TokenScorer
from gnomon.decoding.several_ends import SeveralEnds
from gnomon.decoding.steps import Step, Steps, exhaust
from gnomon.decoding.transformer import DecoderScorer, EncoderDecoderScorer

__all__ = [
    "AttendingScorer",
    "Combination",
    "Constraints",
    "DecoderScorer",
    "EncoderDecoderScorer",
    "EnsembleScorer",
    "Hypothesis",
    "SearchConfig",
    "SeveralEnds",
    "Step",
    "Steps",
    "TokenAutomaton",
    "TokenScorer",
    "beam_search",
    "combined",
    "contains",
    "essential",
    "exhaust",
    "greedy_search",
    "greedy_steps",
    "sample",
    "sample_steps",
]

"""From next-token scores to sequences: greedy and beam search over any `TokenScorer`.

The searches know nothing of models, text or tokenizers: they see ids and log-probabilities.
`transformer.py` is the one file here that knows `gnomon.model`; it adapts a Transformer.
"""

from gnomon.decoding.beam import beam_search
from gnomon.decoding.config import SearchConfig
from gnomon.decoding.greedy import greedy_search
from gnomon.decoding.hypothesis import Hypothesis
from gnomon.decoding.scorer import TokenScorer
from gnomon.decoding.transformer import DecoderScorer, EncoderDecoderScorer

__all__ = [
    "DecoderScorer",
    "EncoderDecoderScorer",
    "Hypothesis",
    "SearchConfig",
    "TokenScorer",
    "beam_search",
    "greedy_search",
]

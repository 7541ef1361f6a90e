"""Greedy and beam search of gnomon's decoder, with its cache, as checks call them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from gnomon.decoding import EncoderDecoderScorer, SearchConfig, beam_search, greedy_search
from gnomon.model import Transformer
from gnomon.tasks.rows import padded
from gnomon.text import BOS_ID, EOS_ID, PAD_ID

_PLAIN = SearchConfig(beam=1, length_penalty="none")


def greedy(module: Transformer, batch: Mapping[str, Tensor], num_tokens: int) -> Tensor:
    """int64 `[B, n]`: the new tokens after BOS, end of sentence included, then padding."""
    source = batch["ids"]
    with _evaluating(module):
        scorer = EncoderDecoderScorer(module, source, batch.get("keep"))
        found = greedy_search(scorer, _PLAIN, **_ids(source, num_tokens))
    return _rows([each.tokens for each in found], source)


def beam(
    module: Transformer, batch: Mapping[str, Tensor], num_tokens: int, num_beams: int
) -> Tensor:
    """As `greedy`: the best hypothesis by log-probability."""
    source = batch["ids"]
    config = _PLAIN.changed({"beam": num_beams})
    with _evaluating(module):
        scorer = EncoderDecoderScorer(module, source, batch.get("keep"))
        found = beam_search(scorer, config, **_ids(source, num_tokens))
    return _rows([each[0].tokens for each in found], source)


def _ids(source: Tensor, num_tokens: int) -> dict[str, Any]:
    return {
        "pad_id": PAD_ID,
        "bos_id": BOS_ID,
        "eos_id": EOS_ID,
        "max_lengths": [num_tokens] * source.size(0),
    }


def _rows(tokens: Sequence[Sequence[int]], source: Tensor) -> Tensor:
    return padded(tokens).to(source.device)


class _evaluating:  # noqa: N801 - used as a function
    def __init__(self, module: Transformer) -> None:
        self.module, self.was_training = module, module.training

    def __enter__(self) -> None:
        self.module.eval()

    def __exit__(self, *_: object) -> None:
        self.module.train(self.was_training)

"""Greedy and beam search of gnomon's decoder, with its cache, as checks call them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from gnomon.decoding import EncoderDecoderScorer, SearchConfig, beam_search, greedy_search
from gnomon.model import Transformer
from gnomon.tasks.ids import SequenceIds
from gnomon.tasks.rows import padded

_PLAIN = SearchConfig(beam=1, length_penalty="none")
OWN = SequenceIds()


def greedy(
    module: Transformer,
    batch: Mapping[str, Tensor],
    num_tokens: int,
    *,
    ids: SequenceIds = OWN,
) -> Tensor:
    """int64 `[B, n]`: the new tokens after BOS, end of sentence included, then padding."""
    source = batch["ids"]
    with _evaluating(module):
        scorer = EncoderDecoderScorer(module, source, batch.get("keep"))
        found = greedy_search(scorer, _PLAIN, **_ids(batch, num_tokens, ids))
    return _rows([each.tokens for each in found], source, ids.pad)


def beam(
    module: Transformer,
    batch: Mapping[str, Tensor],
    num_tokens: int,
    num_beams: int,
    *,
    ids: SequenceIds = OWN,
) -> Tensor:
    """As `greedy`: the best hypothesis by log-probability."""
    source = batch["ids"]
    config = _PLAIN.changed({"beam": num_beams})
    with _evaluating(module):
        scorer = EncoderDecoderScorer(module, source, batch.get("keep"))
        found = beam_search(scorer, config, **_ids(batch, num_tokens, ids))
    return _rows([each[0].tokens for each in found], source, ids.pad)


def _ids(batch: Mapping[str, Tensor], num_tokens: int, ids: SequenceIds) -> dict[str, Any]:
    # Where a batch is made up its targets begin with any token: that is what is compared.
    target = batch.get("target")
    return {
        "pad_id": ids.pad,
        "bos_id": ids.start if target is None else int(target[0, 0]),
        "eos_id": ids.end,
        "max_lengths": [num_tokens] * batch["ids"].size(0),
    }


def _rows(tokens: Sequence[Sequence[int]], source: Tensor, pad_id: int) -> Tensor:
    return padded(tokens, pad_id).to(source.device)


class _evaluating:  # noqa: N801 - used as a function
    def __init__(self, module: Transformer) -> None:
        self.module, self.was_training = module, module.training

    def __enter__(self) -> None:
        self.module.eval()

    def __exit__(self, *_: object) -> None:
        self.module.train(self.was_training)

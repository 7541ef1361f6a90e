"""Greedy and beam search of gnomon's decoders, with their cache, as checks call them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from gnomon.decoding import (
    DecoderScorer,
    EncoderDecoderScorer,
    SearchConfig,
    beam_search,
    greedy_search,
)
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


def continued(
    model: Transformer,
    ids: SequenceIds,
    module: object,
    batch: Mapping[str, Tensor],
    num_tokens: int,
    num_beams: int = 1,
) -> Tensor:
    """As `greedy` and `beam`, of a language model: what follows the texts of a batch.

    Args:
        model: the decoder.
        ids: what its texts begin and end with.
        module: what is examined, whose parts are the decoder's.
    """
    texts = batch["ids"]
    keep = batch.get("keep")
    rows = zip(texts, torch.ones_like(texts) if keep is None else keep, strict=True)
    prompts = [text[real.bool()].tolist() for text, real in rows]
    options: dict[str, Any] = {
        "pad_id": None if ids.pad == ids.end else ids.pad,
        "bos_id": None if ids.start == ids.end else ids.start,
        "eos_id": ids.end,
        "max_lengths": [num_tokens] * len(prompts),
    }
    with _evaluating(model):
        scorer = DecoderScorer(model, prompts, texts.device, begun=True)
        if num_beams == 1:
            found = [each.tokens for each in greedy_search(scorer, _PLAIN, **options)]
        else:
            config = _PLAIN.changed({"beam": num_beams})
            found = [each[0].tokens for each in beam_search(scorer, config, **options)]
    return _rows(found, texts, ids.pad)


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

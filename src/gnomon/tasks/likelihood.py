"""How probable a model finds given translations, by teacher forcing."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gnomon.model import Transformer
from gnomon.tasks.translator import Translator, padded
from gnomon.text import Tokenizer


def predict(model: Transformer, source: Tensor, inputs: Tensor, keep: Tensor) -> Tensor:
    """Teacher-forced logits [M, V] at the M kept positions; the others cost no projection.

    Args:
        source: int64 [B, S], padded on the right.
        inputs: int64 [B, T], target ids shifted right.
        keep: bool [B, T], True where there is a token to predict.
    """
    source_keep = model.keep(source)
    memory = model.encode(source, source_keep)
    hidden = model.decode(inputs, memory, source_keep)
    return model.project(hidden[keep])


@torch.no_grad()
def summed_nll(
    translator: Translator, sources: Sequence[str], references: Sequence[str], batch_tokens: int
) -> tuple[float, int]:
    """Sum of −log p over the references' tokens (EOS counted) in nats, and how many those are.

    A pair with a blank source is left out, since such a line is never given to the model; so is one
    that learned positions do not reach, since there is no probability to be had.
    """
    rows = [
        ([*source, Tokenizer.eos_id], [Tokenizer.bos_id, *target, Tokenizer.eos_id])
        for text, source, target in zip(
            sources,
            translator.tokenizers.source.encode(list(sources)),
            translator.tokenizers.target.encode(list(references)),
            strict=True,
        )
        if text.strip()
    ]
    if (reach := translator.model.config.max_positions()) is not None:
        rows = [row for row in rows if len(row[0]) <= reach and len(row[1]) <= reach + 1]
    rows.sort(key=lambda row: -len(row[0]) - len(row[1]))
    total, num_tokens, start = 0.0, 0, 0
    model, was_training = translator.model, translator.model.training
    model.eval()
    try:
        while start < len(rows):
            size = max(1, batch_tokens // (len(rows[start][0]) + len(rows[start][1])))
            source, target = zip(*rows[start : start + size], strict=True)
            nll, count = _batch_nll(translator, source, target)
            total, num_tokens, start = total + nll, num_tokens + count, start + size
    finally:
        model.train(was_training)
    return total, num_tokens


def _batch_nll(
    translator: Translator, sources: Sequence[list[int]], targets: Sequence[list[int]]
) -> tuple[float, int]:
    source = padded(sources).to(translator.device)
    target = padded(targets).to(translator.device)
    inputs, labels = target[:, :-1], target[:, 1:]
    keep = labels != Tokenizer.pad_id
    logits = predict(translator.model, source, inputs, keep)
    losses = torch.nn.functional.cross_entropy(logits.float(), labels[keep], reduction="none")
    return float(losses.double().sum()), int(keep.sum())

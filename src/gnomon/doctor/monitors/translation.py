"""What the monitors ask of a translation task."""

from __future__ import annotations

import torch

from gnomon.doctor.monitors.monitor import Sample
from gnomon.tasks import TranslationTask
from gnomon.tasks.likelihood import Pair, encoded_pairs, predict
from gnomon.tasks.rows import batches, longest_first, padded
from gnomon.text import PAD_ID

_LINES = 64


@torch.no_grad()
def sample_of(task: TranslationTask) -> Sample:
    """What the last validation translated, with losses on its first lines.

    The model is as it was validated; evaluation mode is used and put back.
    """
    seen = task.validated
    if seen is None:
        return Sample()
    translator = task.translator
    pairs = [
        pair
        for text, pair in zip(
            seen.sources[:_LINES],
            encoded_pairs(
                translator,
                seen.sources[:_LINES],
                seen.references[:_LINES],
                seen.tags[:_LINES],
                cut=translator.cuts_sources,
            ),
            strict=True,
        )
        if text.strip() and pair.problem(translator, translator.reach) is None
    ]
    texts = {
        "sources": seen.sources,
        "references": seen.references,
        "hypotheses": seen.hypotheses,
    }
    if len(pairs) < 2:
        return Sample(**texts)  # type: ignore[arg-type]
    half = len(pairs) // 2
    others = [
        Pair(other.source, pair.target)
        for pair, other in zip(pairs, pairs[half:] + pairs[:half], strict=True)
    ]
    was_training = task.model.training
    task.model.eval()
    try:
        nll, accuracy = _losses(task, pairs)
        of_shuffled, _ = _losses(task, others)
    finally:
        task.model.train(was_training)
    return Sample(**texts, nll=nll, nll_of_shuffled=of_shuffled, accuracy=accuracy)


def _losses(task: TranslationTask, pairs: list[Pair]) -> tuple[float, float]:
    """Mean −log p of the target tokens in nats, and the share that is the first choice."""
    device = next(task.model.parameters()).device
    lengths = [pair.length for pair in pairs]
    total = correct = count = 0.0
    for places in batches(longest_first(range(len(pairs)), lengths), lengths, 4096):
        source = padded([pairs[place].source for place in places]).to(device)
        target = padded([pairs[place].target for place in places]).to(device)
        keep = target[:, 1:] != PAD_ID
        logits = predict(task.model, source, target[:, :-1], keep).float()
        labels = target[:, 1:][keep]
        total += float(torch.nn.functional.cross_entropy(logits, labels, reduction="sum"))
        correct += float((logits.argmax(-1) == labels).sum())
        count += labels.numel()
    return total / count, correct / count

"""Quick checks of a task before training spends hours on it: faults that would stay silent.

They run on one real batch in evaluation mode and leave weights, gradients and generators as they
were. A failed check means that the model or data is wrong, not that training will be slow.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gnomon.training.cursor import DataCursor
from gnomon.training.objective import Objective, ObjectiveConfig
from gnomon.training.task import Task

_NUM_BATCHES = 16
_NOISE = 1e-4  # relative; the same sum in another order differs by less, a leak by far more


@dataclass(frozen=True)
class SanityCheck:
    """What was checked, whether it holds, and the numbers that say so."""

    title: str
    passed: bool
    evidence: str


def check_sanity(task: Task[Any], *, untrained: bool = True) -> list[SanityCheck]:
    """Run every check on a few examples of the first epoch, short and long ones together.

    Args:
        untrained: whether the weights are fresh; a trained model's loss is not that of guessing.
    """
    model, was_training = task.model, task.model.training
    device = next(model.parameters()).device
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        model.eval()
        try:
            return list(_checks(task, device, untrained))
        finally:
            model.zero_grad(set_to_none=True)
            model.train(was_training)


def _checks(task: Task[Any], device: torch.device, untrained: bool) -> Iterator[SanityCheck]:
    # Batches hold examples of like length; a few from each of several, so that there is padding.
    batches = DataCursor(task.epoch, max_epochs=1).take(_NUM_BATCHES)
    spec = [example for batch in batches for example in batch[:2]]
    batch = task.collate(spec).to(device)
    target = task.target(batch)
    inputs, keep = target[:, :-1], target[:, 1:] != task.pad_id
    with torch.no_grad():
        logits = task.predict(batch, inputs, keep)
        yield _ids_fit(target, logits)
        yield _no_look_ahead(task, batch, inputs, keep, logits)
        alone = task.collate(spec[:1]).to(device)
        yield _padding_is_inert(task, alone, int(keep[0].sum()), logits)
    loss, gradients = _loss_and_gradients(task, batch, target, logits.size(-1))
    if untrained:
        yield loss
    yield gradients


def _ids_fit(target: Tensor, logits: Tensor) -> SanityCheck:
    largest, size = int(target.max()), logits.size(-1)
    return SanityCheck(
        "every id is inside the vocabulary", largest < size, f"largest id {largest} of {size}"
    )


def _no_look_ahead(
    task: Task[Any], batch: Any, inputs: Tensor, keep: Tensor, logits: Tensor
) -> SanityCheck:
    cut = inputs.size(1) // 2
    changed = inputs.clone()
    vocab_size, first = logits.size(-1), task.pad_id + 1  # every other token there, padding not
    other = first + (changed[:, cut:] - first + 1) % (vocab_size - first)
    changed[:, cut:] = torch.where(changed[:, cut:] == task.pad_id, task.pad_id, other)
    before = (torch.arange(inputs.size(1), device=inputs.device) < cut).expand_as(keep)[keep]
    difference = _relative(task.predict(batch, changed, keep)[before], logits[before])
    return SanityCheck(
        "no position sees the future",
        difference < _NOISE,
        f"other tokens from position {cut} on move earlier logits by {difference:.1e}",
    )


def _padding_is_inert(task: Task[Any], alone: Any, num_tokens: int, logits: Tensor) -> SanityCheck:
    target = task.target(alone)
    keep = target[:, 1:] != task.pad_id
    difference = _relative(task.predict(alone, target[:, :-1], keep), logits[:num_tokens])
    return SanityCheck(
        "padding and neighbours have no influence",
        difference < _NOISE,
        f"alone against in its batch: logits differ by {difference:.1e}",
    )


def _loss_and_gradients(
    task: Task[Any], batch: Any, target: Tensor, vocab_size: int
) -> tuple[SanityCheck, SanityCheck]:
    objective = Objective(ObjectiveConfig(label_smoothing=0.0), pad_id=task.pad_id)
    sums = objective(target, lambda inputs, keep: task.predict(batch, inputs, keep))
    loss, expected = float(sums.nll) / sums.num_tokens, math.log(vocab_size)
    guessing = SanityCheck(
        "the untrained loss is that of guessing",
        abs(loss - expected) < 0.15 * expected,
        f"{loss:.2f} nats a token, ln V = {expected:.2f}",
    )
    sums.loss.backward()  # type: ignore[no-untyped-call]
    gradients = {name: p.grad for name, p in task.model.named_parameters() if p.requires_grad}
    dead = [name for name, gradient in gradients.items() if not _is_finite(gradient)]
    return guessing, SanityCheck(
        "every parameter gets a finite gradient",
        not dead,
        f"{len(gradients)} parameters" if not dead else f"not so: {', '.join(dead[:3])}",
    )


def _is_finite(gradient: Tensor | None) -> bool:
    if gradient is None:
        return False
    values = gradient.coalesce().values() if gradient.is_sparse else gradient
    return bool(values.isfinite().all())


def _relative(a: Tensor, b: Tensor) -> float:
    if b.numel() == 0:
        return 0.0
    return float((a - b).abs().max() / b.abs().max().clamp_min(1e-30))

"""Brief, sound training of a Hugging Face model, and what a user of it hands to the doctor."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from benchmarks.patients.text import IGNORED, PAD, Text, batch_for
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.optim import AdamW
from torch.optim.lr_scheduler import LambdaLR

LEARNING_RATE = 1e-3
CLIP_NORM = 1.0
WARMUP = 0.1  # of the planned steps


@dataclass(frozen=True)
class Task:
    """What a model is trained on.

    Attributes:
        batch: `batch(text, seed, num_rows=…, length=…, closed=…)`, see `patients.text.batch_for`.
        loss: the mean over the predictions of a batch.
        count: how many these are.
        generate: greedy decoding, where the model decodes.
        searches: whether `generate` makes a beam search, too.
    """

    batch: Callable[..., dict[str, Tensor]]
    loss: Callable[[nn.Module, dict[str, Tensor]], Tensor]
    count: Callable[[dict[str, Tensor]], int]
    generate: Callable[..., Tensor] | None = None
    searches: bool = False


def loss_of(module: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    """The model's own loss."""
    loss: Tensor = module(**batch).loss
    return loss


def own_loss(kind: str, *, decodes: bool = True) -> Task:
    """The task of a model that returns its own loss, as those of transformers do."""

    def count(batch: dict[str, Tensor]) -> int:
        labels = batch["labels"]
        if kind == "causal":
            labels = labels[:, 1:]
        return int((labels != IGNORED).sum())

    generates = decodes and kind in ("causal", "seq2seq")
    generate = greedy(kind) if generates else None
    return Task(partial(batch_for, kind), loss_of, count, generate, searches=generates)


class Training:
    """AdamW without decay on vectors, warm-up, clipping, and losses summed before they are divided.

    `step` takes micro-batches and makes one update, as `Patient.step` wants it.
    """

    def __init__(self, module: nn.Module, task: Task, planned_steps: int) -> None:
        self.module = module
        self.task = task
        self.planned_steps = planned_steps
        matrices = [p for p in module.parameters() if p.ndim >= 2]
        vectors = [p for p in module.parameters() if p.ndim < 2]
        groups = [{"params": matrices, "weight_decay": 0.01}]
        if vectors:
            groups.append({"params": vectors, "weight_decay": 0.0})
        self.optimizer = AdamW(groups, lr=LEARNING_RATE)
        self.schedule = LambdaLR(self.optimizer, self._factor)

    def _factor(self, step: int) -> float:
        warmup = max(1, math.ceil(WARMUP * self.planned_steps))
        if step < warmup:
            return (step + 1) / warmup
        return max(0.05, (self.planned_steps - step) / max(1, self.planned_steps - warmup))

    def step(self, batches: Sequence[dict[str, Tensor]]) -> float:
        """One update over these micro-batches; their mean loss per prediction."""
        self.optimizer.zero_grad()
        counts = [self.task.count(batch) for batch in batches]
        total = 0.0
        for batch, count in zip(batches, counts, strict=True):
            loss = self.task.loss(self.module, batch) * (count / sum(counts))
            loss.backward()  # type: ignore[no-untyped-call]
            total += float(loss.detach())
        nn.utils.clip_grad_norm_(self.module.parameters(), CLIP_NORM)
        self.optimizer.step()
        self.schedule.step()
        return total


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """torch's generator at `seed` inside, as it was outside."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def train_briefly(
    module: nn.Module, task: Task, text: Text, steps: int, saved: Path | None = None
) -> None:
    """Train in place for `steps` updates, or load what an earlier call saved at `saved`."""
    if saved is not None and saved.exists():
        module.load_state_dict(load_file(saved), strict=False)
        return
    with seeded(0):
        module.train()
        training = Training(module, task, steps)
        for step in range(steps):
            batch = task.batch(text, seed=1000 + step, num_rows=16, length=40, closed=True)
            training.step([batch])
    module.eval()
    if saved is not None:
        saved.parent.mkdir(parents=True, exist_ok=True)
        state = {name: p.detach().clone() for name, p in module.named_parameters()}
        state |= {name: b.detach().clone() for name, b in module.named_buffers()}
        save_file(state, saved)


def left_padded(ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """The same rows with their padding on the left, as a decoder continues them."""
    order = mask.argsort(dim=1, stable=True)
    return ids.gather(1, order), mask.gather(1, order)


def greedy(kind: str) -> Callable[..., Tensor]:
    """`generate(module, batch, num_tokens)` with the cache: only the new tokens."""

    def generate(
        module: Any, batch: dict[str, Tensor], num_tokens: int, num_beams: int = 1
    ) -> Tensor:
        ids = batch["input_ids"]
        mask = batch.get("attention_mask", torch.ones_like(ids))
        prompt = 1
        if kind == "causal":
            ids, mask = left_padded(ids, mask)
            prompt = ids.shape[1]
        with torch.no_grad():
            tokens: Tensor = module.generate(
                input_ids=ids,
                attention_mask=mask,
                max_new_tokens=num_tokens,
                num_beams=num_beams,
                do_sample=False,
                use_cache=True,
                pad_token_id=PAD,
            )
        return tokens[:, prompt:]

    return generate


def fields_of(
    module: nn.Module, task: Task, text: Text, *, planned_steps: int = 2000
) -> dict[str, Any]:
    """All that a careful user hands over besides the module and the batch."""
    training = Training(module, task, planned_steps)
    fields: dict[str, Any] = {
        "loss": task.loss,
        "optimizer": training.optimizer,
        "schedule": training.schedule,
        "step": training.step,
        "clip_norm": CLIP_NORM,
        "planned_steps": planned_steps,
        "tokenizer": text.hugging_face(),
        "texts": text.lines[:20],
        "pad_id": PAD,
    }
    if task.generate is not None:
        fields["generate"] = task.generate
    if task.searches:
        fields["beam_generate"] = task.generate
    return fields

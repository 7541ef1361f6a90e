"""Optimizer, schedule and step as a careful user has them, and a brief training."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from benchmarks.faults.hosts.text import VOCAB_SIZE
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer
from torch.optim.lr_scheduler import LambdaLR

if TYPE_CHECKING:
    from benchmarks.faults.host import Host, Prediction

CLIP_NORM = 1.0
PLANNED_STEPS = 2000
WARMUP = 100
PEAK = 1e-3
NUM_BRIEF_STEPS = 200

Predict = Callable[[nn.Module, Mapping[str, Tensor]], "Prediction"]


def make_optimizer(module: nn.Module, lr: float = PEAK) -> Optimizer:
    """AdamW: decay on matrices alone, every parameter once."""
    parameters = [p for p in module.parameters() if p.requires_grad]
    return AdamW(
        [
            {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": 0.01},
            {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
        ],
        lr=lr,
        betas=(0.9, 0.98),
        eps=1e-8,
    )


def warm_then_root(step: int) -> float:
    """Linear warm-up, then the inverse square root, as a factor on the peak rate."""
    return min((step + 1) / WARMUP, (WARMUP / (step + 1)) ** 0.5)


def make_schedule(optimizer: Optimizer) -> LambdaLR:
    """One step of it per optimizer step."""
    return LambdaLR(optimizer, warm_then_root)


def make_step(
    predict: Predict,
    module: nn.Module,
    optimizer: Optimizer,
    schedule: Any,
    clip_norm: float = CLIP_NORM,
) -> Callable[[Sequence[Any]], float]:
    """One optimizer step over micro-batches: equal to one big batch."""

    def step(batches: Sequence[Any]) -> float:
        optimizer.zero_grad()
        count = 0
        total = 0.0
        for batch in batches:
            made = predict(module, batch)
            loss = F.cross_entropy(
                made.logits[made.real].float(), made.targets[made.real], reduction="sum"
            )
            count += int(made.real.sum())
            total += loss.item()
            loss.backward()
        for parameter in module.parameters():
            if parameter.grad is not None:
                parameter.grad /= count
        torch.nn.utils.clip_grad_norm_(module.parameters(), clip_norm)
        optimizer.step()
        schedule.step()
        return total / count

    return step


def train_briefly(
    host: Host,
    module: nn.Module,
    seed: int,
    folder: Path | None,
    num_steps: int = NUM_BRIEF_STEPS,
) -> None:
    """A few hundred steps on lines of text; the weights are kept in `folder` for the next time."""
    path = None if folder is None else folder / f"{host.name}-{seed}-{num_steps}.pt"
    if path is not None and path.is_file():
        module.load_state_dict(torch.load(path, weights_only=True))
        return
    optimizer = make_optimizer(module, lr=3e-3)
    step = make_step(host.predict, module, optimizer, make_schedule(optimizer))
    module.train()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for number in range(num_steps):
            step([host.make_batch(1000 + 4 * number + k) for k in range(2)])
    module.zero_grad()
    module.eval()
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save(module.state_dict(), path)


@torch.no_grad()
def sharpen(
    module: nn.Module, table: float, matrix: float, cross: float, cross_names: Sequence[str]
) -> None:
    """Wider matrices: what comes next depends on all that was read.

    Models that are fresh or briefly trained say the same token whatever they see, so that a fault
    of decoding would change nothing. A longer training would do the same at a hundred times the
    cost. The widths were chosen by the variety of what the clean hosts decode.

    Args:
        table: of token tables, in units of 1 / sqrt(D); a tied one that is too wide echoes.
        matrix: of all other matrices, in units of 1 / sqrt(width of the input).
        cross: of those in cross-attention, which else drowns all that differs by step.
        cross_names: dotted names of the modules of cross-attention.
    """
    for name, parameter in module.named_parameters():
        if parameter.dim() >= 2 and float(parameter.std()) > 0:
            in_cross = any(name.startswith(f"{stem}.") for stem in cross_names)
            width = table if parameter.shape[0] == VOCAB_SIZE else cross if in_cross else matrix
            parameter *= width * parameter.shape[-1] ** -0.5 / parameter.std()

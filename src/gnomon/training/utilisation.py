"""How much of what the device could do a training makes use of."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F

from gnomon.model.flops import Flops, Network, TextLengths
from gnomon.training.precision import Format
from gnomon.training.task import Task

_SIZES = (256, 512, 1024, 2048, 4096)
_LONGEST = 0.03  # seconds that one product may take
_SECONDS = 0.1  # of products from which the best is taken
_DTYPES: dict[Format, torch.dtype] = {
    "fp32": torch.float32,
    "bf16": torch.bfloat16,
    "bf16-master": torch.bfloat16,
    "fp16": torch.float16,
    "fp8": torch.bfloat16,  # of which only the projections are more
}


@dataclass(frozen=True)
class Work:
    """Floating-point operations of a step: of its tokens, and of its tokens with padding."""

    real: float
    padded: float

    def __add__(self, other: Work) -> Work:
        return Work(self.real + other.real, self.padded + other.padded)


class Workload:
    """Counts the operations of steps.

    Args:
        flops: of the network.
        lengths: of the texts of a batch's description (`Task.lengths`).
    """

    def __init__(self, flops: Flops, lengths: Callable[[Any], TextLengths]) -> None:
        self._flops = flops
        self._lengths = lengths

    @classmethod
    def of(cls, task: Task[Any], num_passes: int) -> Workload | None:
        """Of a task's steps; None where the network is not one of ours."""
        if not isinstance(task.model, Network):
            return None
        return cls(Flops(task.model, num_passes=num_passes), task.lengths)

    def __call__(self, specs: Sequence[Any], num_labels: int) -> Work:
        """Of a step over several micro-batches with so many predictions in all."""
        real = padded = 0.0
        for number, spec in enumerate(specs):
            lengths, labels = self._lengths(spec), 0 if number else num_labels
            real += self._flops(lengths, labels).total
            padded += self._flops(lengths.padded(), labels).total
        return Work(real, padded)


def matmul_ceiling(device: torch.device, precision: Format) -> float:
    """The most operations a second that matrix products make here, with the threads of now.

    Measured once a process, in a fifth of a second; nothing is drawn at random.
    """
    return _ceiling(device, precision, torch.get_num_threads())


@cache
def _ceiling(device: torch.device, precision: Format, num_threads: int) -> float:
    best = 0.0
    for size in _SIZES:
        x, w = (torch.ones(size, size, device=device, dtype=_DTYPES[precision]) for _ in range(2))
        _product(x, w, device)  # what is made once
        seconds, started = _product(x, w, device), time.perf_counter()
        while time.perf_counter() - started < _SECONDS / len(_SIZES):
            seconds = min(seconds, _product(x, w, device))
        best = max(best, 2.0 * size**3 / seconds)
        if 8 * seconds > _LONGEST:  # what the next size takes
            break
    return best


def _product(x: torch.Tensor, w: torch.Tensor, device: torch.device) -> float:
    """Seconds of a product as a linear layer makes it."""
    with torch.no_grad():
        started = time.perf_counter()
        F.linear(x, w)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
    return time.perf_counter() - started

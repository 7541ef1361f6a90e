"""Does watching change anything? The same computation, watched and not."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gnomon.probe.compiled import uncompiled
from gnomon.probe.dispatch import DispatchWatch
from gnomon.probe.observe import observe
from gnomon.probe.owners import floats
from gnomon.probe.quiet import quiet
from gnomon.probe.record import FusedKernel, Record


@dataclass(frozen=True)
class Difference:
    """Observed against unobserved outputs of one computation.

    NaN and infinity count as equal where both have them; where only one has, the difference is
    infinite.
    """

    # largest |a - b| over all floating-point output tensors
    absolute: float
    # the same over the largest |b| of the tensor
    relative: float
    # fused kernels that ran when nobody watched
    unobserved_kernels: tuple[FusedKernel, ...]
    # and those that ran when watched
    observed_kernels: tuple[FusedKernel, ...]

    @property
    def fast_path(self) -> bool:
        """Unobserved, PyTorch's fused layer or attention ran, which observation switches off."""
        hidden = ("_transformer_encoder_layer_fwd", "_native_multi_head_attention")
        return any(kernel.name.startswith(hidden) for kernel in self.unobserved_kernels)


def compare_unobserved(module: nn.Module, run: Callable[[], Any]) -> Difference:
    """Run a computation without and with observation, from the same random state.

    The module's mode (training or evaluation) and gradient mode are as the caller has them. `run`
    is called three times: unobserved, under a dispatch mode that lists kernels, and observed; it
    must not depend on what an earlier call left behind.

    Args:
        module: what `run` runs.
        run: returns tensors, in any nesting of dicts, lists and tuples.
    """
    with _same_randomness() as rewind:
        plain = [tensor.detach().clone() for tensor in floats(run())]
        rewind()
        record = Record()
        with uncompiled(), DispatchWatch(record, lambda: ""):
            run()
        rewind()
        with observe(module) as observed:
            watched = list(floats(run()))
    absolute = relative = 0.0
    with quiet():
        if len(plain) != len(watched):
            absolute = relative = float("inf")
        for a, b in zip(watched, plain, strict=False):
            off, share = _difference(a, b)
            absolute, relative = max(absolute, off), max(relative, share)
    return Difference(absolute, relative, tuple(record.fused), tuple(observed.fused))


def _difference(a: Tensor, b: Tensor) -> tuple[float, float]:
    if a.shape != b.shape:
        return float("inf"), float("inf")
    a, b = a.double(), b.double()
    same = (a == b) | (a.isnan() & b.isnan())
    if bool(same.all()):
        return 0.0, 0.0
    off = (a - b)[~same].abs()
    largest = float("inf") if bool(off.isnan().any()) else float(off.max())
    size = float(b[b.isfinite()].abs().max()) if bool(b.isfinite().any()) else 0.0
    return largest, largest / size if size else float("inf")


@contextlib.contextmanager
def _same_randomness() -> Iterator[Callable[[], None]]:
    """Gives a function that rewinds all generators; leaves them as one run would."""
    devices = range(torch.cuda.device_count()) if torch.cuda.is_available() else ()
    cpu = torch.get_rng_state()
    cuda = [torch.cuda.get_rng_state(device) for device in devices]

    def rewind() -> None:
        torch.set_rng_state(cpu)
        for device, state in zip(devices, cuda, strict=True):
            torch.cuda.set_rng_state(state, device)

    try:
        yield rewind
    finally:
        rewind()

"""What code may switch for the whole process: read before it runs, put back behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

_cuda: Any = torch.backends.cuda
_cudnn: Any = torch.backends.cudnn
_SETTINGS: tuple[tuple[Callable[[], Any], Callable[[Any], Any]], ...] = (
    (torch.is_grad_enabled, torch.set_grad_enabled),
    (torch.is_anomaly_enabled, torch.set_anomaly_enabled),
    (torch.get_default_dtype, torch.set_default_dtype),
    (torch.get_num_threads, torch.set_num_threads),
    (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    # Setting it imports the compiler: done where it differs only, as all of these.
    (
        lambda: (
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
        ),
        lambda value: torch.use_deterministic_algorithms(value[0], warn_only=value[1]),
    ),
    (torch.backends.mha.get_fastpath_enabled, torch.backends.mha.set_fastpath_enabled),
    (_cuda.flash_sdp_enabled, _cuda.enable_flash_sdp),
    (_cuda.mem_efficient_sdp_enabled, _cuda.enable_mem_efficient_sdp),
    (_cuda.math_sdp_enabled, _cuda.enable_math_sdp),
    (_cuda.cudnn_sdp_enabled, _cuda.enable_cudnn_sdp),
    *(
        (partial(getattr, _cudnn, name), partial(setattr, _cudnn, name))
        for name in ("enabled", "benchmark", "deterministic")
    ),
)


@contextmanager
def settings_kept() -> Iterator[None]:
    """Put PyTorch's process-wide settings back as they were."""
    before = [read() for read, _ in _SETTINGS]
    try:
        yield
    finally:
        for (read, write), value in zip(_SETTINGS, before, strict=True):
            if read() != value:
                write(value)

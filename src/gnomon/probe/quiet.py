"""The probe's own arithmetic, hidden from the modes that watch the model's."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Within it no function mode, dispatch mode or graph sees what is computed."""
    with (
        torch._C.DisableTorchFunction(),
        torch._C._DisableTorchDispatch(),
        torch.no_grad(),
    ):
        yield

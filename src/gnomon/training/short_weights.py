"""Weights in a shorter format for the length of a pass."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def short_weights(model: nn.Module, dtype: torch.dtype) -> Iterator[None]:
    """Within the block, of one forward and backward pass, the weights are rounded to `dtype`.

    Gradients are summed in the format of the weights themselves, which are there again afterwards:
    the optimizer, checkpoints and whoever else looks between the steps never see the others.
    """
    parameters = list(model.parameters())
    masters = [parameter.data for parameter in parameters]
    for parameter, master in zip(parameters, masters, strict=True):
        if parameter.requires_grad:
            parameter.grad_dtype = master.dtype
        parameter.data = master.to(dtype)
    try:
        yield
    finally:
        for parameter, master in zip(parameters, masters, strict=True):
            parameter.data = master

"""A copy of a module in another number format, made without a copy in its own."""

from __future__ import annotations

import copy

import torch
from torch import nn


def converted(module: nn.Module, dtype: torch.dtype) -> nn.Module:
    """The module with all its floating-point weights and buffers in `dtype`.

    A weight that is in it already is shared with the original: run the copy, do not train it.
    """
    shared = {
        id(parameter): nn.Parameter(parameter.detach(), parameter.requires_grad)
        for parameter in module.parameters()
        if type(parameter) is nn.Parameter
    }
    return copy.deepcopy(module, shared).to(dtype)

"""Tables of sines and cosines among a model's weights, and how exact their angles are."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn

_FEWEST = 16  # positions of a table
_UNIT = 0.02


def sinusoid_tables(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Names and angles `[L, D/2]` (modulo 2π) of what is a table of sines and cosines by value.

    NaN where a row is none, such as that of padding.
    """
    known = (*module.named_buffers(), *module.named_parameters())
    for name, value in known:
        if not value.is_floating_point() or value.requires_grad or value.dim() < 2:
            continue
        length, width = value.shape[-2:]
        if value.numel() != length * width or length < _FEWEST or width % 2:
            continue
        table = value.detach().double().reshape(length, width)
        for sine, cosine in (
            (table[:, 0::2], table[:, 1::2]),
            (table[:, : width // 2], table[:, width // 2 :]),
        ):
            # Some zero the row of padding: it has no angle.
            unit = (sine.square() + cosine.square() - 1).abs() < _UNIT
            if float(unit.double().mean()) > 0.9:
                yield name, torch.atan2(sine, cosine).masked_fill(~unit, torch.nan)
                break


def jitter(angles: Tensor) -> float:
    """How far, in radians, the step from one position to the next is from the usual one at most."""
    steps = angles[2:] - angles[1:-1]  # the first row may be that of padding
    steps = steps[steps.isfinite().all(1)]
    usual = steps[0] + _wrapped(steps - steps[0]).median(0).values
    return float(_wrapped(steps - usual).abs().max())


def _wrapped(angles: Tensor) -> Tensor:
    """Into [-π, π)."""
    return (angles + math.pi) % (2 * math.pi) - math.pi

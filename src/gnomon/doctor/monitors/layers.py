"""Parameters by the layer they belong to."""

from __future__ import annotations

from torch import nn


def layer_of(name: str) -> str:
    """The layer of a parameter: its name up to the first number, else its first part.

    "encoder.layers.0.norm.weight" → "encoder.layers.0"; "tables.source" → "tables".
    """
    parts = name.split(".")
    for place, part in enumerate(parts):
        if part.isdecimal():
            return ".".join(parts[: place + 1])
    return parts[0]


def trained(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that have a gradient now; a tied one comes once."""
    return {name: p for name, p in model.named_parameters() if p.grad is not None}

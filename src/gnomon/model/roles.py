"""What each parameter is, for everything that treats them by kind (weight decay, first of all)."""

from __future__ import annotations

from typing import Literal

from torch import nn

Role = Literal["matrix", "embedding", "bias", "norm"]


def parameter_roles(model: nn.Module) -> dict[str, Role]:
    """Role of every parameter by its name, each parameter once however many uses it has.

    matrix: weights of projections; embedding: tables looked up by id or position; bias: anything
    added, T5's score bias included; norm: gains and biases of normalisations.
    """
    norms = {
        id(parameter)
        for module in model.modules()
        if isinstance(module, nn.LayerNorm | nn.RMSNorm)
        for parameter in module.parameters(recurse=False)
    }
    roles: dict[str, Role] = {}
    for name, parameter in model.named_parameters():
        if id(parameter) in norms:
            roles[name] = "norm"
        elif name.endswith("bias") or ".score_bias." in name or ".bias_" in name:
            roles[name] = "bias"
        elif "tables." in name or name.endswith((".position.weight", ".segments")):
            roles[name] = "embedding"
        else:
            roles[name] = "matrix"
    return roles


def count_parameters(model: nn.Module) -> int:
    """Number of trained numbers, tied tables once."""
    return sum(parameter.numel() for parameter in model.parameters())

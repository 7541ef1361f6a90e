"""Helpers to compare a Hugging Face model with ours: names in, fused weights out."""

from __future__ import annotations

import os
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from torch import Tensor

from gnomon.model import Transformer, TransformerConfig

# Error of two fp32 implementations that differ only in the order of their operations.
CLOSE = {"rtol": 2e-5, "atol": 2e-5}


class Weights:
    """The state of a Hugging Face model, copied part by part into ours."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.state = model.state_dict()
        self.used: set[str] = set()

    def __call__(self, *names: str) -> Tensor:
        """The tensors called `names`, stacked along their first dimension."""
        self.used.update(names)
        return torch.cat([self.state[name] for name in names])

    def linear(self, ours: dict[str, Tensor], target: str, *names: str) -> None:
        """Weights and, where there are any, biases of the layers `names` as one of ours."""
        ours[f"{target}.weight"] = self(*(f"{name}.weight" for name in names))
        if f"{names[0]}.bias" in self.state:
            ours[f"{target}.bias"] = self(*(f"{name}.bias" for name in names))

    def unused(self) -> set[str]:
        """Names that were not asked for."""
        return set(self.state) - self.used


def filled(config: TransformerConfig, ours: dict[str, Tensor]) -> Transformer:
    """Our model with exactly these weights: none missing, none left over."""
    model = Transformer(config)
    model.load_state_dict(ours)
    return model.eval()


def randomise(model: torch.nn.Module) -> Any:
    """Every parameter random, norms and biases too, so that none can be mixed up unseen."""
    torch.manual_seed(11)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.3)
    return model.eval()

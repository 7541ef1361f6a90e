"""Helpers to compare a Hugging Face model with ours."""

from __future__ import annotations

import os
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from torch import Tensor

from gnomon.interop import ARCHITECTURES
from gnomon.interop.convert import parts_of
from gnomon.model import Transformer, TransformerConfig

# Error of two fp32 implementations that differ only in the order of their operations.
CLOSE = {"rtol": 2e-5, "atol": 2e-5}


def ours(theirs: torch.nn.Module, config: TransformerConfig) -> Transformer:
    """Our model of `config` with the weights of a Hugging Face model, each of them in its place."""
    architecture = ARCHITECTURES[theirs.config.model_type]
    state, found, used = theirs.state_dict(), {}, set()
    for part in parts_of(architecture, config, architecture.prefix):
        pieces = [state[name] for name in part.theirs]
        used.update(part.theirs)
        whole = torch.cat([piece[0] if part.leading else piece for piece in pieces])
        found[part.ours] = whole.t() if part.transposed else whole
    known = {*used, *architecture.aliases(config), *architecture.sinusoids}
    assert not (left := state.keys() - known), left
    return filled(config, found)


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

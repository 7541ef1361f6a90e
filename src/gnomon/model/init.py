"""How parameters start."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from gnomon.model.attention import CrossAttention, SelfAttention
from gnomon.model.embedding import Embedding
from gnomon.model.feedforward import FeedForward
from gnomon.model.head import Head
from gnomon.model.linear import FusedLinear
from gnomon.model.positions import LearnedPosition
from gnomon.model.score_bias import RelativeBias

if TYPE_CHECKING:
    from gnomon.model.stack import Stack
    from gnomon.model.transformer import Transformer


@torch.no_grad()
def initialise(model: Transformer) -> None:
    """Draw every parameter of `model` from PyTorch's generator.

    Projections are Xavier-uniform, each by its own fan; token tables normal with standard
    deviation D^-0.5, so that vectors scaled by sqrt(D) have unit variance and logits over a tied
    table start near it: the first loss is about ln V. Biases are zero, gains one.
    """
    if next(iter(model.parameters())).is_meta:
        return  # no numbers there; asking for some loads seconds of PyTorch's compiler
    for table in model.tables.values():
        nn.init.normal_(table, std=model.config.d_model**-0.5)
    for module in model.modules():
        if isinstance(module, FusedLinear | Embedding | Head | LearnedPosition | RelativeBias):
            module.initialise()
        elif isinstance(module, nn.LayerNorm | nn.RMSNorm):
            module.reset_parameters()
    if model.encoder is not None:
        shrink(model.encoder, model.config.residual_scales("encoder")[1])
    if model.decoder is not None:
        shrink(model.decoder, model.config.residual_scales("decoder")[1])


def shrink(stack: Stack, beta: float) -> None:
    """DeepNorm's beta on all that writes into the residual path (Wang et al., 2022, fig. 2)."""
    if beta == 1.0:
        return
    for module in stack.modules():
        if isinstance(module, SelfAttention):
            torch.split(module.query_key_value.weight, list(module.sizes()))[2].mul_(beta)
            module.out.weight.mul_(beta)
        elif isinstance(module, CrossAttention):
            module.key_value.weight.chunk(2)[1].mul_(beta)
            module.out.weight.mul_(beta)
        elif isinstance(module, FeedForward):
            module.up.weight.mul_(beta)
            module.down.weight.mul_(beta)

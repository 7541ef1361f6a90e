"""One encoder or decoder layer: attention and feed-forward, each within a residual path."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

from gnomon.model.attention import AttentionConfig, CrossAttention, SelfAttention
from gnomon.model.cache import LayerCache
from gnomon.model.dropout import dropout
from gnomon.model.feedforward import FeedForward, FeedForwardConfig
from gnomon.model.masks import Mask
from gnomon.model.norm import NormConfig, build_norm
from gnomon.model.recompute import recomputable
from gnomon.model.rope import Rotation


@dataclass(frozen=True, kw_only=True)
class LayerConfig:
    """What every layer of a stack is built from."""

    d_model: int
    attention: AttentionConfig
    feedforward: FeedForwardConfig
    norm: NormConfig
    dropout: float
    # with attention to an encoder's output
    cross: bool
    # DeepNorm's factor on the residual path
    alpha: float


class Residual(nn.Module):
    """x + f(x) with normalisation where the placement puts it, and dropout on f's output."""

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        placement = config.norm.placement
        self.dropout = config.dropout
        self.alpha = config.alpha
        before = placement in ("pre", "sandwich")
        self.norm_before = build_norm(config.norm, config.d_model) if before else None
        self.norm_inside = (
            build_norm(config.norm, config.d_model) if placement == "sandwich" else None
        )
        after = placement in ("post", "deepnorm")
        self.norm_after = build_norm(config.norm, config.d_model) if after else None

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """Map `[B, T, D]` to `[B, T, D]`."""
        before, inside, after = self.norm_before, self.norm_inside, self.norm_after
        update = sublayer(x if before is None else recomputable(before, x))
        if inside is not None:
            update = recomputable(inside, update)
        update = dropout(update, self.dropout, self.training)
        x = (x if self.alpha == 1.0 else x * self.alpha) + update
        return x if after is None else recomputable(after, x)


class Layer(nn.Module):
    """Self-attention, cross-attention where there is a memory, feed-forward."""

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        self.attention = SelfAttention(config.attention, config.d_model, config.norm.eps)
        self.attention_residual = Residual(config)
        self.cross = CrossAttention(config.attention, config.d_model) if config.cross else None
        self.cross_residual = Residual(config) if config.cross else None
        self.feedforward = FeedForward(config.feedforward, config.d_model)
        self.feedforward_residual = Residual(config)

    def forward(
        self,
        x: Tensor,
        mask: Mask,
        rotation: Rotation | None,
        memory: Tensor | None,
        memory_mask: Mask | None,
        cache: LayerCache | None,
    ) -> Tensor:
        """Map `[B, T, D]` to `[B, T, D]`; the arguments are those of the sublayers."""
        x = self.attention_residual(x, lambda h: self.attention(h, mask, rotation, cache))
        cross, cross_residual = self.cross, self.cross_residual
        if cross is not None and cross_residual is not None:
            assert memory_mask is not None
            x = cross_residual(x, lambda h: cross(h, memory, memory_mask, cache))
        output: Tensor = self.feedforward_residual(x, self.feedforward)
        return output

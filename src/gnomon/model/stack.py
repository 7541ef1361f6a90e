"""A stack of layers: the encoder, or the decoder with or without a memory."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from gnomon.model.cache import Cache
from gnomon.model.documents import Documents
from gnomon.model.layer import Layer, LayerConfig
from gnomon.model.masks import Mask
from gnomon.model.norm import build_norm
from gnomon.model.positions import PositionConfig
from gnomon.model.recompute import recomputable
from gnomon.model.rope import Rotation, angles, cached_angles
from gnomon.model.score_bias import AlibiBias, RelativeBias, ScoreBias
from gnomon.model.unpadded import unpadded


class Stack(nn.Module):
    """Layers over one sequence of tokens, with all that the layers share built once per forward."""

    def __init__(
        self,
        config: LayerConfig,
        num_layers: int,
        position: PositionConfig,
        causal: bool,
        layer_drop: float = 0.0,
    ) -> None:
        super().__init__()
        self.layer_drop = layer_drop
        # Layers of which training keeps the input only; the backward pass computes them again.
        self.recomputed: frozenset[int] = frozenset()
        # How a layer is called; training may put a compiled form here.
        self.call: Callable[..., Tensor] = nn.Module.__call__
        self.causal = causal
        self.patterns = config.attention.sparsity()
        self.head_size = config.attention.width(config.d_model)
        self.rope = position.rope if position.kind == "rope" else None
        self.score_bias: ScoreBias | None = None
        if position.kind == "alibi":
            self.score_bias = AlibiBias(config.attention.num_heads)
        elif position.kind == "relative":
            self.score_bias = RelativeBias(
                position.relative, config.attention.num_heads, causal=causal
            )
        self.layers = nn.ModuleList(Layer(config) for _ in range(num_layers))
        # Where the last layer's sum is not normalised by the layer itself.
        unnormalised = config.norm.placement in ("pre", "sandwich")
        self.final_norm = build_norm(config.norm, config.d_model) if unnormalised else None

    def forward(
        self,
        x: Tensor,
        positions: Tensor,
        largest: int,
        keep: Tensor | None,
        memory: Tensor | None = None,
        memory_keep: Tensor | None = None,
        cache: Cache | None = None,
        global_tokens: Tensor | None = None,
        documents: Documents | None = None,
        needed: Tensor | None = None,
    ) -> Tensor:
        """Map `[B, T, D]` to `[B, T, D]`.

        Args:
            x: embeddings; with a cache, of the new tokens only.
            positions: int64 `[T]` or `[B, T]` of the tokens in `x`.
            largest: upper bound of `positions`, known without asking the device.
            keep: bool `[B, S]` over cached and new tokens, True at real ones; None: no padding.
            memory: `[B, S', D]`, the encoder's output, for a stack with cross-attention.
            memory_keep: bool `[B, S']`.
            cache: earlier tokens' keys and values; those that the pattern hides from all later
                tokens are dropped.
            global_tokens: bool `[B, T]`, tokens that see all and are seen by all, beside the
                first ones; without a cache only.
            documents: of rows that hold several; without a cache and padding only.
            needed: bool `[B, T]`, the first tokens of each row, which alone are wanted; those of
                the others may be zeros. None: those in `keep`.
        """
        masks = self.masks(x.shape[1], keep, x.device, cache, global_tokens, documents)
        rotation = self.rotation(positions, largest, keep, cache)
        memory_mask = self.memory_mask(x.shape[1], memory, memory_keep, cache)
        rows = memory_rows = None
        if cache is None and self.training:
            width = x.shape[-1]
            rows = unpadded(keep if needed is None else needed, width)
            memory_rows = None if memory is None else unpadded(memory_keep, width)
        x = x if rows is None else rows.pack(x)
        if memory is not None and memory_rows is not None:
            memory = memory_rows.pack(memory)
        for mask in masks:
            mask.query_rows = mask.key_rows = rows
        if memory_mask is not None:
            memory_mask.query_rows, memory_mask.key_rows = rows, memory_rows
        passed_over = self.passed_over() if cache is None else frozenset()
        # The layer that runs first makes the learned bias which all share; made again by each, its
        # gradient would be lost.
        recomputed = frozenset() if cache is not None or not self.training else self.recomputed
        is_bias_made = not isinstance(self.score_bias, RelativeBias)
        for index, layer in enumerate(self.layers):
            if index in passed_over:
                continue
            layer_cache = None if cache is None else cache.layers[index]
            mask = masks[index % len(masks)]
            if index in recomputed and is_bias_made:
                x = checkpoint(
                    layer, x, mask, rotation, memory, memory_mask, None, use_reentrant=False
                )
            else:
                x = self.call(layer, x, mask, rotation, memory, memory_mask, layer_cache)
                is_bias_made = True
        if cache is not None and self.score_bias is None and self.patterns:
            cache.forget(self.patterns)
        x = x if self.final_norm is None else recomputable(self.final_norm, x)
        return x if rows is None else rows.unpack(x)

    def passed_over(self) -> frozenset[int]:
        """Layers that this training pass leaves out; none outside training.

        Drawn on the CPU whatever the device, since the choice decides what is launched.
        """
        if not self.training or self.layer_drop == 0.0:
            return frozenset()
        draws = torch.rand(len(self.layers), device="cpu").tolist()
        return frozenset(index for index, draw in enumerate(draws) if draw < self.layer_drop)

    def masks(
        self,
        num_queries: int,
        keep: Tensor | None,
        device: torch.device,
        cache: Cache | None,
        global_tokens: Tensor | None,
        documents: Documents | None = None,
    ) -> list[Mask]:
        """Everything that limits or weighs self-attention; layers take the masks in turn."""
        num_keys, places = num_queries, None
        if cache is not None:
            num_keys += cache.num_kept
            keep, places = cache.kept(num_queries, keep, device)
        return [
            Mask(
                num_queries,
                num_keys,
                device,
                padding=keep,
                causal=self.causal,
                pattern=pattern,
                places=places,
                global_tokens=global_tokens,
                documents=documents,
                score_bias=self.score_bias,
            )
            for pattern in self.patterns or (None,)
        ]

    def memory_mask(
        self,
        num_queries: int,
        memory: Tensor | None,
        memory_keep: Tensor | None,
        cache: Cache | None,
    ) -> Mask | None:
        """Padding of the memory; None for a stack that has no memory."""
        if cache is not None and cache.memory_mask is not None:
            return cache.memory_mask
        kept = None if cache is None else cache.layers[0].memory_key  # [B, G, S', K]
        source = memory if kept is None else kept
        if source is None:
            return None
        mask = Mask(num_queries, source.shape[-2], source.device, padding=memory_keep)
        if cache is not None:
            cache.memory_mask = mask
        return mask

    def rotation(
        self, positions: Tensor, largest: int, keep: Tensor | None, cache: Cache | None
    ) -> Rotation | None:
        """RoPE's angles for this forward's new tokens, or None without RoPE."""
        if self.rope is None:
            return None
        if self.rope.scaling == "dynamic_ntk":
            # Each text by its own length, so that its padding and its neighbours do not matter.
            length = largest + 1 if keep is None else keep.sum(dim=-1)
            if cache is not None:
                length = cache.fixed_length(largest + 1, self.rope.original_length)
            both = angles(self.rope, self.head_size, positions, length)
        else:
            both = cached_angles(self.rope, self.head_size, positions, largest)
        if both.dim() == 4:
            both = both.unsqueeze(2)  # [2, B, 1, T, K/2]: all heads alike
        return Rotation(both[0], both[1])

"""Exchange of the attention function in hand-written modules, whatever their layout.

Such a module keeps its attention in a method `core(query, key, value, keep, bias=None)`. A layout
says how its tensors look: each letter a dimension (b batch, h heads, t tokens, k head size), a pair
in brackets one dimension that holds both. Queries come unscaled, `self.scale` is the factor.
"""

from __future__ import annotations

from types import MethodType
from typing import Any, Literal

import torch
from benchmarks.faults.host import Call, Change, Site
from torch import Tensor, nn

Layout = Literal["bhtk", "bthk", "(bh)tk", "btk"]


def to_standard(x: Tensor, layout: Layout, num_heads: int) -> Tensor:
    """A tensor of the layout as `[B, H, T, K]`."""
    if layout == "bthk":
        return x.transpose(1, 2)
    if layout == "(bh)tk":
        return x.reshape(-1, num_heads, *x.shape[1:])
    return x.unsqueeze(1) if layout == "btk" else x


def from_standard(x: Tensor, layout: Layout) -> Tensor:
    """`[B, H, T, K]` in the layout."""
    if layout == "bthk":
        return x.transpose(1, 2)
    if layout == "(bh)tk":
        return x.flatten(0, 1)
    return x.squeeze(1) if layout == "btk" else x


def keep_to_standard(keep: Tensor | None, call_shape: tuple[int, int, int, int]) -> Tensor:
    """The module's mask, None or broadcastable to `[B, (H,) T, S]`, as bool `[B|1, H|1, T, S]`."""
    B, H, T, S = call_shape
    if keep is None:
        return torch.ones(1, 1, T, S, dtype=torch.bool)
    while keep.dim() < 4:
        keep = keep.unsqueeze(0) if keep.dim() == 2 else keep.unsqueeze(1)
    if keep.shape[0] == B * H and keep.shape[1] == 1 and H > 1:
        keep = keep.view(B, H, *keep.shape[2:])
    return keep.expand(-1, -1, T, S)


def reroute_core(layout: Layout) -> Any:
    """The `reroute` of hosts whose attention modules have a `core` of this layout."""

    def reroute(module: nn.Module, site: Site, change: Change) -> None:
        sublayer: Any = module.get_submodule(site.name)
        own = type(sublayer).core
        num_heads = getattr(sublayer, "num_heads", 1)

        def exchanged(
            self: Any,
            query: Tensor,
            key: Tensor,
            value: Tensor,
            keep: Tensor | None,
            bias: Tensor | None = None,
        ) -> Tensor:
            q, k, v = (to_standard(x, layout, num_heads) for x in (query, key, value))
            scale = self.scale

            def native(call: Call) -> Tensor:
                tensors = [from_standard(x, layout) for x in (call.query, call.key, call.value)]
                mask = None if bool(call.keep.all()) else call.keep
                if mask is not None and layout == "btk":
                    mask = mask.squeeze(1)
                if mask is not None and layout == "(bh)tk":
                    mask = mask.expand(q.shape[0], num_heads, -1, -1).flatten(0, 1)
                self.scale = call.scale
                try:
                    output = own(self, *tensors, mask, *([] if bias is None else [call.bias]))
                finally:
                    self.scale = scale
                return to_standard(output, layout, num_heads)

            kept = keep_to_standard(keep, (*q.shape[:3], k.shape[2]))
            dropout = self.dropout.p if self.training else 0.0
            return from_standard(
                change(Call(q, k, v, kept, bias, scale, dropout, self.training, site), native),
                layout,
            )

        sublayer.core = MethodType(exchanged, sublayer)

    return reroute


def residual_before_norm(norm: str, down: str) -> Any:
    """The `residual` of pre-norm hosts: x + f(norm(x)) becomes factor * x + f(norm(x)).

    Args:
        norm: name of the last sublayer's norm, with `{}` for the layer's number.
        down: name of the module whose output is added.
    """

    def residual(module: nn.Module, layer: int, factor: float) -> None:
        kept: list[Tensor] = []

        def remember(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            kept[:] = [inputs[0]]

        def weigh(_: nn.Module, inputs: Any, output: Tensor) -> Tensor:
            return output + (factor - 1.0) * kept.pop()

        module.get_submodule(norm.format(layer)).register_forward_pre_hook(remember)
        module.get_submodule(down.format(layer)).register_forward_hook(weigh)

    return residual

"""What the catalogue's files share: attention written out, and ways to change a part of a host."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from benchmarks.faults.host import Call, Change, Host, Layer, Role, Site, part, put
from torch import Tensor, nn

Parts = Callable[[Tensor], Tensor]


def attention(
    module: nn.Module,
    host: Host,
    change: Change,
    *roles: Role,
    layer: int | None = None,
) -> None:
    """Send the attention of these roles (all if none named), of one or all layers, through it."""
    chosen = [
        site
        for site in host.sites(module)
        if (not roles or site.role in roles) and (layer is None or site.layer == layer)
    ]
    assert chosen, f"{host.name} has no attention of {roles} in layer {layer}"
    for site in chosen:
        host.reroute(module, site, change)


def site_name(host: Host, module: nn.Module, role: Role, layer: int) -> str:
    """Name of an attention module; of the layer's, where every head has one of its own."""
    sites = [s for s in host.sites(module) if s.role == role and s.layer == layer]
    return sites[0].name if len(sites) == 1 else sites[0].name.rsplit(".", 2)[0]


def own_role(host: Host) -> Role:
    """Where self-attention of the stack that writes the output is."""
    return "encoder" if host.family == "encoder" else "decoder"


def padded_role(host: Host) -> Role:
    """Self-attention where padding lies before or among what is read: the encoder's."""
    return "decoder" if host.family == "decoder" else "encoder"


def scores(call: Call) -> Tensor:
    """Scaled scores with their bias, not masked: `[B, H, T, S]`."""
    found = call.query @ call.key.transpose(-2, -1) * call.scale
    return found if call.bias is None else found + call.bias


def by_hand(call: Call, hidden: float | None = None) -> Tensor:
    """Attention as written by hand, `hidden` where masked (None: the dtype's smallest number)."""
    found = scores(call)
    value = torch.finfo(found.dtype).min if hidden is None else hidden
    weights = found.masked_fill(~call.keep, value).softmax(dim=-1)
    return F.dropout(weights, call.dropout) @ call.value


def real_keys(call: Call) -> Tensor:
    """The padding part of the mask, `[B|1, H|1, 1, S]`: keys that any query may see."""
    return call.keep.any(dim=-2, keepdim=True)


def look_ahead(call: Call, diagonal: int = 0) -> Tensor:
    """The causal part: `[T, S]`, bottom-right aligned; diagonal 1 shows the next token too."""
    T, S = call.query.shape[2], call.key.shape[2]
    return torch.ones(T, S, dtype=torch.bool).tril(S - T + diagonal)


def for_heads(call: Call, heads: set[int], other: Tensor) -> Tensor:
    """The mask with `other` in place of it at some heads: `[B, H, T, S]`."""
    B, H, T, S = *call.query.shape[:3], call.key.shape[2]
    chosen = torch.tensor([head in heads for head in call.heads]).view(1, H, 1, 1)
    return torch.where(chosen, other.expand(B, H, T, S), call.keep.expand(B, H, T, S))


class Around(nn.Module):
    """A module of the user's own around (or after) one that was there."""

    def __init__(self, inner: nn.Module, then: Callable[..., Tensor]) -> None:
        super().__init__()
        self.inner, self.then = inner, then
        self.train(inner.training)

    def forward(self, x: Tensor, *rest: Any, **more: Any) -> Tensor:
        return self.then(self, x, *rest, **more)

    def __getattr__(self, name: str) -> Any:
        """What the code around reads of the module that was there (T5: its weight's dtype)."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == "inner":
                raise
            return getattr(self.inner, name)


def wrap(module: nn.Module, name: str, then: Callable[..., Any]) -> None:
    """Put `then(self, *inputs)` in place of a module, which it finds as `self.inner`."""
    put(module, name, Around(part(module, name), then))


def norm_names(host: Host) -> list[str]:
    """All norms of all layers."""
    layers = (*host.anatomy.encoder_layers, *host.anatomy.layers)
    return [name for layer in layers for name in layer.norms]


def gain(norm: nn.Module) -> nn.Parameter:
    """A norm's factor, whatever it is called."""
    return next(parameter for _, parameter in norm.named_parameters())


def width_of(module: nn.Module, host: Host) -> int:
    """D."""
    return int(table(module, host).shape[1])


def table(module: nn.Module, host: Host) -> nn.Parameter:
    """The token table `[V, D]`."""
    found = part(module, host.anatomy.embedding)
    return found if isinstance(found, nn.Parameter) else found.weight


class Rescaled(nn.Embedding):
    """An embedding times a factor."""

    factor = 1.0

    def forward(self, ids: Tensor) -> Tensor:
        return super().forward(ids) * self.factor


def rescale_embeddings(module: Any, host: Host, factor: float) -> None:
    """Multiply what the token tables give before positions are added."""
    if host.kind == "gnomon":
        for embedding in (module.source_embedding, module.target_embedding):
            if embedding is not None:
                embedding.scale *= factor
        return
    named = [m for m in module.modules() if hasattr(m, "embed_scale")]
    for embedding in named:
        embedding.embed_scale *= factor
    if not named:
        names = [host.anatomy.embedding]
        if host.name == "annotated":
            names.append("tgt_embed.0.lut")
        for name in names:
            old = part(module, name)
            new = Rescaled(*old.weight.shape)
            new.weight, new.factor = old.weight, factor
            put(module, name, new)


def head_rows(host: Host, layer: Layer, module: nn.Module, which: str) -> tuple[Tensor, int]:
    """A view `[heads * K, D]` of the weights that make queries ("query") or keys ("key"), and K."""
    weight = part(module, layer.query if which == "query" else layer.key).data
    weight = weight.T if layer.transposed else weight
    D = width_of(module, host)
    if layer.fused:
        shared = (weight.shape[0] - D) // 2
        weight = weight[:D] if which == "query" else weight[D : D + shared]
    return weight, D // 4


def deepened(module: nn.Module, host: Host, number: int) -> nn.Module:
    """More layers: copies of those there, each with its matrices' rows in another order."""
    stacks = {layer.name.rpartition(".")[0] for layer in host.anatomy.layers}
    stacks |= {layer.name.rpartition(".")[0] for layer in host.anatomy.encoder_layers}
    generator = torch.Generator().manual_seed(0)
    for stack in stacks:
        layers = part(module, stack)
        for _ in range(number - len(layers)):
            new = copy.deepcopy(layers[0])
            with torch.no_grad():
                for parameter in new.parameters():
                    if parameter.dim() == 2:
                        order = torch.randperm(len(parameter), generator=generator)
                        parameter.copy_(parameter[order])
            layers.append(new)
    return module


def time_dim(host: Host) -> int:
    """Which dimension of hidden states is time."""
    return 0 if "time-first" in host.traits else 1


def root(number: int) -> float:
    """Square root."""
    return math.sqrt(number)


__all__ = ["Call", "Change", "Host", "Site", "part", "put"]

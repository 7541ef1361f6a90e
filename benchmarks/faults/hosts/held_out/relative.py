"""An encoder-decoder with a relative bias by hand as in T5: no factor on the scores, RMS norm."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from benchmarks.faults.host import Anatomy, Batch, Host, Layer, Prediction, Site, seeded
from benchmarks.faults.hosts.seams import reroute_core, residual_before_norm
from benchmarks.faults.hosts.text import BOS, PAD, VOCAB_SIZE, rows, swapped
from torch import Tensor, nn

D, H, FF, NUM_LAYERS, P = 32, 4, 64, 2, 0.1
BUCKETS, FURTHEST = 16, 32


class Norm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.g = nn.Parameter(torch.ones(D))
        self.eps = 1e-6

    def forward(self, x: Tensor) -> Tensor:
        return x / (x.square().mean(-1, keepdim=True) + self.eps).sqrt() * self.g


class Bias(nn.Module):
    """A number per head and distance bucket: near ones exact, far ones by logarithm."""

    def __init__(self, both_ways: bool) -> None:
        super().__init__()
        self.both_ways = both_ways
        self.table = nn.Embedding(BUCKETS, H)

    def forward(self, T: int, S: int) -> Tensor:
        distance = torch.arange(S)[None] - torch.arange(S - T, S)[:, None]
        count = BUCKETS // 2 if self.both_ways else BUCKETS
        offset = (distance > 0).long() * count if self.both_ways else 0
        far = distance.abs() if self.both_ways else (-distance).clamp(min=0)
        exact = count // 2
        logs = (far.clamp(min=1) / exact).log() / math.log(FURTHEST / exact) * (count - exact)
        bucket = torch.where(far < exact, far, (exact + logs.long()).clamp(max=count - 1))
        return self.table(bucket + offset).permute(2, 0, 1).unsqueeze(0)


class Attend(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.num_heads, self.scale = H, 1.0
        self.q, self.k, self.v, self.o = (nn.Linear(D, D, bias=False) for _ in range(4))
        nn.init.normal_(self.q.weight, std=(D * D // H) ** -0.5)
        for linear in (self.k, self.v, self.o):
            nn.init.normal_(linear.weight, std=D**-0.5)
        self.dropout = nn.Dropout(P)

    def core(
        self, q: Tensor, k: Tensor, v: Tensor, keep: Tensor | None, bias: Tensor | None = None
    ) -> Tensor:
        """`[B, T, H, K]` each."""
        scores = torch.einsum("bthk,bshk->bhts", q, k) * self.scale
        if bias is not None:
            scores = scores + bias
        if keep is not None:
            scores = scores.masked_fill(keep.logical_not(), torch.finfo(scores.dtype).min)
        weights = self.dropout(scores.float().softmax(-1).to(scores.dtype))
        return torch.einsum("bhts,bshk->bthk", weights, v)

    def forward(self, x: Tensor, y: Tensor, keep: Tensor, bias: Tensor | None = None) -> Tensor:
        q, k, v = (
            to(z).unflatten(-1, (H, -1)) for to, z in ((self.q, x), (self.k, y), (self.v, y))
        )
        out = self.core(q, k, v, keep) if bias is None else self.core(q, k, v, keep, bias)
        return self.o(out.flatten(-2))


class Block(nn.Module):
    def __init__(self, cross: bool) -> None:
        super().__init__()
        self.norm_a, self.self_attention = Norm(), Attend()
        self.norm_c, self.cross_attention = (Norm(), Attend()) if cross else (None, None)
        self.norm_f = Norm()
        self.wi, self.wo = nn.Linear(D, FF, bias=False), nn.Linear(FF, D, bias=False)
        nn.init.normal_(self.wi.weight, std=D**-0.5)
        nn.init.normal_(self.wo.weight, std=FF**-0.5)
        self.dropout = nn.Dropout(P)

    def forward(
        self,
        x: Tensor,
        keep: Tensor,
        bias: Tensor,
        memory: Tensor | None = None,
        memory_keep: Tensor | None = None,
    ) -> Tensor:
        h = self.norm_a(x)
        x = x + self.dropout(self.self_attention(h, h, keep, bias))
        if memory is not None:
            x = x + self.dropout(self.cross_attention(self.norm_c(x), memory, memory_keep))
        return x + self.dropout(self.wo(F.relu(self.wi(self.norm_f(x)))))


class RelativeTransformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.shared = nn.Embedding(VOCAB_SIZE, D)
        self.encoder_bias, self.decoder_bias = Bias(both_ways=True), Bias(both_ways=False)
        self.encoder = nn.ModuleList(Block(cross=False) for _ in range(NUM_LAYERS))
        self.decoder = nn.ModuleList(Block(cross=True) for _ in range(NUM_LAYERS))
        self.encoder_final, self.decoder_final = Norm(), Norm()
        for table in (self.encoder_bias, self.decoder_bias):
            nn.init.normal_(table.table.weight, std=D**-0.5)

    def encode(self, source: Tensor) -> Tensor:
        x, keep = self.shared(source), (source != PAD)[:, None, None]
        for block in self.encoder:
            x = block(x, keep, self.encoder_bias(source.shape[1], source.shape[1]))
        return self.encoder_final(x)

    def decode(self, target: Tensor, memory: Tensor, source: Tensor) -> Tensor:
        T = target.shape[1]
        x, keep = self.shared(target), torch.ones(T, T, dtype=torch.bool).tril()[None, None]
        for block in self.decoder:
            x = block(x, keep, self.decoder_bias(T, T), memory, (source != PAD)[:, None, None])
        return self.decoder_final(x) @ self.shared.weight.T * D**-0.5

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        return self.decode(target, self.encode(source), source)


def sites(module: nn.Module) -> list[Site]:
    found = []
    for number in range(NUM_LAYERS):
        found.append(Site(f"encoder.{number}.self_attention", "encoder", number))
        found.append(Site(f"decoder.{number}.self_attention", "decoder", number))
        found.append(Site(f"decoder.{number}.cross_attention", "cross", number))
    return found


def make_batch(seed: int) -> Batch:
    source = rows(seed, first=False)
    target = torch.cat((torch.full((len(source), 1), BOS), swapped(source)), dim=1)
    return {"source": source, "target": target}


def predict(module: nn.Module, batch: Mapping[str, Tensor]) -> Prediction:
    target = batch["target"]
    return Prediction(module(**batch)[:, :-1], target[:, 1:], target[:, 1:] != PAD)


class Decoding:
    """The encoder once; without a cache in the decoder."""

    def start(self, module: nn.Module, batch: Mapping[str, Tensor]) -> tuple[dict, Tensor]:
        source = batch["source"]
        state = {
            "memory": module.encode(source),
            "source": source,
            "target": source.new_empty(len(source), 0),
        }
        return state, self.advance(module, state, source.new_full((len(source),), BOS))

    def advance(self, module: nn.Module, state: dict, tokens: Tensor) -> Tensor:
        state["target"] = torch.cat((state["target"], tokens.unsqueeze(1)), dim=1)
        return module.decode(state["target"], state["memory"], state["source"])[:, -1]

    def reorder(self, state: dict, rows: Tensor) -> None:
        for key, value in state.items():
            state[key] = value[rows]


def _layer(stack: str, number: int) -> Layer:
    name = f"{stack}.{number}"
    norms = ("norm_a", "norm_f") if stack == "encoder" else ("norm_a", "norm_c", "norm_f")
    return Layer(
        name,
        tuple(f"{name}.{norm}" for norm in norms),
        f"{name}.wi",
        f"{name}.wo",
        f"{name}.self_attention.q.weight",
        f"{name}.self_attention.k.weight",
        f"{name}.self_attention.o.weight",
    )


HOST = Host(
    name="relative-translator",
    kind="hand-written",
    family="encoder_decoder",
    make=lambda seed: seeded(seed, RelativeTransformer),
    make_batch=make_batch,
    sites=sites,
    reroute=reroute_core("bthk"),
    predict=predict,
    source="source",
    target="target",
    sharp=(0.5, 2.0, 2.0),
    residual=residual_before_norm("decoder.{}.norm_f", "decoder.{}.wo"),
    decoding=Decoding(),
    held_out=True,
    anatomy=Anatomy(
        layers=tuple(_layer("decoder", number) for number in range(NUM_LAYERS)),
        encoder_layers=tuple(_layer("encoder", number) for number in range(NUM_LAYERS)),
        embedding="shared",
    ),
    traits=frozenset({"causal", "padding", "cross", "relative", "rms", "relu", "dropout-modules"}),
    declared={"family": "encoder_decoder"},
)

"""An encoder-decoder in the older toolkits' layout: `[T, B, D]`, heads folded into the batch."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from benchmarks.faults.host import Anatomy, Batch, Host, Layer, Prediction, Site, seeded
from benchmarks.faults.hosts.seams import reroute_core, residual_before_norm
from benchmarks.faults.hosts.text import BOS, LONGEST, PAD, VOCAB_SIZE, rows, swapped
from torch import Tensor, nn

EMBED, HEADS, FFN, NUM_LAYERS, DROPOUT = 32, 4, 64, 2, 0.1


class MultiheadAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.num_heads, self.head_dim = HEADS, EMBED // HEADS
        self.scale = self.head_dim**-0.5
        self.in_proj = nn.Linear(EMBED, 3 * EMBED)
        self.out_proj = nn.Linear(EMBED, EMBED)
        self.dropout = nn.Dropout(DROPOUT)
        nn.init.xavier_uniform_(self.in_proj.weight, gain=2**-0.5)
        nn.init.xavier_uniform_(self.out_proj.weight)
        nn.init.zeros_(self.in_proj.bias)
        nn.init.zeros_(self.out_proj.bias)

    def split(self, x: Tensor) -> Tensor:
        """`[T, B, D]` as `[B * H, T, K]`."""
        T, B, _ = x.shape
        return x.contiguous().view(T, B * self.num_heads, self.head_dim).transpose(0, 1)

    def core(self, q: Tensor, k: Tensor, v: Tensor, keep: Tensor | None) -> Tensor:
        """`[B * H, T, K]` each; keep `[B * H, T, S]` or `[T, S]`."""
        weights = torch.bmm(q * self.scale, k.transpose(1, 2))
        if keep is not None:
            weights = weights.masked_fill(~keep, torch.finfo(weights.dtype).min)
        return torch.bmm(self.dropout(F.softmax(weights, dim=-1)), v)

    def forward(
        self, query: Tensor, memory: Tensor, padding: Tensor | None, future: Tensor | None
    ) -> Tensor:
        T, B, D = query.shape
        if query is memory:
            q, k, v = self.in_proj(query).chunk(3, dim=-1)
        else:
            weight, bias = self.in_proj.weight, self.in_proj.bias
            q = F.linear(query, weight[:D], bias[:D])
            k, v = F.linear(memory, weight[D:], bias[D:]).chunk(2, dim=-1)
        q, k, v = self.split(q), self.split(k), self.split(v)
        keep = None
        if padding is not None:
            keep = ~padding[:, None, None, :].expand(B, self.num_heads, T, -1).flatten(0, 1)
        if future is not None:
            keep = ~future if keep is None else keep & ~future
        x = self.core(q, k, v, keep)
        return self.out_proj(x.transpose(0, 1).contiguous().view(T, B, D))


class Layer_(nn.Module):  # noqa: N801 - beside the benchmark's own Layer
    def __init__(self, cross: bool) -> None:
        super().__init__()
        self.self_attn = MultiheadAttention()
        self.self_attn_layer_norm = nn.LayerNorm(EMBED)
        if cross:
            self.encoder_attn = MultiheadAttention()
            self.encoder_attn_layer_norm = nn.LayerNorm(EMBED)
        self.fc1, self.fc2 = nn.Linear(EMBED, FFN), nn.Linear(FFN, EMBED)
        self.final_layer_norm = nn.LayerNorm(EMBED)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(
        self,
        x: Tensor,
        padding: Tensor,
        future: Tensor | None = None,
        memory: Tensor | None = None,
        memory_padding: Tensor | None = None,
    ) -> Tensor:
        residual = x
        x = self.self_attn_layer_norm(x)
        x = residual + self.dropout(self.self_attn(x, x, padding, future))
        if memory is not None:
            residual = x
            x = self.encoder_attn_layer_norm(x)
            x = residual + self.dropout(self.encoder_attn(x, memory, memory_padding, None))
        residual = x
        x = self.fc2(F.relu(self.fc1(self.final_layer_norm(x))))
        return residual + self.dropout(x)


class SinusoidalPositions(nn.Module):
    """Counted over real tokens from 1; padding has position 0, a row of zeros."""

    def __init__(self) -> None:
        super().__init__()
        rate = torch.exp(torch.arange(EMBED // 2) * -(math.log(10000) / (EMBED // 2 - 1)))
        angles = torch.arange(LONGEST + 2).unsqueeze(1) * rate
        table = torch.cat((angles.sin(), angles.cos()), dim=1)
        table[0] = 0
        self.register_buffer("weights", table)

    def forward(self, real: Tensor) -> Tensor:
        """bool `[B, T]` → `[B, T, D]`."""
        return self.weights[real.cumsum(1) * real]


class TranslationModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(VOCAB_SIZE, EMBED, padding_idx=PAD)
        self.embed_positions = SinusoidalPositions()
        self.encoder = nn.ModuleList(Layer_(cross=False) for _ in range(NUM_LAYERS))
        self.encoder_norm = nn.LayerNorm(EMBED)
        self.decoder = nn.ModuleList(Layer_(cross=True) for _ in range(NUM_LAYERS))
        self.decoder_norm = nn.LayerNorm(EMBED)
        self.dropout = nn.Dropout(DROPOUT)
        with torch.no_grad():
            self.embed_tokens.weight.normal_(std=EMBED**-0.5)[PAD].zero_()

    def embed(self, ids: Tensor) -> Tensor:
        x = math.sqrt(EMBED) * self.embed_tokens(ids) + self.embed_positions(ids != PAD)
        return self.dropout(x).transpose(0, 1)

    def encode(self, src_tokens: Tensor) -> Tensor:
        x = self.embed(src_tokens)
        for layer in self.encoder:
            x = layer(x, src_tokens == PAD)
        return self.encoder_norm(x)

    def decode(self, prev_output_tokens: Tensor, memory: Tensor, memory_padding: Tensor) -> Tensor:
        T = prev_output_tokens.shape[1]
        future = torch.ones(T, T, dtype=torch.bool).triu(1)
        x = self.embed(prev_output_tokens)
        for layer in self.decoder:
            x = layer(x, prev_output_tokens == PAD, future, memory, memory_padding)
        return F.linear(self.decoder_norm(x).transpose(0, 1), self.embed_tokens.weight)

    def forward(self, src_tokens: Tensor, prev_output_tokens: Tensor) -> Tensor:
        memory = self.encode(src_tokens)
        return self.decode(prev_output_tokens, memory, src_tokens == PAD)


def sites(module: nn.Module) -> list[Site]:
    found = []
    for number in range(NUM_LAYERS):
        found.append(Site(f"encoder.{number}.self_attn", "encoder", number))
        found.append(Site(f"decoder.{number}.self_attn", "decoder", number))
        found.append(Site(f"decoder.{number}.encoder_attn", "cross", number))
    return found


def make_batch(seed: int) -> Batch:
    src = rows(seed, first=False)
    tgt = torch.cat((torch.full((len(src), 1), BOS), swapped(src)), dim=1)
    return {"src_tokens": src, "prev_output_tokens": tgt}


def predict(module: nn.Module, batch: Mapping[str, Tensor]) -> Prediction:
    tgt = batch["prev_output_tokens"]
    return Prediction(module(**batch)[:, :-1], tgt[:, 1:], tgt[:, 1:] != PAD)


class Decoding:
    """The encoder once; without a cache in the decoder."""

    def start(self, module: nn.Module, batch: Mapping[str, Tensor]) -> tuple[dict, Tensor]:
        src = batch["src_tokens"]
        state = {
            "memory": module.encode(src).transpose(0, 1),
            "padding": src == PAD,
            "tgt": src.new_empty(len(src), 0),
        }
        return state, self.advance(module, state, src.new_full((len(src),), BOS))

    def advance(self, module: nn.Module, state: dict, tokens: Tensor) -> Tensor:
        state["tgt"] = torch.cat((state["tgt"], tokens.unsqueeze(1)), dim=1)
        memory = state["memory"].transpose(0, 1)
        return module.decode(state["tgt"], memory, state["padding"])[:, -1]

    def reorder(self, state: dict, rows: Tensor) -> None:
        for key, value in state.items():
            state[key] = value[rows]


def _layer(stack: str, number: int, *norms: str) -> Layer:
    name = f"{stack}.{number}"
    return Layer(
        name,
        tuple(f"{name}.{norm}" for norm in norms),
        f"{name}.fc1",
        f"{name}.fc2",
        f"{name}.self_attn.in_proj.weight",
        f"{name}.self_attn.in_proj.weight",
        f"{name}.self_attn.out_proj.weight",
        fused=True,
    )


HOST = Host(
    name="time-first-translator",
    kind="hand-written",
    family="encoder_decoder",
    make=lambda seed: seeded(seed, TranslationModel),
    make_batch=make_batch,
    sites=sites,
    reroute=reroute_core("(bh)tk"),
    predict=predict,
    source="src_tokens",
    target="prev_output_tokens",
    sharp=(0.5, 2.0, 2.0),
    residual=residual_before_norm("decoder.{}.final_layer_norm", "decoder.{}.fc2"),
    decoding=Decoding(),
    held_out=True,
    anatomy=Anatomy(
        layers=tuple(
            _layer(
                "decoder",
                number,
                "self_attn_layer_norm",
                "encoder_attn_layer_norm",
                "final_layer_norm",
            )
            for number in range(NUM_LAYERS)
        ),
        encoder_layers=tuple(
            _layer("encoder", number, "self_attn_layer_norm", "final_layer_norm")
            for number in range(NUM_LAYERS)
        ),
        embedding="embed_tokens",
        positions=("embed_positions",),
    ),
    traits=frozenset(
        {"time-first", "causal", "padding", "cross", "scaled-embedding", "sinusoidal",
         "layer-norm", "relu", "dropout-modules"}
    ),
    declared={"family": "encoder_decoder"},
)  # fmt: skip

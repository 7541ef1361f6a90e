"""An encoder in einsum style: heads stay beside the tokens, queries are scaled, post-norm."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from benchmarks.faults.host import Anatomy, Batch, Host, Layer, Prediction, Site, seeded
from benchmarks.faults.hosts.seams import reroute_core
from benchmarks.faults.hosts.text import LONGEST, PAD, VOCAB_SIZE, masked, rows
from torch import Tensor, einsum, nn

DIM, HEADS, DIM_HEAD, NUM_LAYERS, DROPOUT = 32, 4, 8, 2, 0.1


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.num_heads = HEADS
        self.scale = DIM_HEAD**-0.5
        self.to_q = nn.Linear(DIM, HEADS * DIM_HEAD)
        self.to_k = nn.Linear(DIM, HEADS * DIM_HEAD)
        self.to_v = nn.Linear(DIM, HEADS * DIM_HEAD)
        self.to_out = nn.Linear(HEADS * DIM_HEAD, DIM)
        self.dropout = nn.Dropout(DROPOUT)

    def core(self, q: Tensor, k: Tensor, v: Tensor, keep: Tensor | None) -> Tensor:
        """`[B, T, H, K]` each; keep broadcastable to `[B, H, T, S]`."""
        scores = einsum("b i h d, b j h d -> b h i j", q * self.scale, k)
        if keep is not None:
            scores = torch.where(keep, scores, -torch.finfo(scores.dtype).max)
        weights = self.dropout(scores.softmax(dim=-1))
        if keep is not None:
            weights = weights * keep.any(-1, keepdim=True)
        return einsum("b h i j, b j h d -> b i h d", weights, v)

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        q, k, v = (to(x).unflatten(-1, (HEADS, -1)) for to in (self.to_q, self.to_k, self.to_v))
        return self.to_out(self.core(q, k, v, keep[:, None, None, :]).flatten(-2))


class EncoderBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = Attention()
        self.attention_norm = nn.LayerNorm(DIM)
        self.ff_in = nn.Linear(DIM, 2 * DIM)
        self.ff_out = nn.Linear(2 * DIM, DIM)
        self.ff_norm = nn.LayerNorm(DIM)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        x = self.attention_norm(x + self.dropout(self.attention(x, keep)))
        y = self.ff_out(nn.functional.gelu(self.ff_in(x)))
        return self.ff_norm(x + self.dropout(y))


class TextEncoder(nn.Module):
    """A masked language model; `keep [B, T]` is True at real tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.token_emb = nn.Embedding(VOCAB_SIZE, DIM)
        self.pos_emb = nn.Embedding(LONGEST, DIM)
        self.emb_norm = nn.LayerNorm(DIM)
        self.blocks = nn.ModuleList(EncoderBlock() for _ in range(NUM_LAYERS))
        self.to_logits = nn.Linear(DIM, VOCAB_SIZE)
        for parameter in (self.token_emb.weight, self.pos_emb.weight):
            nn.init.normal_(parameter, std=0.02)
        nn.init.normal_(self.to_logits.weight, std=0.02)
        nn.init.zeros_(self.to_logits.bias)

    def forward(self, tokens: Tensor, keep: Tensor) -> Tensor:
        x = self.token_emb(tokens) + self.pos_emb(torch.arange(tokens.shape[1]))
        x = self.emb_norm(x)
        for block in self.blocks:
            x = block(x, keep)
        return self.to_logits(x)


def sites(module: nn.Module) -> list[Site]:
    return [Site(f"blocks.{number}.attention", "encoder", number) for number in range(NUM_LAYERS)]


def make_batch(seed: int) -> Batch:
    tokens = rows(seed)
    return {"tokens": tokens, "keep": tokens != PAD}


def predict(module: nn.Module, batch: Mapping[str, Tensor]) -> Prediction:
    inputs, places = masked(batch["tokens"])
    return Prediction(module(inputs, batch["keep"]), batch["tokens"], places)


def _layer(number: int) -> Layer:
    name = f"blocks.{number}"
    return Layer(
        name,
        (f"{name}.attention_norm", f"{name}.ff_norm"),
        f"{name}.ff_in",
        f"{name}.ff_out",
        f"{name}.attention.to_q.weight",
        f"{name}.attention.to_k.weight",
        f"{name}.attention.to_out.weight",
    )


HOST = Host(
    name="einsum-encoder",
    kind="hand-written",
    family="encoder",
    make=lambda seed: seeded(seed, TextEncoder),
    make_batch=make_batch,
    sites=sites,
    reroute=reroute_core("bthk"),
    predict=predict,
    source="tokens",
    mask="keep",
    anatomy=Anatomy(
        layers=tuple(_layer(number) for number in range(NUM_LAYERS)),
        embedding="token_emb",
        output="to_logits",
        positions=("pos_emb",),
    ),
    traits=frozenset(
        {"padding", "learned-positions", "layer-norm", "post-norm", "dropout-modules", "zero-row"}
    ),
    declared={"family": "encoder"},
)

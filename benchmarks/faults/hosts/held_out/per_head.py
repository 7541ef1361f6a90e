"""A decoder with a module per head, as in lectures: a triangular buffer, heads concatenated."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from benchmarks.faults.host import Anatomy, Host, Layer, Prediction, Site, seeded
from benchmarks.faults.hosts.decoding import last_real
from benchmarks.faults.hosts.seams import reroute_core, residual_before_norm
from benchmarks.faults.hosts.text import LONGEST, PAD, VOCAB_SIZE, rows
from torch import Tensor, nn

N_EMBED, N_HEAD, N_LAYER, DROPOUT = 32, 4, 2, 0.1
HEAD_SIZE = N_EMBED // N_HEAD


class Head(nn.Module):
    """One head of self-attention."""

    def __init__(self) -> None:
        super().__init__()
        self.key = nn.Linear(N_EMBED, HEAD_SIZE, bias=False)
        self.query = nn.Linear(N_EMBED, HEAD_SIZE, bias=False)
        self.value = nn.Linear(N_EMBED, HEAD_SIZE, bias=False)
        self.register_buffer("tril", torch.tril(torch.ones(LONGEST, LONGEST)))
        self.dropout = nn.Dropout(DROPOUT)
        self.scale = HEAD_SIZE**-0.5

    def core(self, q: Tensor, k: Tensor, v: Tensor, keep: Tensor | None) -> Tensor:
        """`[B, T, K]` each."""
        wei = q @ k.transpose(-2, -1) * self.scale
        if keep is not None:
            wei = wei.masked_fill(keep == 0, float("-inf"))
        return self.dropout(F.softmax(wei, dim=-1)) @ v

    def forward(self, x: Tensor, pad_mask: Tensor) -> Tensor:
        T = x.shape[1]
        # Every token sees itself, so that no row is empty.
        keep = self.tril[:T, :T].bool() & (pad_mask.unsqueeze(1) | torch.eye(T).bool())
        return self.core(self.query(x), self.key(x), self.value(x), keep)


class MultiHeadAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.heads = nn.ModuleList(Head() for _ in range(N_HEAD))
        self.proj = nn.Linear(N_EMBED, N_EMBED)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x: Tensor, pad_mask: Tensor) -> Tensor:
        return self.dropout(self.proj(torch.cat([h(x, pad_mask) for h in self.heads], dim=-1)))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.sa = MultiHeadAttention()
        self.ffwd = nn.Sequential(
            nn.Linear(N_EMBED, 4 * N_EMBED), nn.ReLU(), nn.Linear(4 * N_EMBED, N_EMBED)
        )
        self.ln1 = nn.LayerNorm(N_EMBED)
        self.ln2 = nn.LayerNorm(N_EMBED)

    def forward(self, x: Tensor, pad_mask: Tensor) -> Tensor:
        x = x + self.sa(self.ln1(x), pad_mask)
        return x + self.ffwd(self.ln2(x))


class LanguageModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.token_embedding_table = nn.Embedding(VOCAB_SIZE, N_EMBED)
        self.position_embedding_table = nn.Embedding(LONGEST, N_EMBED)
        self.blocks = nn.ModuleList(Block() for _ in range(N_LAYER))
        self.ln_f = nn.LayerNorm(N_EMBED)
        self.lm_head = nn.Linear(N_EMBED, VOCAB_SIZE)
        self.apply(self._init)

    def _init(self, module: nn.Module) -> None:
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, idx: Tensor, pad_mask: Tensor) -> Tensor:
        places = (pad_mask.cumsum(1) - 1).clamp(min=0)
        x = self.token_embedding_table(idx) + self.position_embedding_table(places)
        for block in self.blocks:
            x = block(x, pad_mask)
        return self.lm_head(self.ln_f(x))


def sites(module: nn.Module) -> list[Site]:
    return [
        Site(f"blocks.{number}.sa.heads.{head}", "decoder", number, head)
        for number in range(N_LAYER)
        for head in range(N_HEAD)
    ]


def make_batch(seed: int) -> dict[str, Tensor]:
    idx = rows(seed)
    return {"idx": idx, "pad_mask": idx != PAD}


def predict(module: nn.Module, batch: Mapping[str, Tensor]) -> Prediction:
    idx, real = batch["idx"], batch["pad_mask"].bool()
    return Prediction(module(**batch)[:, :-1], idx[:, 1:], real[:, 1:])


class Decoding:
    """The whole text again for every token."""

    def start(self, module: nn.Module, batch: Mapping[str, Tensor]) -> tuple[dict, Tensor]:
        state = {"idx": batch["idx"], "real": batch["pad_mask"].bool()}
        return state, last_real(module(state["idx"], state["real"]), state["real"])

    def advance(self, module: nn.Module, state: dict, tokens: Tensor) -> Tensor:
        state["idx"] = torch.cat((state["idx"], tokens.unsqueeze(1)), dim=1)
        one = torch.ones(len(tokens), 1, dtype=torch.bool)
        state["real"] = torch.cat((state["real"], one), dim=1)
        return module(state["idx"], state["real"])[:, -1]

    def reorder(self, state: dict, rows: Tensor) -> None:
        for key, value in state.items():
            state[key] = value[rows]


def _layer(number: int) -> Layer:
    name = f"blocks.{number}"
    return Layer(
        name,
        (f"{name}.ln1", f"{name}.ln2"),
        f"{name}.ffwd.0",
        f"{name}.ffwd.2",
        f"{name}.sa.heads.0.query.weight",
        f"{name}.sa.heads.0.key.weight",
        f"{name}.sa.proj.weight",
    )


HOST = Host(
    name="per-head-decoder",
    kind="hand-written",
    family="decoder",
    make=lambda seed: seeded(seed, LanguageModel),
    make_batch=make_batch,
    sites=sites,
    reroute=reroute_core("btk"),
    predict=predict,
    source="idx",
    mask="pad_mask",
    residual=residual_before_norm("blocks.{}.ln2", "blocks.{}.ffwd"),
    decoding=Decoding(),
    held_out=True,
    anatomy=Anatomy(
        layers=tuple(_layer(number) for number in range(N_LAYER)),
        embedding="token_embedding_table",
        output="lm_head",
        positions=("position_embedding_table",),
    ),
    traits=frozenset(
        {"causal", "padding", "left-padding", "learned-positions", "layer-norm", "relu",
         "dropout-modules", "gpt-init", "one-head-modules"}
    ),
    declared={"family": "decoder"},
)  # fmt: skip

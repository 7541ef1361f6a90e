"""A decoder in the manner of nanoGPT: one fused projection, learned positions, loss in forward."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from benchmarks.faults.host import Anatomy, Batch, Host, Layer, Prediction, Site, seeded
from benchmarks.faults.hosts.seams import reroute_core, residual_before_norm
from benchmarks.faults.hosts.text import LONGEST, PAD, VOCAB_SIZE, rows
from torch import Tensor, nn

WIDTH, NUM_HEADS, NUM_LAYERS, DROPOUT = 32, 4, 2, 0.1


class CausalSelfAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.c_attn = nn.Linear(WIDTH, 3 * WIDTH)
        self.c_proj = nn.Linear(WIDTH, WIDTH)
        self.dropout = nn.Dropout(DROPOUT)
        self.num_heads = NUM_HEADS
        self.scale = 1.0 / math.sqrt(WIDTH // NUM_HEADS)

    def core(self, q: Tensor, k: Tensor, v: Tensor, keep: Tensor | None) -> Tensor:
        dropout = self.dropout.p if self.training else 0.0
        return F.scaled_dot_product_attention(
            q, k, v, attn_mask=keep, dropout_p=dropout, scale=self.scale
        )

    def forward(self, x: Tensor, keep: Tensor, past: list[Tensor] | None) -> Tensor:
        B, T, C = x.shape
        q, k, v = (
            part.view(B, T, self.num_heads, C // self.num_heads).transpose(1, 2)
            for part in self.c_attn(x).split(C, dim=2)
        )
        if past is not None:
            if past:
                k, v = torch.cat((past[0], k), dim=2), torch.cat((past[1], v), dim=2)
            past[:] = [k, v]
        y = self.core(q, k, v, keep)
        return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))


class MLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.c_fc = nn.Linear(WIDTH, 4 * WIDTH)
        self.c_proj = nn.Linear(4 * WIDTH, WIDTH)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(self.c_proj(F.gelu(self.c_fc(x))))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(WIDTH)
        self.attn = CausalSelfAttention()
        self.ln_2 = nn.LayerNorm(WIDTH)
        self.mlp = MLP()

    def forward(self, x: Tensor, keep: Tensor, past: list[Tensor] | None) -> Tensor:
        x = x + self.attn(self.ln_1(x), keep, past)
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    """`documents [B, T]` numbers the documents packed into a row, where there are several."""

    def __init__(self) -> None:
        super().__init__()
        self.wte = nn.Embedding(VOCAB_SIZE, WIDTH)
        self.wpe = nn.Embedding(LONGEST, WIDTH)
        self.drop = nn.Dropout(DROPOUT)
        self.h = nn.ModuleList(Block() for _ in range(NUM_LAYERS))
        self.ln_f = nn.LayerNorm(WIDTH)
        self.lm_head = nn.Linear(WIDTH, VOCAB_SIZE, bias=False)
        self.apply(self._init)
        self.lm_head.weight = self.wte.weight

    def _init(self, module: nn.Module) -> None:
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def mask(self, T: int, S: int, documents: Tensor | None) -> Tensor:
        keep = torch.ones(T, S, dtype=torch.bool).tril(S - T)[None, None]
        if documents is not None:
            keep = keep & (documents.unsqueeze(2) == documents.unsqueeze(1)).unsqueeze(1)
        return keep

    def positions(self, T: int, start: int, documents: Tensor | None) -> Tensor:
        positions = torch.arange(start, start + T)
        if documents is None:
            return positions
        begins = documents != F.pad(documents, (1, 0), value=-1)[:, :-1]
        first = torch.where(begins, positions, 0).cummax(dim=1).values
        return positions - first

    def forward(
        self,
        idx: Tensor,
        targets: Tensor | None = None,
        documents: Tensor | None = None,
        past: list[list[Tensor]] | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        T = idx.shape[1]
        start = past[0][0].shape[2] if past and past[0] else 0
        keep = self.mask(T, start + T, documents)
        x = self.drop(self.wte(idx) + self.wpe(self.positions(T, start, documents)))
        for number, block in enumerate(self.h):
            x = block(x, keep, None if past is None else past[number])
        logits = self.lm_head(self.ln_f(x))
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)


def sites(module: nn.Module) -> list[Site]:
    return [Site(f"h.{number}.attn", "decoder", number) for number in range(NUM_LAYERS)]


def predict(module: nn.Module, batch: Mapping[str, Tensor]) -> Prediction:
    targets = batch["targets"]
    return Prediction(module(**batch)[0], targets.clamp(min=0), targets != -1)


class Decoding:
    """Prompts of several lengths one by one, since the model knows no padding."""

    def start(self, module: nn.Module, batch: Mapping[str, Tensor]) -> tuple[list, Tensor]:
        state, logits = [], []
        for row in batch["idx"]:
            past: list[list[Tensor]] = [[] for _ in range(NUM_LAYERS)]
            logits.append(module(row[row != PAD].unsqueeze(0), past=past)[0][:, -1])
            state.append(past)
        return state, torch.cat(logits)

    def advance(self, module: nn.Module, state: list, tokens: Tensor) -> Tensor:
        rows = zip(tokens, state, strict=True)
        return torch.cat([module(token.view(1, 1), past=past)[0][:, -1] for token, past in rows])

    def reorder(self, state: list, rows: Tensor) -> None:
        state[:] = [[list(layer) for layer in state[row]] for row in rows.tolist()]


def make_batch(seed: int) -> Batch:
    ids = rows(seed)
    targets = torch.full_like(ids, -1)
    targets[:, :-1] = torch.where(ids[:, 1:] == PAD, -1, ids[:, 1:])
    return {"idx": ids, "targets": targets}


def make_packed_batch(seed: int) -> Batch:
    """Two rows, each of two documents without padding."""
    ids = rows(seed, (12, 12, 12, 12))
    targets = torch.full_like(ids, -1)
    targets[:, :-1] = ids[:, 1:]
    documents = torch.zeros(2, 24, dtype=torch.long)
    documents[:, 12:] = 1
    return {"idx": ids.view(2, 24), "targets": targets.view(2, 24), "documents": documents}


def _layer(number: int) -> Layer:
    name = f"h.{number}"
    return Layer(
        name,
        (f"{name}.ln_1", f"{name}.ln_2"),
        f"{name}.mlp.c_fc",
        f"{name}.mlp.c_proj",
        f"{name}.attn.c_attn.weight",
        f"{name}.attn.c_attn.weight",
        f"{name}.attn.c_proj.weight",
        fused=True,
    )


TRAITS = frozenset(
    {"causal", "cache", "tied", "learned-positions", "layer-norm", "dropout-modules", "gpt-init"}
)
HOST = Host(
    name="nano",
    kind="hand-written",
    family="decoder",
    make=lambda seed: seeded(seed, GPT),
    make_batch=make_batch,
    sites=sites,
    reroute=reroute_core("bhtk"),
    predict=predict,
    source="idx",
    residual=residual_before_norm("h.{}.ln_2", "h.{}.mlp"),
    decoding=Decoding(),
    anatomy=Anatomy(
        layers=tuple(_layer(number) for number in range(NUM_LAYERS)),
        embedding="wte",
        output="lm_head",
        positions=("wpe",),
    ),
    traits=TRAITS,
    declared={"family": "decoder"},
)
PACKED = Host(
    name="nano-packed",
    kind="hand-written",
    family="decoder",
    make=HOST.make,
    make_batch=make_packed_batch,
    sites=sites,
    reroute=HOST.reroute,
    predict=predict,
    source="idx",
    anatomy=HOST.anatomy,
    traits=frozenset({"packed"}),
    declared={"family": "decoder", "document_key": "documents"},
)

"""Models on PyTorch's own modules: `nn.Transformer`, and a decoder on `nn.MultiheadAttention`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from benchmarks.faults.host import (
    Anatomy,
    Batch,
    Call,
    Change,
    Host,
    Layer,
    Prediction,
    Site,
    put,
    seeded,
)
from benchmarks.faults.hosts.decoding import last_real
from benchmarks.faults.hosts.seams import keep_to_standard, residual_before_norm
from benchmarks.faults.hosts.text import BOS, LONGEST, PAD, VOCAB_SIZE, rows, swapped
from torch import Tensor, nn

WIDTH, NUM_HEADS, FF, NUM_LAYERS, DROPOUT = 32, 4, 64, 2, 0.1


class OwnMultiheadAttention(nn.Module):
    """`nn.MultiheadAttention` written out (batch first), for those who exchange its attention."""

    def __init__(self, old: nn.MultiheadAttention, change: Change, site: Site) -> None:
        super().__init__()
        self.num_heads, self.head_dim = old.num_heads, old.head_dim
        self.in_proj_weight, self.in_bias = old.in_proj_weight, old.in_proj_bias
        self.out_proj = old.out_proj
        self.dropout = nn.Dropout(old.dropout)
        self.batch_first = True
        self.in_proj_bias = None  # with it, the layer would read our weights past our forward
        self._qkv_same_embed_dim = True
        self.change, self.site = change, site
        self.train(old.training)

    def native(self, call: Call) -> Tensor:
        keep = None if bool(call.keep.all()) else call.keep
        return F.scaled_dot_product_attention(
            call.query, call.key, call.value, keep, call.dropout, scale=call.scale
        )

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = False,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
        average_attn_weights: bool = True,
    ) -> tuple[Tensor, None]:
        weights, biases = self.in_proj_weight.chunk(3), self.in_bias.chunk(3)
        q, k, v = (
            F.linear(x, w, b).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for x, w, b in zip((query, key, value), weights, biases, strict=True)
        )
        shape = (*q.shape[:3], k.shape[2])
        keep = keep_to_standard(None if attn_mask is None else ~hidden(attn_mask), shape)
        if key_padding_mask is not None:
            keep = keep & ~hidden(key_padding_mask)[:, None, None, :]
        dropout = self.dropout.p if self.training else 0.0
        call = Call(q, k, v, keep, None, self.head_dim**-0.5, dropout, self.training, self.site)
        output = self.change(call, self.native)
        return self.out_proj(output.transpose(1, 2).flatten(-2)), None


def hidden(mask: Tensor) -> Tensor:
    """True = hidden; the layers around turn boolean masks into additive ones before they call."""
    return mask if mask.dtype == torch.bool else mask < -1


def reroute(module: nn.Module, site: Site, change: Change) -> None:
    """Put a written-out attention with the same parameters in place of PyTorch's."""
    old: Any = module.get_submodule(site.name)
    if site.role == "encoder":
        module.transformer.encoder.use_nested_tensor = False  # they bypass attention's forward
    if isinstance(old, OwnMultiheadAttention):
        old.change = change
        return
    put(module, site.name, OwnMultiheadAttention(old, change, site))


class Positions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        angle = torch.arange(LONGEST).unsqueeze(1) / 10000 ** (torch.arange(0, WIDTH, 2) / WIDTH)
        table = torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1)
        self.register_buffer("table", table)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.table[: x.shape[1]]


class Seq2Seq(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCAB_SIZE, WIDTH, padding_idx=PAD)
        self.positions = Positions()
        self.dropout = nn.Dropout(DROPOUT)
        self.transformer = nn.Transformer(
            WIDTH, NUM_HEADS, NUM_LAYERS, NUM_LAYERS, FF, DROPOUT, batch_first=True
        )
        self.project = nn.Linear(WIDTH, VOCAB_SIZE)
        with torch.no_grad():
            self.embed.weight.normal_(std=WIDTH**-0.5)[PAD].zero_()

    def embedded(self, ids: Tensor) -> Tensor:
        return self.dropout(self.positions(self.embed(ids) * math.sqrt(WIDTH)))

    def look_ahead(self, T: int) -> Tensor:
        return torch.ones(T, T, dtype=torch.bool).triu(1)

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        memory = self.transformer.encoder(self.embedded(src), src_key_padding_mask=src == PAD)
        return self.decode(memory, src == PAD, tgt)

    def decode(self, memory: Tensor, memory_padding: Tensor, tgt: Tensor) -> Tensor:
        hidden = self.transformer.decoder(
            self.embedded(tgt),
            memory,
            tgt_mask=self.look_ahead(tgt.shape[1]),
            tgt_key_padding_mask=tgt == PAD,
            memory_key_padding_mask=memory_padding,
        )
        return self.project(hidden)


class DecoderBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.attn = nn.MultiheadAttention(WIDTH, NUM_HEADS, DROPOUT, batch_first=True)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.ff = nn.Sequential(nn.Linear(WIDTH, FF), nn.ReLU(), nn.Linear(FF, WIDTH))
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x: Tensor, hidden: Tensor) -> Tensor:
        h = self.norm1(x)
        h, _ = self.attn(h, h, h, attn_mask=hidden, need_weights=False)
        x = x + self.dropout(h)
        return x + self.dropout(self.ff(self.norm2(x)))


class LanguageModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCAB_SIZE, WIDTH)
        self.places = nn.Embedding(LONGEST, WIDTH)
        self.blocks = nn.ModuleList(DecoderBlock() for _ in range(NUM_LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCAB_SIZE, bias=False)
        for table in (self.tokens, self.places, self.head):
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, ids: Tensor) -> Tensor:
        T, real = ids.shape[1], ids != PAD
        # Left padding does not count as a position.
        places = (real.cumsum(1) - 1).clamp(min=0)
        x = self.tokens(ids) + self.places(places)
        # Every token sees itself, be it padding: PyTorch gives NaN to rows that see nothing.
        seen = (torch.ones(T, T, dtype=torch.bool).tril() & real.unsqueeze(1)) | torch.eye(T).bool()
        hidden = (~seen).repeat_interleave(NUM_HEADS, dim=0)  # [B * H, T, T]
        for block in self.blocks:
            x = block(x, hidden)
        return self.head(self.norm(x))


def seq2seq_sites(module: nn.Module) -> list[Site]:
    found = []
    for number in range(NUM_LAYERS):
        stem = "transformer.{}.layers." + str(number)
        found.append(Site(f"{stem.format('encoder')}.self_attn", "encoder", number))
        found.append(Site(f"{stem.format('decoder')}.self_attn", "decoder", number))
        found.append(Site(f"{stem.format('decoder')}.multihead_attn", "cross", number))
    return found


def lm_sites(module: nn.Module) -> list[Site]:
    return [Site(f"blocks.{number}.attn", "decoder", number) for number in range(NUM_LAYERS)]


def make_pair(seed: int) -> Batch:
    src = rows(seed, first=False)
    return {"src": src, "tgt": torch.cat((torch.full((len(src), 1), BOS), swapped(src)), dim=1)}


def predict_pair(module: nn.Module, batch: Mapping[str, Tensor]) -> Prediction:
    tgt = batch["tgt"]
    return Prediction(module(**batch)[:, :-1], tgt[:, 1:], tgt[:, 1:] != PAD)


def predict_next(module: nn.Module, batch: Mapping[str, Tensor]) -> Prediction:
    ids = batch["ids"]
    return Prediction(module(ids)[:, :-1], ids[:, 1:], ids[:, 1:] != PAD)


class Seq2SeqDecoding:
    """The encoder once; without a cache in the decoder."""

    def start(self, module: Any, batch: Mapping[str, Tensor]) -> tuple[dict, Tensor]:
        src = batch["src"]
        memory = module.transformer.encoder(module.embedded(src), src_key_padding_mask=src == PAD)
        state = {"memory": memory, "padding": src == PAD, "tgt": src.new_empty(len(src), 0)}
        return state, self.advance(module, state, src.new_full((len(src),), BOS))

    def advance(self, module: Any, state: dict, tokens: Tensor) -> Tensor:
        state["tgt"] = torch.cat((state["tgt"], tokens.unsqueeze(1)), dim=1)
        return module.decode(state["memory"], state["padding"], state["tgt"])[:, -1]

    def reorder(self, state: dict, rows: Tensor) -> None:
        for key, value in state.items():
            state[key] = value[rows]


class LanguageModelDecoding:
    """The whole text again for every token."""

    def start(self, module: nn.Module, batch: Mapping[str, Tensor]) -> tuple[dict, Tensor]:
        ids = batch["ids"]
        real = ids != PAD
        # Left-align everything, then new tokens follow the texts directly.
        width = int(real.sum(1).max())
        packed = ids.new_full((len(ids), width), PAD)
        for row, (text, keep) in enumerate(zip(ids, real, strict=True)):
            packed[row, width - int(keep.sum()) :] = text[keep]
        state = {"ids": packed}
        return state, last_real(module(packed), packed != PAD)

    def advance(self, module: nn.Module, state: dict, tokens: Tensor) -> Tensor:
        state["ids"] = torch.cat((state["ids"], tokens.unsqueeze(1)), dim=1)
        return module(state["ids"])[:, -1]

    def reorder(self, state: dict, rows: Tensor) -> None:
        state["ids"] = state["ids"][rows]


def _torch_layer(stack: str, number: int, num_norms: int) -> Layer:
    name = f"transformer.{stack}.layers.{number}"
    return Layer(
        name,
        tuple(f"{name}.norm{norm + 1}" for norm in range(num_norms)),
        f"{name}.linear1",
        f"{name}.linear2",
        f"{name}.self_attn.in_proj_weight",
        f"{name}.self_attn.in_proj_weight",
        f"{name}.self_attn.out_proj.weight",
        fused=True,
    )


def _block(number: int) -> Layer:
    name = f"blocks.{number}"
    return Layer(
        name,
        (f"{name}.norm1", f"{name}.norm2"),
        f"{name}.ff.0",
        f"{name}.ff.2",
        f"{name}.attn.in_proj_weight",
        f"{name}.attn.in_proj_weight",
        f"{name}.attn.out_proj.weight",
        fused=True,
    )


SEQ2SEQ = Host(
    name="torch-seq2seq",
    kind="hand-written",
    family="encoder_decoder",
    make=lambda seed: seeded(seed, Seq2Seq),
    make_batch=make_pair,
    sites=seq2seq_sites,
    reroute=reroute,
    predict=predict_pair,
    source="src",
    target="tgt",
    sharp=(1.5, 2.0, 2.0),
    decoding=Seq2SeqDecoding(),
    anatomy=Anatomy(
        layers=tuple(_torch_layer("decoder", number, 3) for number in range(NUM_LAYERS)),
        encoder_layers=tuple(_torch_layer("encoder", number, 2) for number in range(NUM_LAYERS)),
        embedding="embed",
        output="project",
        positions=("positions",),
    ),
    traits=frozenset(
        {"causal", "padding", "cross", "scaled-embedding", "sinusoidal", "adds-positions",
         "layer-norm", "post-norm", "relu", "dropout-modules"}
    ),
    declared={"family": "encoder_decoder"},
)  # fmt: skip

DECODER = Host(
    name="torch-mha-decoder",
    kind="hand-written",
    family="decoder",
    make=lambda seed: seeded(seed, LanguageModel),
    make_batch=lambda seed: {"ids": rows(seed)},
    sites=lm_sites,
    reroute=reroute,
    predict=predict_next,
    residual=residual_before_norm("blocks.{}.norm2", "blocks.{}.ff"),
    decoding=LanguageModelDecoding(),
    anatomy=Anatomy(
        layers=tuple(_block(number) for number in range(NUM_LAYERS)),
        embedding="tokens",
        output="head",
        positions=("places",),
    ),
    traits=frozenset(
        {"causal", "padding", "left-padding", "learned-positions", "layer-norm", "relu",
         "dropout-modules"}
    ),
    declared={"family": "decoder"},
)  # fmt: skip

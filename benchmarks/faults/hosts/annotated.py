"""An encoder-decoder in the manner of the Annotated Transformer: small classes, masks as inputs.

Its known deviations from the paper are mended here, so that it is a clean host: LayerNorm with the
biased variance and eps inside the root, tied tables, a mask constant that fits the dtype.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F
from benchmarks.faults.host import Anatomy, Batch, Host, Layer, Prediction, Site, seeded
from benchmarks.faults.hosts.seams import reroute_core, residual_before_norm
from benchmarks.faults.hosts.text import BOS, LONGEST, PAD, VOCAB_SIZE, rows, swapped
from torch import Tensor, nn

D_MODEL, NUM_HEADS, D_FF, NUM_LAYERS, DROPOUT = 32, 4, 64, 2, 0.1


class LayerNorm(nn.Module):
    def __init__(self, features: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(features))
        self.shift = nn.Parameter(torch.zeros(features))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean(-1, keepdim=True)
        variance = x.var(-1, keepdim=True, unbiased=False)
        return self.gain * (x - mean) / torch.sqrt(variance + self.eps) + self.shift


class MultiHeadedAttention(nn.Module):
    def __init__(self, num_heads: int, d_model: int) -> None:
        super().__init__()
        self.num_heads, self.d_k = num_heads, d_model // num_heads
        self.scale = 1 / math.sqrt(self.d_k)
        self.linears = nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(4))
        self.dropout = nn.Dropout(DROPOUT)

    def core(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        scores = torch.matmul(query, key.transpose(-2, -1)) * self.scale
        if mask is not None:
            scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        return torch.matmul(self.dropout(F.softmax(scores, dim=-1)), value)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        batch = query.size(0)
        mask = None if mask is None else mask.unsqueeze(1)
        heads = [
            linear(x).view(batch, -1, self.num_heads, self.d_k).transpose(1, 2)
            for linear, x in zip(self.linears, (query, key, value), strict=False)
        ]
        x = self.core(*heads, mask)
        return self.linears[-1](x.transpose(1, 2).reshape(batch, -1, self.num_heads * self.d_k))


class FeedForward(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w_1 = nn.Linear(D_MODEL, D_FF)
        self.w_2 = nn.Linear(D_FF, D_MODEL)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x: Tensor) -> Tensor:
        return self.w_2(self.dropout(F.relu(self.w_1(x))))


class SublayerConnection(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = LayerNorm(D_MODEL)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        return x + self.dropout(sublayer(self.norm(x)))


class EncoderLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.self_attn = MultiHeadedAttention(NUM_HEADS, D_MODEL)
        self.feed_forward = FeedForward()
        self.sublayer = nn.ModuleList(SublayerConnection() for _ in range(2))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.sublayer[0](x, lambda x: self.self_attn(x, x, x, mask))
        return self.sublayer[1](x, self.feed_forward)


class DecoderLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.self_attn = MultiHeadedAttention(NUM_HEADS, D_MODEL)
        self.src_attn = MultiHeadedAttention(NUM_HEADS, D_MODEL)
        self.feed_forward = FeedForward()
        self.sublayer = nn.ModuleList(SublayerConnection() for _ in range(3))

    def forward(self, x: Tensor, memory: Tensor, src_mask: Tensor, tgt_mask: Tensor) -> Tensor:
        x = self.sublayer[0](x, lambda x: self.self_attn(x, x, x, tgt_mask))
        x = self.sublayer[1](x, lambda x: self.src_attn(x, memory, memory, src_mask))
        return self.sublayer[2](x, self.feed_forward)


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(copy.deepcopy(EncoderLayer()) for _ in range(NUM_LAYERS))
        self.norm = LayerNorm(D_MODEL)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(copy.deepcopy(DecoderLayer()) for _ in range(NUM_LAYERS))
        self.norm = LayerNorm(D_MODEL)

    def forward(self, x: Tensor, memory: Tensor, src_mask: Tensor, tgt_mask: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x, memory, src_mask, tgt_mask)
        return self.norm(x)


class Embeddings(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lut = nn.Embedding(VOCAB_SIZE, D_MODEL)

    def forward(self, x: Tensor) -> Tensor:
        return self.lut(x) * math.sqrt(D_MODEL)


class PositionalEncoding(nn.Module):
    def __init__(self, max_len: int = LONGEST) -> None:
        super().__init__()
        self.dropout = nn.Dropout(DROPOUT)
        position = torch.arange(max_len).unsqueeze(1)
        rate = torch.exp(torch.arange(0, D_MODEL, 2) * -(math.log(10000.0) / D_MODEL))
        pe = torch.zeros(1, max_len, D_MODEL)
        pe[0, :, 0::2] = torch.sin(position * rate)
        pe[0, :, 1::2] = torch.cos(position * rate)
        self.register_buffer("pe", pe)

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(x + self.pe[:, : x.size(1)])


class EncoderDecoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = Encoder(), Decoder()
        self.src_embed = nn.Sequential(Embeddings(), PositionalEncoding())
        self.tgt_embed = nn.Sequential(Embeddings(), PositionalEncoding())
        self.generator = nn.Linear(D_MODEL, VOCAB_SIZE, bias=False)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)
        for embed in (self.src_embed, self.tgt_embed):
            nn.init.normal_(embed[0].lut.weight, std=D_MODEL**-0.5)
        self.generator.weight = self.tgt_embed[0].lut.weight

    def forward(self, src: Tensor, tgt: Tensor, src_mask: Tensor, tgt_mask: Tensor) -> Tensor:
        memory = self.encoder(self.src_embed(src), src_mask)
        hidden = self.decoder(self.tgt_embed(tgt), memory, src_mask, tgt_mask)
        return self.generator(hidden)


def sites(module: nn.Module) -> list[Site]:
    found = []
    for number in range(NUM_LAYERS):
        found.append(Site(f"encoder.layers.{number}.self_attn", "encoder", number))
        found.append(Site(f"decoder.layers.{number}.self_attn", "decoder", number))
        found.append(Site(f"decoder.layers.{number}.src_attn", "cross", number))
    return found


def make_batch(seed: int) -> Batch:
    src = rows(seed, first=False)
    tgt = torch.cat((torch.full((src.shape[0], 1), BOS), swapped(src)), dim=1)
    T = tgt.shape[1]
    subsequent = torch.ones(T, T).tril().bool()
    return {
        "src": src,
        "tgt": tgt,
        "src_mask": (src != PAD).unsqueeze(1),
        "tgt_mask": (tgt != PAD).unsqueeze(1) & subsequent,
    }


def predict(module: nn.Module, batch: Mapping[str, Tensor]) -> Prediction:
    tgt = batch["tgt"]
    return Prediction(module(**batch)[:, :-1], tgt[:, 1:], tgt[:, 1:] != PAD)


class Decoding:
    """Without a cache, as the original decodes: the whole target again for every token."""

    def start(self, module: nn.Module, batch: Mapping[str, Tensor]) -> tuple[dict, Tensor]:
        src, mask = batch["src"], batch["src_mask"]
        state = {
            "memory": module.encoder(module.src_embed(src), mask),
            "mask": mask,
            "tgt": src.new_empty(len(src), 0),
        }
        return state, self.advance(module, state, src.new_full((len(src),), BOS))

    def advance(self, module: nn.Module, state: dict, tokens: Tensor) -> Tensor:
        tgt = state["tgt"] = torch.cat((state["tgt"], tokens.unsqueeze(1)), dim=1)
        subsequent = torch.ones(1, tgt.shape[1], tgt.shape[1]).tril().bool()
        hidden = module.decoder(module.tgt_embed(tgt), state["memory"], state["mask"], subsequent)
        return module.generator(hidden[:, -1])

    def reorder(self, state: dict, rows: Tensor) -> None:
        for key, value in state.items():
            state[key] = value[rows]


def _layer(stack: str, number: int, num_norms: int) -> Layer:
    name = f"{stack}.layers.{number}"
    linears = f"{name}.self_attn.linears"
    return Layer(
        name,
        tuple(f"{name}.sublayer.{norm}.norm" for norm in range(num_norms)),
        f"{name}.feed_forward.w_1",
        f"{name}.feed_forward.w_2",
        f"{linears}.0.weight",
        f"{linears}.1.weight",
        f"{linears}.3.weight",
    )


HOST = Host(
    name="annotated",
    kind="hand-written",
    family="encoder_decoder",
    make=lambda seed: seeded(seed, EncoderDecoder),
    make_batch=make_batch,
    sites=sites,
    reroute=reroute_core("bhtk"),
    predict=predict,
    source="src",
    target="tgt",
    sharp=(0.5, 2.0, 2.0),
    mask="src_mask",
    residual=residual_before_norm(
        "decoder.layers.{}.sublayer.2.norm", "decoder.layers.{}.feed_forward"
    ),
    decoding=Decoding(),
    anatomy=Anatomy(
        layers=tuple(_layer("decoder", number, 3) for number in range(NUM_LAYERS)),
        encoder_layers=tuple(_layer("encoder", number, 2) for number in range(NUM_LAYERS)),
        embedding="src_embed.0.lut",
        output="generator",
        positions=("src_embed.1", "tgt_embed.1"),
    ),
    traits=frozenset(
        {"causal", "padding", "cross", "tied", "scaled-embedding", "sinusoidal",
         "adds-positions", "layer-norm", "relu", "dropout-modules"}
    ),
    declared={"family": "encoder_decoder"},
)  # fmt: skip

"""A decoder written with functions over a dictionary of parameters: rotary, RMS, gated, cached."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from benchmarks.faults.host import Anatomy, Host, Layer, Prediction, Site, seeded
from benchmarks.faults.hosts.decoding import last_real
from benchmarks.faults.hosts.seams import reroute_core
from benchmarks.faults.hosts.text import PAD, VOCAB_SIZE, rows
from torch import Tensor, nn

WIDTH, HEADS, HIDDEN, NUM_LAYERS = 32, 4, 64, 2
K = WIDTH // HEADS


def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight


def swiglu(x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
    return F.linear(F.silu(F.linear(x, gate)) * F.linear(x, up), down)


def rotate(x: Tensor, angle: Tensor) -> Tensor:
    """Neighbouring coordinates of `[B, H, T, K]` turned as complex numbers by `[B, 1, T, K/2]`."""
    pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)).contiguous())
    turned = torch.view_as_real(pairs * torch.polar(torch.ones_like(angle), angle))
    return turned.flatten(-2).to(x.dtype)


def rotate_halves(x: Tensor, angle: Tensor) -> Tensor:
    """The other convention: coordinate i with coordinate i + K/2, as neighbours' angles."""
    cos, sin = (w.repeat_interleave(2, dim=-1) for w in (angle.cos(), angle.sin()))
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


def angles(positions: Tensor, rates: Tensor) -> Tensor:
    return positions[..., None] * rates


class Block(nn.Module):
    """Holds one layer's parameters and its functions."""

    def __init__(self) -> None:
        super().__init__()
        shapes = {
            "norm_1": (WIDTH,),
            "wq": (WIDTH, WIDTH),
            "wk": (WIDTH, WIDTH),
            "wv": (WIDTH, WIDTH),
            "wo": (WIDTH, WIDTH),
            "norm_2": (WIDTH,),
            "w_gate": (HIDDEN, WIDTH),
            "w_up": (HIDDEN, WIDTH),
            "w_down": (WIDTH, HIDDEN),
        }
        self.params = nn.ParameterDict(
            {
                name: nn.Parameter(
                    torch.ones(shape) if len(shape) == 1 else torch.randn(shape) * 0.05
                )
                for name, shape in shapes.items()
            }
        )
        self.turn = rotate
        self.angles = angles
        self.num_heads = HEADS
        self.scale = K**-0.5
        self.dropout = nn.Dropout(0.1)

    def core(self, q: Tensor, k: Tensor, v: Tensor, keep: Tensor | None) -> Tensor:
        scores = (q @ k.mT) * self.scale
        if keep is not None:
            scores = scores + torch.where(keep, 0.0, -torch.inf)
        # Softmax by hand, safe for rows without a key to see.
        peak = scores.amax(-1, keepdim=True).clamp(min=torch.finfo(scores.dtype).min)
        weights = (scores - peak).exp()
        weights = weights / weights.sum(-1, keepdim=True).clamp(min=1e-9)
        return self.dropout(weights) @ v

    def forward(self, x: Tensor, positions: Tensor, keep: Tensor, past: dict | None) -> Tensor:
        p = self.params
        h = rms_norm(x, p["norm_1"])
        q, k, v = (
            F.linear(h, p[name]).unflatten(-1, (HEADS, K)).transpose(1, 2)
            for name in ("wq", "wk", "wv")
        )
        rates = 10000.0 ** (-torch.arange(0, K, 2) / K)
        angle = self.angles(positions, rates).unsqueeze(1)
        q, k = self.turn(q, angle), self.turn(k, angle)
        if past is not None:
            if past:
                k, v = torch.cat((past["k"], k), dim=2), torch.cat((past["v"], v), dim=2)
            past.update(k=k, v=v)
        context = self.core(q, k, v, keep).transpose(1, 2).flatten(2)
        x = x + F.linear(context, p["wo"])
        return x + swiglu(rms_norm(x, p["norm_2"]), p["w_gate"], p["w_up"], p["w_down"])


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(VOCAB_SIZE, WIDTH) * 0.02)
        self.blocks = nn.ModuleList(Block() for _ in range(NUM_LAYERS))
        self.norm = nn.Parameter(torch.ones(WIDTH))
        self.unembed = nn.Parameter(torch.randn(VOCAB_SIZE, WIDTH) * 0.02)

    def forward(self, x: Tensor, real: Tensor | None = None, past: list | None = None) -> Tensor:
        """`x [B, T]` ids; `real [B, S]` over cached and new tokens."""
        T = x.shape[1]
        start = past[0]["k"].shape[2] if past and past[0] else 0
        if real is None:
            real = torch.ones(x.shape[0], start + T, dtype=torch.bool)
        positions = (real.cumsum(1) - 1).clamp(min=0)[:, -T:]
        keep = torch.ones(T, start + T, dtype=torch.bool).tril(start) & real[:, None, None, :]
        h = F.embedding(x, self.table)
        for number, block in enumerate(self.blocks):
            h = block(h, positions, keep, None if past is None else past[number])
        return F.linear(rms_norm(h, self.norm), self.unembed)


def exchange_rotation(module: nn.Module, exchanged: Any, mixed: bool) -> None:
    for block in module.blocks:
        block.angles = exchanged
        block.turn = rotate_halves if mixed else rotate


def sites(module: nn.Module) -> list[Site]:
    return [Site(f"blocks.{number}", "decoder", number) for number in range(NUM_LAYERS)]


def make_batch(seed: int) -> dict[str, Tensor]:
    x = rows(seed)
    return {"x": x, "real": x != PAD}


def predict(module: nn.Module, batch: Mapping[str, Tensor]) -> Prediction:
    x, real = batch["x"], batch["real"].bool()
    return Prediction(module(**batch)[:, :-1], x[:, 1:], real[:, 1:])


class Decoding:
    """With a cache; padding of the prompt is masked and not counted."""

    def start(self, module: nn.Module, batch: Mapping[str, Tensor]) -> tuple[dict, Tensor]:
        real = batch["real"].bool()
        state = {"past": [{} for _ in range(NUM_LAYERS)], "real": real}
        return state, last_real(module(batch["x"], real, state["past"]), real)

    def advance(self, module: nn.Module, state: dict, tokens: Tensor) -> Tensor:
        one = torch.ones(len(tokens), 1, dtype=torch.bool)
        state["real"] = torch.cat((state["real"], one), dim=1)
        return module(tokens.unsqueeze(1), state["real"], state["past"])[:, -1]

    def reorder(self, state: dict, rows: Tensor) -> None:
        state["past"] = [{name: x[rows] for name, x in past.items()} for past in state["past"]]
        state["real"] = state["real"][rows]


def _layer(number: int) -> Layer:
    name = f"blocks.{number}"
    stem = f"{name}.params"
    return Layer(name, (), "", "", f"{stem}.wq", f"{stem}.wk", f"{stem}.wo")


HOST = Host(
    name="functional-decoder",
    kind="hand-written",
    family="decoder",
    make=lambda seed: seeded(seed, Model),
    make_batch=make_batch,
    sites=sites,
    reroute=reroute_core("bhtk"),
    predict=predict,
    source="x",
    mask="real",
    decoding=Decoding(),
    rotate=exchange_rotation,
    held_out=True,
    anatomy=Anatomy(
        layers=tuple(_layer(number) for number in range(NUM_LAYERS)),
        embedding="table",
        output="unembed",
    ),
    traits=frozenset(
        {"causal", "padding", "left-padding", "cache", "rope", "zero-row", "gpt-init", "functions"}
    ),
    declared={"family": "decoder"},
)

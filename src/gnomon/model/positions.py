"""Where a token stands: the kinds of position, and those that are added to the embeddings."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gnomon.errors import ModelError
from gnomon.model.rope import RopeConfig
from gnomon.model.score_bias import RelativeConfig


@dataclass(frozen=True, kw_only=True)
class PositionConfig:
    """How the model knows the order of its tokens."""

    # sinusoidal and learned are added to the embeddings; rope turns queries and keys; alibi and
    # relative (T5's buckets) are added to the self-attention scores
    kind: Literal["sinusoidal", "learned", "rope", "alibi", "relative", "none"] = "sinusoidal"
    # longest text in tokens; the size of the learned table, without effect on the other kinds
    max_length: int = 512
    # learned: rows of the table before that of the first token (RoBERTa and BART have 2, unused)
    offset: int = 0
    # sinusoidal: sine and cosine alternate (the 2017 paper) or fill a half each (Marian, fairseq)
    layout: Literal["interleaved", "halves"] = "interleaved"
    rope: RopeConfig = field(default_factory=RopeConfig)
    relative: RelativeConfig = field(default_factory=RelativeConfig)


# Sinusoids further out are computed anew each time; in tokens.
LONGEST_TABLE = 1 << 14


class SinusoidalPosition(nn.Module):
    """PE(pos, 2i) = sin(pos / 10000^(2i/D)), PE(pos, 2i+1) = cos of the same (Vaswani, §3.5)."""

    def __init__(self, d_model: int, layout: Literal["interleaved", "halves"]) -> None:
        super().__init__()
        self.d_model = d_model
        self.layout = layout

    def forward(self, positions: Tensor, largest: int) -> Tensor:
        """fp32 `[..., D]` at `positions [...]`, of which `largest` is an upper bound."""
        if torch.compiler.is_compiling() or largest >= LONGEST_TABLE:
            return sinusoids(positions, self.d_model, self.layout)
        # Modules hold no table: nothing to lose on the way through a meta device, nothing that
        # `.to(bfloat16)` could round.
        length = 1 << max(largest, 127).bit_length()
        return sinusoidal_table(length, self.d_model, self.layout, positions.device)[positions]


def sinusoids(positions: Tensor, d_model: int, layout: str) -> Tensor:
    """Sines and cosines of `positions [...]`, fp32 `[..., D]`, phases computed in float64."""
    evens = torch.arange(0, d_model, 2, dtype=torch.float64, device=positions.device)
    phases = positions[..., None] * 10_000.0 ** (-evens / d_model)
    waves = (phases.sin(), phases.cos())
    if layout == "halves":
        return torch.cat(waves, dim=-1).float()
    return torch.stack(waves, dim=-1).flatten(-2).float()


@lru_cache(maxsize=16)
def sinusoidal_table(length: int, d_model: int, layout: str, device: torch.device) -> Tensor:
    """`sinusoids` of the positions 0 … length - 1, kept for the next forward."""
    return sinusoids(torch.arange(length), d_model, layout).to(device)


class LearnedPosition(nn.Module):
    """A trained vector per position, up to a fixed length."""

    def __init__(self, d_model: int, max_length: int, offset: int = 0) -> None:
        super().__init__()
        self.offset = offset
        self.weight = nn.Parameter(torch.empty(max_length + offset, d_model))

    def forward(self, positions: Tensor, largest: int) -> Tensor:
        """`[..., D]` at `positions [...]`; raises `ModelError` past the end of the table."""
        length = self.weight.shape[0] - self.offset
        if largest >= length:
            raise ModelError(
                f"Learned positions end after {length} tokens.",
                seen=f"a text of {largest + 1} tokens",
                mend="shorten the text (training: data.max_length), or train with a larger "
                "model.position.max_length, or with sinusoidal or rope positions.",
            )
        return F.embedding(positions + self.offset if self.offset else positions, self.weight)

    @torch.no_grad()
    def initialise(self) -> None:
        """Normal with standard deviation D^-0.5, like the token embeddings."""
        nn.init.normal_(self.weight, std=1.0 / math.sqrt(self.weight.shape[1]))


def build_position(config: PositionConfig, d_model: int) -> nn.Module | None:
    """The module whose vectors are added to the embeddings, or None for the other kinds."""
    if config.kind == "sinusoidal":
        return SinusoidalPosition(d_model, config.layout)
    if config.kind == "learned":
        return LearnedPosition(d_model, config.max_length, config.offset)
    return None

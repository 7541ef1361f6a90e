"""Low-rank adaptation: a projection's weights stay, and a product of two thin matrices is learned.

W x + α/r · B A x, with A [r, D_in] and B [D_out, r] (Hu et al. 2021, arXiv 2106.09685, §4.1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gnomon.model.attention import CrossAttention, SelfAttention
from gnomon.model.feedforward import FeedForward
from gnomon.model.linear import FusedLinear

Target = Literal["attention", "feedforward"]


@dataclass(frozen=True, kw_only=True)
class LoraConfig:
    """Which projections get a low-rank addition, and of what size."""

    # r; 0: none
    rank: int = 0
    # α: the addition is scaled by α / r, so that another rank needs no other learning rate
    alpha: float = 16.0
    # all projections of attention, of feed-forward layers, or of both
    targets: tuple[Target, ...] = ("attention",)

    def problems(self) -> list[str]:
        """Everything that cannot work, one sentence each with the value seen and the mend."""
        found = []
        if self.rank < 0:
            found.append(f"lora.rank must be 0 or more, seen {self.rank}")
        if not 0 < self.alpha < math.inf:
            found.append(f"lora.alpha must be a number above 0, seen {self.alpha}")
        if not self.targets or len(set(self.targets)) < len(self.targets):
            found.append(f"lora.targets must name each kind once, seen {list(self.targets)}")
        return found

    def unused(self) -> list[str]:
        """Keys that the others leave without effect."""
        default = LoraConfig()
        if self.rank == 0 and (self.alpha, self.targets) != (default.alpha, default.targets):
            return ["lora.alpha and lora.targets have no effect: lora.rank is 0"]
        return []


class LowRank(nn.Module):
    """The addition to one projection; each of its parts (query, key, value) has its own A and B."""

    def __init__(self, projection: FusedLinear, config: LoraConfig) -> None:
        super().__init__()
        self.sizes = projection.sizes
        self.rank = config.rank
        self.scale = config.alpha / config.rank
        width, weight = projection.weight.shape[1], projection.weight
        self.down = nn.Parameter(weight.new_empty(len(self.sizes) * self.rank, width))
        self.up = nn.Parameter(weight.new_empty(sum(self.sizes), self.rank))
        self.initialise()

    @torch.no_grad()
    def initialise(self) -> None:
        """A as any projection, B zero: at first nothing is added."""
        nn.init.kaiming_uniform_(self.down, a=math.sqrt(5))
        nn.init.zeros_(self.up)

    def forward(self, x: Tensor) -> Tensor:
        """Map `[..., width]` to `[..., sum(sizes)]`."""
        thin = torch.split(F.linear(x, self.down), self.rank, dim=-1)
        parts = [
            F.linear(part, up)
            for part, up in zip(thin, torch.split(self.up, list(self.sizes)), strict=True)
        ]
        return torch.cat(parts, dim=-1) * self.scale

    def delta(self) -> Tensor:
        """What it adds to the projection's weight `[sum(sizes), width]`."""
        downs, ups = torch.split(self.down, self.rank), torch.split(self.up, list(self.sizes))
        return torch.cat([up @ down for up, down in zip(ups, downs, strict=True)]) * self.scale


def add_lora(module: nn.Module, config: LoraConfig) -> None:
    """Give the chosen projections inside `module` a low-rank addition; none where the rank is 0."""
    if config.rank == 0:
        return
    for projection in _projections(module, config.targets):
        projection.low_rank = LowRank(projection, config)


@torch.no_grad()
def merge_lora(module: nn.Module) -> None:
    """Put all low-rank additions into the weights that they are added to."""
    for projection in module.modules():
        if isinstance(projection, FusedLinear) and projection.low_rank is not None:
            assert isinstance(projection.low_rank, LowRank), "nothing else is put there"
            projection.weight.add_(projection.low_rank.delta())
            projection.low_rank = None


def _projections(module: nn.Module, targets: tuple[Target, ...]) -> list[FusedLinear]:
    kinds: list[type[nn.Module]] = []
    kinds += [SelfAttention, CrossAttention] if "attention" in targets else []
    kinds += [FeedForward] if "feedforward" in targets else []
    return [
        child
        for each in module.modules()
        if isinstance(each, tuple(kinds))
        for child in each.children()
        if isinstance(child, FusedLinear)
    ]

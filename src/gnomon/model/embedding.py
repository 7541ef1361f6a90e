"""From token ids to the first hidden states, and who shares a table with whom."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gnomon.model.dropout import dropout
from gnomon.model.norm import NormConfig, build_norm
from gnomon.model.positions import PositionConfig, build_position

Tie = Literal["none", "decoder", "inputs", "all"]


@dataclass(frozen=True, kw_only=True)
class EmbeddingConfig:
    """What happens to token vectors before the first layer."""

    # multiply token vectors by sqrt(d_model) before positions are added (2017 paper, Marian)
    scale: bool = True
    # normalise the sum of token, position and segment vectors (BERT)
    norm: bool = False
    # how many segments (BERT's token types) have a vector of their own; 0: none
    num_segments: int = 0
    # on the sum; None: the model's dropout
    dropout: float | None = None
    # the table's gradient holds only the batch's rows; for large untied tables
    sparse_gradient: bool = False


def table_owners(tie: Tie, roles: tuple[str, ...]) -> dict[str, str]:
    """Which role's table each of `roles` (source, target, output) uses.

    Tied tables are not kept equal: there is one table with several uses, which nothing can
    part: no saving, no loading, no move between devices.
    """
    owners = {role: role for role in roles}
    if tie == "all":
        owners = dict.fromkeys(roles, roles[0])
    elif tie == "decoder" and "output" in owners and "target" in owners:
        owners["output"] = "target"
    elif tie == "inputs" and "source" in owners and "target" in owners:
        owners["target"] = "source"
    return owners


class Embedding(nn.Module):
    """Token + position + segment vectors, scaled, normalised and dropped out as configured.

    The token table is the caller's, since other parts of the model may share it.
    """

    def __init__(
        self,
        config: EmbeddingConfig,
        position: PositionConfig,
        norm: NormConfig,
        d_model: int,
        model_dropout: float,
    ) -> None:
        super().__init__()
        self.scale = math.sqrt(d_model) if config.scale else 1.0
        self.sparse_gradient = config.sparse_gradient
        self.dropout = model_dropout if config.dropout is None else config.dropout
        self.position = build_position(position, d_model)
        self.norm = build_norm(norm, d_model) if config.norm else None
        self.segments = (
            nn.Parameter(torch.empty(config.num_segments, d_model)) if config.num_segments else None
        )

    def forward(
        self, ids: Tensor, table: Tensor, positions: Tensor, largest: int, segments: Tensor | None
    ) -> Tensor:
        """Hidden states `[B, L, D]`.

        Args:
            ids: int64 `[B, L]`.
            table: `[V, D]`.
            positions: int64 `[L]` or `[B, L]`.
            largest: upper bound of `positions`, known without asking the device.
            segments: int64 `[B, L]`; None: all in segment 0.
        """
        x = F.embedding(ids, table, sparse=self.sparse_gradient)
        if self.scale != 1.0:
            x = x * self.scale
        if self.position is not None:
            x = x + self.position(positions, largest).to(x.dtype)
        if self.segments is not None:
            segments = torch.zeros_like(ids) if segments is None else segments
            x = x + F.embedding(segments, self.segments)
        if self.norm is not None:
            x = self.norm(x)
        return dropout(x, self.dropout, self.training)

    @torch.no_grad()
    def initialise(self) -> None:
        """Segment vectors, normal with standard deviation D^-0.5 like the tokens'."""
        if self.segments is not None:
            nn.init.normal_(self.segments, std=self.segments.shape[1] ** -0.5)

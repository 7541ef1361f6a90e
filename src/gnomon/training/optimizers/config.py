"""The [optimizer] table of a recipe."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, Literal

import torch

OptimizerName = Literal["adamw", "adafactor", "muon", "schedule_free", "lion"]

_FIELDS_OF_NAME: dict[OptimizerName, set[str]] = {
    "adamw": {"betas", "eps"},
    "adafactor": set(),
    "muon": {"betas", "eps", "momentum"},
    "schedule_free": {"betas", "eps"},
    "lion": {"betas"},
}


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig:
    """Which rule moves the weights, and what holds for each of them.

    - adamw (Loshchilov & Hutter 2019); with weight_decay 0 it is Adam, as in Vaswani et al. 2017.
    - adafactor (Shazeer & Stern 2018): second moments as a row and a column, no first moments.
    - muon (Jordan 2024): updates of the layers' matrices are made orthogonal; AdamW for the rest.
    - schedule_free (Defazio et al. 2024): AdamW whose weights are averaged as it goes, so that the
      learning rate need not fall.
    - lion (Chen et al. 2023): the sign of a momentum; no second moments.

    Weight decay reaches matrices only: on norms and biases it shrinks what has no reason to be
    small, and on embeddings it fades rare words, whose rows the gradient seldom refreshes.
    """

    # The rule. A usual learning rate of each: docs/how-to/optimizers.md.
    name: OptimizerName = "adamw"
    # Memory of the first and second moments (lion: of the step and of the momentum; 0.9 and 0.99
    # are usual there); of every rule but adafactor.
    betas: tuple[float, float] = (0.9, 0.98)
    # Added to the root of the second moment; of adamw (also within muon) and schedule_free.
    eps: float = 1e-9
    # Number format of adamw's moments; 8bit, blockwise scaled, is torchao's and for GPUs.
    states: Literal["fp32", "8bit"] = "fp32"
    # Memory of muon's momentum.
    momentum: float = 0.95
    # Share of a matrix that a step of learning rate 1 would take away.
    weight_decay: float = 0.0
    # Whether embeddings (and an output projection tied to them) decay as matrices do.
    decay_embeddings: bool = False
    # Gradients whose global norm is above this are scaled down to it; 0 turns clipping off.
    clip_norm: float = 1.0
    # The learning rate of each layer is so many times that of the layer above it, embeddings come
    # last (Howard & Ruder 2018 for fine-tuning; 0.8 to 0.95); 1: all alike.
    layer_decay: float = 1.0

    @property
    def averages(self) -> bool:
        """Whether the weights to validate and to ship are a mean that the rule itself keeps."""
        return self.name == "schedule_free"

    def adaptive(self) -> dict[str, Any]:
        """Of betas and eps what the rule reads (muon: for what it leaves to adamw)."""
        return {key: getattr(self, key) for key in ("betas", "eps") if key in self._read()}

    def _read(self) -> set[str]:
        return _FIELDS_OF_NAME[self.name]

    def problems(self, state_dtype: torch.dtype = torch.float32) -> list[str]:
        """What is wrong with these values for states of `state_dtype`, one sentence each."""
        found = []
        if not all(0 <= beta < 1 for beta in self.betas):
            found.append(f"optimizer.betas must be at least 0 and below 1, seen {list(self.betas)}")
        if self.averages and self.betas[0] == 0:
            found.append(
                "optimizer.betas must begin with a number above 0 for schedule_free, which divides "
                f"by it; seen {list(self.betas)}"
            )
        if self.states != "fp32" and self.name != "adamw":
            found.append(
                f'optimizer.states must be fp32 for optimizer.name = "{self.name}", seen '
                f"{self.states}; adamw's alone can be kept in 8 bits"
            )
        if not 0 <= self.momentum < 1:
            found.append(f"optimizer.momentum must be at least 0 and below 1, seen {self.momentum}")
        # fp16 has subnormals down to 6e-8, but its second moments reach zero long before.
        least = 1e-5 if state_dtype == torch.float16 else torch.finfo(state_dtype).tiny
        if not least <= self.eps < math.inf:  # this form also catches nan
            found.append(
                f"optimizer.eps must not vanish in {str(state_dtype).removeprefix('torch.')} "
                f"(at least {least:g}), seen {self.eps:g}"
            )
        if not 0 <= self.weight_decay < math.inf:
            found.append(
                f"optimizer.weight_decay must be a number from 0 up, seen {self.weight_decay}"
            )
        if not 0 < self.layer_decay <= 1:
            found.append(
                f"optimizer.layer_decay must be above 0 and at most 1, seen {self.layer_decay}; "
                "1 turns it off"
            )
        if not 0 <= self.clip_norm < math.inf:
            found.append(
                f"optimizer.clip_norm must be a number from 0 up, seen {self.clip_norm}; "
                "0 turns it off"
            )
        return found

    def unused(self) -> list[str]:
        """Fields that these values leave without effect, one sentence each."""
        found = [
            f'optimizer.{field.name} has no effect with optimizer.name = "{self.name}"'
            for field in fields(self)
            if field.name in ("betas", "eps", "momentum")
            and field.name not in self._read()
            and getattr(self, field.name) != field.default
        ]
        if self.decay_embeddings and self.weight_decay == 0:
            found.append("optimizer.decay_embeddings has no effect with optimizer.weight_decay = 0")
        return found

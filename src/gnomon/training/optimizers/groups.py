"""Which parameters are updated alike: by their role, their depth and the optimizer's rule."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from torch import nn

from gnomon.model import Transformer, parameter_roles
from gnomon.training.optimizers.config import OptimizerConfig


@dataclass(frozen=True)
class ParameterGroup:
    """Parameters that are updated alike."""

    name: str  # "muon", "decay", "no decay" or "sparse"; with layer_decay also the depth
    parameters: Mapping[str, nn.Parameter]
    weight_decay: float
    rate: float = 1.0  # by which the learning rate is multiplied

    @property
    def is_sparse(self) -> bool:
        """Whether their gradients hold some rows only."""
        return self.name.startswith("sparse")

    @property
    def is_orthogonal(self) -> bool:
        """Whether Muon moves them."""
        return self.name.startswith("muon")

    @property
    def num_elements(self) -> int:
        """How many numbers the group's parameters hold."""
        return sum(parameter.numel() for parameter in self.parameters.values())


def group_parameters(model: nn.Module, config: OptimizerConfig) -> list[ParameterGroup]:
    """Each trainable parameter of `model` in exactly one group, by its role; no empty groups."""
    roles = parameter_roles(model)
    sparse = _sparse_names(model)
    decaying = {"matrix", "embedding"} if config.decay_embeddings else {"matrix"}
    depths = _depths(model) if config.layer_decay < 1 else {}
    top = max(depths.values(), default=0)
    members: dict[tuple[str, int], dict[str, nn.Parameter]] = {}
    for depth in range(top, -1, -1):
        members |= {(kind, depth): {} for kind in ("muon", "decay", "no decay", "sparse")}
    for name, parameter in model.named_parameters():  # a tied parameter comes once
        if not parameter.requires_grad:
            continue
        kind = "decay" if roles[name] in decaying else "no decay"
        if name in sparse:
            kind = "sparse"
        elif config.name == "muon" and _is_hidden_matrix(name, parameter, roles[name]):
            kind = "muon"
        members[kind, depths.get(name, top)][name] = parameter
    return [
        ParameterGroup(
            f"{kind} {depth}" if depths else kind,
            parameters,
            config.weight_decay if kind in ("muon", "decay") else 0.0,
            config.layer_decay ** (top - depth),
        )
        for (kind, depth), parameters in members.items()
        if parameters
    ]


def _is_hidden_matrix(name: str, parameter: nn.Parameter, role: str) -> bool:
    """Between two vectors of the network's own: neither of a table nor of a head."""
    return role == "matrix" and parameter.dim() == 2 and _LAYER.search(name) is not None


def _depths(model: nn.Module) -> dict[str, int]:
    """Of each parameter how many layers lie below it: embeddings 0, what is over all layers most.

    An encoder's and a decoder's layers are counted side by side.
    """
    found: dict[str, int] = {}
    over = []
    for name, _ in model.named_parameters():
        if match := _LAYER.search(name):
            found[name] = int(match[1]) + 1
        elif "tables." in name or "embedding" in name:
            found[name] = 0
        else:
            over.append(name)
    top = max(found.values(), default=0) + 1
    return found | dict.fromkeys(over, top)


_LAYER = re.compile(r"(?:^|\.)layers\.(\d+)\.")


def _sparse_names(model: nn.Module) -> set[str]:
    """Parameters whose gradient holds the batch's rows only: embedding tables, where asked for."""
    if not (isinstance(model, Transformer) and model.config.embedding.sparse_gradient):
        return set()
    return {f"tables.{owner}" for role, owner in model.owners.items() if role != "output"}


def describe_groups(groups: Iterable[ParameterGroup]) -> str:
    """A small table: group, number of parameters, number of elements, weight decay."""
    groups = list(groups)
    with_rates = any(group.rate != 1 for group in groups)
    lines = [f"{'group':<12}{'parameters':>10}{'elements':>14}{'decay':>8}"]
    lines += [
        f"{group.name:<12}{len(group.parameters):>10}{group.num_elements:>14,}"
        f"{group.weight_decay:>8g}"
        for group in groups
    ]
    if with_rates:
        lines = [
            line + (f"{'rate':>8}" if group is None else f"{group.rate:>8.3g}")
            for line, group in zip(lines, [None, *groups], strict=True)
        ]
    return "\n".join(lines)

"""AdamW over groups made by each parameter's role, and its state as named tensors."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils import get_total_norm

from gnomon.errors import RecipeError
from gnomon.model import Transformer, parameter_roles
from gnomon.training.adamw import DecayGroup, FusedAdamW


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig:
    """AdamW (Loshchilov & Hutter 2019); with weight_decay 0 it is Adam, as in Vaswani et al. 2017.

    Weight decay reaches matrices only: on norms and biases it shrinks what has no reason to be
    small, and on embeddings it fades rare words, whose rows the gradient seldom refreshes.
    """

    # Memory of the first and second moments.
    betas: tuple[float, float] = (0.9, 0.98)
    # Added to the root of the second moment.
    eps: float = 1e-9
    # Share of a matrix that a step of learning rate 1 would take away.
    weight_decay: float = 0.0
    # Whether embeddings (and an output projection tied to them) decay as matrices do.
    decay_embeddings: bool = False
    # Gradients whose global norm is above this are scaled down to it; 0 turns clipping off.
    clip_norm: float = 1.0
    # The learning rate of each layer is so many times that of the layer above it, embeddings come
    # last (Howard & Ruder 2018 for fine-tuning; 0.8 to 0.95); 1: all alike.
    layer_decay: float = 1.0

    def problems(self, state_dtype: torch.dtype = torch.float32) -> list[str]:
        """What is wrong with these values for states of `state_dtype`, one sentence each."""
        found = []
        if not all(0 <= beta < 1 for beta in self.betas):
            found.append(f"optimizer.betas must be at least 0 and below 1, seen {list(self.betas)}")
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
        if self.decay_embeddings and self.weight_decay == 0:
            return ["optimizer.decay_embeddings has no effect with optimizer.weight_decay = 0"]
        return []


@dataclass(frozen=True)
class ParameterGroup:
    """Parameters that are updated alike."""

    name: str  # "decay", "no decay" or "sparse"; with layer_decay also the depth
    parameters: Mapping[str, nn.Parameter]
    weight_decay: float
    rate: float = 1.0  # by which the learning rate is multiplied

    @property
    def is_sparse(self) -> bool:
        """Whether their gradients hold some rows only."""
        return self.name.startswith("sparse")

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
        members |= {(kind, depth): {} for kind in ("decay", "no decay", "sparse")}
    for name, parameter in model.named_parameters():  # a tied parameter comes once
        if not parameter.requires_grad:
            continue
        kind = "decay" if roles[name] in decaying else "no decay"
        depth = depths.get(name, top)
        members["sparse" if name in sparse else kind, depth][name] = parameter
    return [
        ParameterGroup(
            f"{kind} {depth}" if depths else kind,
            parameters,
            config.weight_decay if kind == "decay" else 0.0,
            config.layer_decay ** (top - depth),
        )
        for (kind, depth), parameters in members.items()
        if parameters
    ]


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


class Optimizer:
    """Fused AdamW for dense gradients, SparseAdam beside it for a sparse embedding.

    Raises:
        RecipeError: when eps vanishes in the dtype of the model's parameters.
    """

    def __init__(self, model: nn.Module, config: OptimizerConfig) -> None:
        self.config = config
        self.groups = group_parameters(model, config)
        self._parameters = {n: p for group in self.groups for n, p in group.parameters.items()}
        for dtype in {parameter.dtype for parameter in self._parameters.values()}:
            if problems := config.problems(dtype):
                raise RecipeError("The optimizer cannot work: " + "; ".join(problems))
        self._dense = FusedAdamW(
            [
                DecayGroup(list(group.parameters.values()), group.weight_decay, group.rate)
                for group in self.groups
                if not group.is_sparse
            ],
            betas=config.betas,
            eps=config.eps,
        )
        self._sparse_rates = [g.rate for g in self.groups if g.is_sparse]
        self._sparse: torch.optim.SparseAdam | None = None
        if self._sparse_rates:
            self._sparse = torch.optim.SparseAdam(
                [{"params": list(g.parameters.values())} for g in self.groups if g.is_sparse],
                lr=1.0,  # it refuses 0 at birth; each step sets the real one
                betas=config.betas,
                eps=config.eps,
            )

    def gradient_norm(self) -> Tensor:
        """Global L2 norm of all gradients, on the device; sparse ones are coalesced first."""
        return get_total_norm(self._gradient_values())

    @torch.no_grad()
    def unscale(self, scale: float) -> None:
        """Divide all gradients by the factor that the loss was multiplied with."""
        if scale != 1.0:
            torch._foreach_mul_(self._gradient_values(), 1.0 / scale)

    @torch.no_grad()
    def clip(self, norm: float) -> None:
        """Scale gradients whose global norm is `norm` down to `config.clip_norm`."""
        if self.config.clip_norm and norm > self.config.clip_norm:
            torch._foreach_mul_(self._gradient_values(), self.config.clip_norm / norm)

    def step(self, learning_rate: float) -> None:
        """Update the parameters from their gradients, then drop the gradients."""
        self._dense.step(learning_rate)
        if self._sparse is not None:
            for group, rate in zip(self._sparse.param_groups, self._sparse_rates, strict=True):
                group["lr"] = learning_rate * rate
            self._sparse.step()  # type: ignore[no-untyped-call]
        self.drop_gradients()

    def drop_gradients(self) -> None:
        """Forget all gradients (set to None: the next backward pass writes instead of adds)."""
        for parameter in self._parameters.values():
            parameter.grad = None

    def state_tensors(self) -> dict[str, Tensor]:
        """The whole state as `key/parameter name` → tensor, for a file without pickle."""
        states: dict[Tensor, Mapping[str, object]] = {}
        states.update(self._dense.state)
        if self._sparse is not None:
            states.update(self._sparse.state)
        return {
            f"{key}/{name}": torch.as_tensor(value)
            for name, parameter in self._parameters.items()
            for key, value in states.get(parameter, {}).items()
        }

    def load_state_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Take back what `state_tensors` gave, bit for bit."""
        self._dense.state.clear()
        for group in self.groups:
            for name, parameter in group.parameters.items():
                state = {
                    key: tensors[f"{key}/{name}"].to(parameter.device, copy=True)
                    for key in ("step", "exp_avg", "exp_avg_sq")
                    if f"{key}/{name}" in tensors  # a parameter may have had no gradient yet
                }
                if not state:
                    continue
                if not group.is_sparse:
                    self._dense.state[parameter] = state
                elif self._sparse is not None:
                    self._sparse.state[parameter] = {**state, "step": int(state["step"])}

    def _gradient_values(self) -> list[Tensor]:
        values = []
        for parameter in self._parameters.values():
            if parameter.grad is None:
                continue
            if parameter.grad.is_sparse:
                parameter.grad = parameter.grad.coalesce()
                values.append(parameter.grad.values())
            else:
                values.append(parameter.grad)
        return values

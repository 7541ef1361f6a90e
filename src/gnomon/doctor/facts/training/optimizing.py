"""What an optimizer holds, by the names that the model gives its parameters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.optim import Optimizer

from gnomon.doctor.finding import Skip

if TYPE_CHECKING:
    from gnomon.doctor.case import Case

FOREIGN = "(not of this module)"


@dataclass(frozen=True)
class Held:
    """A parameter as the optimizer has it.

    Attributes:
        name: its (first) name in the model, or `FOREIGN`.
        group: the number of its group; its options are `options`.
    """

    name: str
    parameter: Tensor
    group: int
    options: dict[str, Any]


def optimizer_of(case: Case) -> Optimizer:
    """The optimizer.

    Raises:
        Skip: none was handed over.
    """
    optimizer = case.patient.optimizer
    if optimizer is None:
        raise Skip("no optimizer was handed over")
    return optimizer


def held(case: Case) -> Iterator[Held]:
    """Every parameter in the optimizer, as often as it is in there."""
    names = names_of(case)
    for number, group in enumerate(optimizer_of(case).param_groups):
        for parameter in group["params"]:
            yield Held(names.get(id(parameter), FOREIGN), parameter, number, group)


def names_of(case: Case) -> dict[int, str]:
    """The first name of each parameter by its `id`."""
    names: dict[int, str] = {}
    for name, parameter in case.module.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), name)
    return names


def is_adaptive(optimizer: Optimizer) -> bool:
    """Whether its step's size does not follow the gradient's (Adam and its kin)."""
    return any("betas" in group or "beta2_decay" in group for group in optimizer.param_groups)


def listed(names: list[str] | tuple[str, ...], most: int = 3) -> str:
    """The first few names, for a sentence."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")

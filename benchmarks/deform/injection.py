"""DEForm's operators as this benchmark uses them: one per operator, severity and subject."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn


@dataclass(frozen=True)
class Fault:
    """An operator at one of the severities that the package declares for it."""

    operator: str
    value: Any
    component: str
    description: str

    @property
    def key(self) -> str:
        return self.operator if self.value is None else f"{self.operator}={self.value}"


def faults(scope: Literal["encoder", "decoder"]) -> list[Fault]:
    """Every operator that the package means for `scope`, at every declared severity."""
    from defaultplusplus.deform import list_operators

    return [
        Fault(operator.op_id, value, str(operator.component.value), operator.action)
        for operator in list_operators(scope)
        for value in operator.param_grid or (None,)
    ]


class CannotInject(Exception):
    """The operator refuses this model, or breaks while it is put in."""


def inject(module: nn.Module, fault: Fault) -> tuple[str, ...]:
    """Put the fault into `module`, for good, and say what was altered.

    The injectors are context managers, but not every one of them can be taken out again (FCA's
    undo raises where an activation was a plain function), so each fault gets a module of its own.

    Returns:
        Dotted names of the parameters whose values or flags changed and of the modules whose
        attributes (`forward`, `eps`, an activation …) changed, found by comparing before and after.

    Raises:
        CannotInject: the operator found no parameter of the names it looks for, or raised.
    """
    from defaultplusplus.deform import get_injector

    before = _attributes(module)
    weights = {name: p.detach().clone() for name, p in module.named_parameters()}
    flags = {name: p.requires_grad for name, p in module.named_parameters()}
    try:
        get_injector(fault.operator, param_value=fault.value)(module).__enter__()
    except Exception as error:
        raise CannotInject(f"{type(error).__name__}: {error}") from error
    parameters = [
        name
        for name, p in module.named_parameters()
        if p.requires_grad != flags[name] or not torch.equal(p, weights[name])
    ]
    modules = [name for name, now in _attributes(module).items() if now != before.get(name)]
    return (*parameters, *modules)


def _attributes(module: nn.Module) -> dict[str, dict[str, Any]]:
    """By module: its plain attributes by value, others and its children by identity."""
    found: dict[str, dict[str, Any]] = {}
    for name, each in module.named_modules():
        own = {k: v for k, v in vars(each).items() if not k.startswith("_") or k == "_modules"}
        children = own.pop("_modules", {})
        found[name] = {
            k: v if isinstance(v, int | float | str) else id(v) for k, v in own.items()
        } | {f"module {k}": id(v) for k, v in children.items()}
    return found

"""The stock model of the patient's own configuration, with the patient's weights in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from gnomon.doctor.case import Case
from gnomon.doctor.facts.beside.stock import build_stock
from gnomon.doctor.finding import NotApplicable
from gnomon.doctor.run import tensors
from gnomon.model import Transformer


@dataclass(frozen=True)
class Twin:
    """What the patient should compute.

    Attributes:
        strange: names that stand in one of the two models only.
    """

    module: nn.Module
    strange: tuple[str, ...]


def twin(case: Case) -> Twin:
    """The stock model of the case.

    Raises:
        Skip: the class is the user's own, or it cannot be built from its configuration.
    """
    own = case.module
    if not _is_stock(type(own)):
        raise NotApplicable(
            f"{type(own).__name__} is no class of gnomon or transformers: no stock model"
        )
    module = build_stock(case)
    first = next(own.parameters())
    module = module.to(device=first.device, dtype=_dtype(own))
    weights = own.state_dict()
    theirs = module.state_dict()
    names = set(theirs)
    fitting = {n: v for n, v in weights.items() if n in names and theirs[n].shape == v.shape}
    module.load_state_dict(fitting, strict=False)
    flags = {name: p.requires_grad for name, p in own.named_parameters()}
    for name, parameter in module.named_parameters():
        parameter.requires_grad_(flags.get(name, True))
    return Twin(module.eval(), tuple(sorted(names ^ set(fitting) | set(weights) - set(fitting))))


def _is_stock(kind: type) -> bool:
    if kind.__module__.startswith("gnomon.") and hasattr(kind, "stock"):
        return True
    return kind is Transformer or (
        kind.__module__.startswith("transformers.models.") and hasattr(kind, "_from_config")
    )


def _dtype(module: nn.Module) -> torch.dtype | None:
    kinds = {p.dtype for p in module.parameters()}
    return kinds.pop() if len(kinds) == 1 else None


@dataclass(frozen=True)
class Passed:
    """One call of a module: the float tensors that it was given, and those that it gave by path."""

    module: str
    inputs: list[Tensor]
    outputs: dict[str, Tensor]


@contextmanager
def passed_through(module: nn.Module) -> Iterator[list[Passed]]:
    """The calls of all submodules, in the order in which they finish."""
    seen: list[Passed] = []
    handles: list[RemovableHandle] = []

    def note(name: str) -> Any:
        def hook(_: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
            given = [*float_tensors(args), *float_tensors(kwargs)]
            gave = {path: each.detach() for path, each in tensors(output).items()}
            seen.append(Passed(name, [each.detach() for each in given], gave))

        return hook

    for name, each in module.named_modules():
        handles.append(each.register_forward_hook(note(name), with_kwargs=True))
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


def float_tensors(value: Any) -> Iterator[Tensor]:
    """All of them inside an output, in order."""
    if isinstance(value, Tensor):
        if value.is_floating_point():
            yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from float_tensors(each)
    elif isinstance(value, tuple | list):
        for each in value:
            yield from float_tensors(each)

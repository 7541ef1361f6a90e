"""Keeps weights and attributes of a module that its own forward may change, and puts them back."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.utils.weak import WeakIdKeyDictionary

_CONTAINERS = (dict, list, set)


@contextmanager
def as_found(module: nn.Module | None) -> Iterator[None]:
    """Leave weights and attributes of all submodules as they were found.

    A forward pass alone may change them: `max_norm` scales rows of a table, a projection may be
    normalised through `.data`, a cache may be kept between calls. It costs a copy of the weights.
    """
    if module is None:
        yield
        return
    attributes = {} if isinstance(module, torch.jit.ScriptModule) else _attributes(module)
    weights = Weights(module.parameters())
    try:
        yield
    finally:
        for owner, kept in attributes.items():
            for name in set(vars(owner)) - set(kept) - {"training"}:
                del vars(owner)[name]
            for name, (value, content) in kept.items():
                _put_back(owner, name, value, content)
        weights.put_back()


@contextmanager
def with_modes(module: nn.Module | None) -> Iterator[None]:
    """Where a submodule's `eval()` or `train()` raises, it stays in the mode it is in.

    Exported programs do so: their mode is part of the program.
    """
    stubborn = [] if module is None else _stubborn(module)
    for each, _ in stubborn:
        vars(each).update(train=lambda mode=True, each=each: each, eval=lambda each=each: each)
    try:
        yield
    finally:
        for each, own in stubborn:
            for name in ("train", "eval"):
                vars(each).pop(name, None)
            vars(each).update(own)


def _stubborn(module: nn.Module) -> list[tuple[nn.Module, dict[str, Any]]]:
    """Submodules that refuse to change mode by themselves, with what they say instead."""
    modes = {each: each.training for each in module.modules()}
    try:
        module.eval()
        return []
    except Exception:  # whatever its author raises
        return [
            (each, {name: vars(each)[name] for name in ("train", "eval") if name in vars(each)})
            for each in module.modules()
            if _refuses(each)
        ]
    finally:
        for each, mode in modes.items():
            each.training = mode


def _refuses(module: nn.Module) -> bool:
    """Whether it has an `eval()` or `train()` of its own that raises."""
    own = {"train", "eval"} & set(vars(module))
    inherited = type(module).train is nn.Module.train and type(module).eval is nn.Module.eval
    if inherited and not own:
        return False
    try:
        module.train(module.training)
        module.eval()
    except Exception:
        return True
    return False


class Weights:
    """A copy of parameters; of those that are copied already, that one."""

    _copies: WeakIdKeyDictionary = WeakIdKeyDictionary()

    def __init__(self, parameters: Iterable[Tensor]) -> None:
        self.kept = [
            (parameter, parameter.data, self._copy(parameter))
            for parameter in parameters
            if has_values(parameter)
        ]

    def _copy(self, parameter: Tensor) -> Tensor:
        held = self._copies.get(parameter)  # type: ignore[no-untyped-call]
        copied: Tensor | None = None if held is None else held()
        if copied is None or not _equal(parameter, copied):
            copied = _aside(parameter)
            self._copies[parameter] = weakref.ref(copied)
        return copied

    def put_back(self) -> None:
        """Every parameter has its old values, in the memory where they were."""
        for parameter, data, value in self.kept:
            if parameter.data_ptr() != data.data_ptr() or parameter.shape != data.shape:
                parameter.data = data
            with torch.inference_mode(parameter.is_inference()), torch.no_grad():
                if not _equal(parameter, value):
                    parameter.copy_(value)


def _equal(parameter: Tensor, copied: Tensor) -> bool:
    alike = (parameter.shape, parameter.dtype) == (copied.shape, copied.dtype)
    return alike and torch.equal(parameter.detach().to(copied.device), copied)


def has_values(tensor: Tensor) -> bool:
    """Whether there is anything to keep: not on the meta device, nor before its first call."""
    return not (is_lazy(tensor) or tensor.is_meta)


def _aside(parameter: Tensor) -> Tensor:
    """A copy, on the host where the device has not much room left."""
    size = parameter.numel() * parameter.element_size()
    if parameter.is_cuda and torch.cuda.mem_get_info(parameter.device)[0] < 4 * size + 2**30:
        return parameter.detach().to("cpu", copy=True)
    return parameter.detach().clone()


def _attributes(module: nn.Module) -> dict[nn.Module, dict[str, tuple[Any, Any]]]:
    """Every attribute of every submodule, and what it holds."""
    return {
        owner: {
            name: (value, _content(value))
            for name, value in vars(owner).items()
            if name != "training"
        }
        for owner in module.modules()
    }


def _content(value: Any) -> Any:
    if isinstance(value, _CONTAINERS):
        return copy.copy(value)
    if isinstance(value, Tensor) and has_values(value):
        return value.detach().clone()
    if isinstance(value, torch.Generator):
        return value.get_state()
    return None


def _put_back(owner: nn.Module, name: str, value: Any, content: Any) -> None:
    vars(owner)[name] = value  # not by setattr, which registers parameters and modules
    if isinstance(value, dict) and not _is_same(list(value.items()), list(content.items())):
        value.clear()
        value.update(content)
    elif isinstance(value, list) and not _is_same(value, content):
        value[:] = content
    elif isinstance(value, set) and value != content:
        value.clear()
        value |= content
    elif isinstance(value, torch.Generator):
        value.set_state(content)
    elif isinstance(content, Tensor) and not torch.equal(value.detach(), content):
        with torch.no_grad():
            value.data.copy_(content)


def _is_same(now: list[Any], before: list[Any]) -> bool:
    """By identity: what is in there may compare to anything."""
    if len(now) != len(before):
        return False
    return all(
        _is_same(list(one), list(other)) if isinstance(one, tuple) else one is other
        for one, other in zip(now, before, strict=True)
    )

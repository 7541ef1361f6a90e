"""Calls of PyTorch functions under one name and with one order of arguments."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from gnomon.probe.names import NOT_COMPUTING

# `x.mT` arrives as the getter of a property
_PROPERTIES = {"T", "mT", "H", "mH", "data", "real"}
_IN_PLACE = {"__iadd__": "add", "__isub__": "sub", "__imul__": "mul", "__itruediv__": "div"}
_ALIASES = {
    "multiply": "mul",
    "divide": "div",
    "true_divide": "div",
    "subtract": "sub",
    "__add__": "add",
    "__radd__": "add",
    "__sub__": "sub",
    "__rsub__": "rsub",
    "__mul__": "mul",
    "__rmul__": "mul",
    "__truediv__": "div",
    "__div__": "div",
    "__matmul__": "matmul",
    "negative": "neg",
    "__neg__": "neg",
    "concat": "cat",
    "concatenate": "cat",
    "clip": "clamp",
    "swapaxes": "transpose",
    "swapdims": "transpose",
}


@dataclass(frozen=True)
class Call:
    """One call of a PyTorch function, before or after it ran."""

    # without the underscore of the in-place form, aliases resolved
    name: str
    func: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    in_place: bool

    def argument(self, place: int, name: str, default: Any = None) -> Any:
        """By place or by name."""
        if len(self.args) > place:
            return self.args[place]
        return self.kwargs.get(name, default)

    def tensors(self) -> Iterator[Tensor]:
        """All tensors among the arguments, lists included."""
        for value in (*self.args, *self.kwargs.values()):
            if isinstance(value, Tensor):
                yield value
            elif isinstance(value, (list, tuple)):
                for item in value:
                    if isinstance(item, Tensor):
                        yield item


def read(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call | None:
    """The call under its canonical name; None where it does not compute anything."""
    name: str = getattr(func, "__name__", "")
    if name == "__get__":
        name = getattr(getattr(func, "__self__", None), "__name__", "")
        if name not in _PROPERTIES:
            return None
        args = args[:1]
    elif name in NOT_COMPUTING:
        return None
    in_place = name in _IN_PLACE or name == "__setitem__" or kwargs.get("inplace") is True
    name = _IN_PLACE.get(name, name)
    if name.endswith("_") and not name.endswith("__"):
        in_place, name = True, name[:-1]
    name = _ALIASES.get(name, name)
    if not args or not isinstance(args[0], (Tensor, list, tuple, str)):
        for key in ("input", "self", "query", "tensors"):
            if not args and key in kwargs:
                args = (kwargs[key],)
                kwargs = {k: v for k, v in kwargs.items() if k != key}
                break
    return Call(name, func, args, kwargs, in_place)

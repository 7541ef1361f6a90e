"""Who is running: a stack of module calls, kept by hooks."""

from __future__ import annotations

import inspect
import sys
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from gnomon.probe.kept import Keeper
from gnomon.probe.quiet import quiet
from gnomon.probe.record import ModuleCall, Record, Statistics


@dataclass(eq=False)
class Frame:
    """One running call of a module, and what was noticed in it so far."""

    name: str
    module: nn.Module
    call: ModuleCall
    inputs: tuple[Tensor, ...]
    # of the first mask an nn.MultiheadAttention was given: it hands on a floating-point one
    mask_dtype: torch.dtype | None = None
    # a mean, variance or the like was taken within this very frame
    reduces: bool = False
    # small numbers that were added: a norm's eps
    small: list[float] = field(default_factory=list)
    # a norm function of PyTorch's was called within this very frame
    has_norm: bool = False


class Owners:
    """The stack of running modules; fills `record.modules`."""

    def __init__(
        self,
        root: nn.Module,
        record: Record,
        keeper: Keeper,
        *,
        keep_outputs: bool,
        on_root: Callable[[Frame], None],
        on_exit: Callable[[Frame, Any], None],
    ) -> None:
        self._root = root
        self._record = record
        self._keeper = keeper
        self._keep_outputs = keep_outputs
        self._on_root = on_root
        self._on_exit = on_exit
        self._stack: list[Frame] = []
        self._handles: list[torch.utils.hooks.RemovableHandle] = []
        self._count = 0
        self._measured: dict[int, tuple[weakref.ref[Tensor], int, Statistics]] = {}

    @property
    def frame(self) -> Frame | None:
        """The innermost running module; None outside all of them."""
        return self._stack[-1] if self._stack else None

    @property
    def name(self) -> str:
        """The dotted name of the innermost running module."""
        return self._stack[-1].name if self._stack else ""

    @property
    def count(self) -> int:
        """How many module calls have begun."""
        return self._count

    def name_outside(self, kind: type[nn.Module] | tuple[type[nn.Module], ...]) -> str:
        """The innermost running module that is not of that kind."""
        for frame in reversed(self._stack):
            if not isinstance(frame.module, kind):
                return frame.name
        return ""

    def attach(self) -> None:
        """Hook every submodule; a shared one goes by its first name."""
        for name, module in self._root.named_modules():
            if isinstance(module, torch.jit.ScriptModule):
                self._record.note(
                    f"{name or 'the module'} is TorchScript: nothing inside it can be observed"
                )
                continue
            self._handles.append(
                module.register_forward_pre_hook(self._enter(name), with_kwargs=True, prepend=True)
            )
            self._handles.append(
                module.register_forward_hook(self._leave, with_kwargs=True, always_call=True)
            )

    def detach(self) -> None:
        """Take all hooks off again."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._stack.clear()
        self._measured.clear()

    def _enter(self, name: str) -> Callable[[nn.Module, Any, Any], None]:
        def enter(module: nn.Module, args: Any, kwargs: Any) -> None:
            with quiet():
                tensors = tuple(floats((args, kwargs)))
                measured = tuple(map(self._statistics, tensors))
            call = ModuleCall(name, self._count, module.training, measured)
            if self._keep_outputs:
                with quiet():
                    call._given = tuple(map(self._keeper.keep, tensors))
            self._count += 1
            self._record.modules.setdefault(name, []).append(call)
            frame = Frame(name, module, call, tensors)
            if isinstance(module, nn.MultiheadAttention):
                frame.mask_dtype = _mask_dtype(module, args, kwargs)
            if not self._stack:
                self._on_root(frame)
            self._stack.append(frame)

        return enter

    def _leave(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        # Frames above are those of modules that an exception left, where hooks did not run.
        while self._stack and self._stack[-1].module is not module:
            self._stack.pop().call.failed = True
        if not self._stack:
            return
        frame = self._stack.pop()
        if output is None and sys.exc_info()[0] is not None:
            frame.call.failed = True
            return
        with quiet():
            tensors = tuple(floats(output))
            frame.call.outputs = tuple(map(self._statistics, tensors))
            if self._keep_outputs:
                frame.call._tensors = tuple(map(self._keeper.keep, tensors))
            self._on_exit(frame, output)

    def _statistics(self, tensor: Tensor) -> Statistics:
        """Measured once for a tensor that passes through several modules unchanged."""
        if tensor.is_inference():  # it does not tell whether it was overwritten
            return Statistics(tensor)
        known = self._measured.get(id(tensor))
        if known is not None and known[1] == tensor._version:
            return known[2]
        measured, key = Statistics(tensor), id(tensor)
        ref = weakref.ref(tensor, lambda _: self._measured.pop(key, None))
        self._measured[key] = (ref, tensor._version, measured)
        return measured


def _mask_dtype(module: nn.Module, args: Any, kwargs: Any) -> torch.dtype | None:
    names = inspect.signature(module.forward).bind_partial(*args, **kwargs).arguments
    for name in ("attn_mask", "key_padding_mask"):
        if isinstance(names.get(name), Tensor):
            dtype: torch.dtype = names[name].dtype
            return dtype
    return None


def floats(value: Any, inside: tuple[int, ...] = ()) -> Iterator[Tensor]:
    """Floating-point tensors within lists, tuples, dicts and dataclass-like outputs."""
    if isinstance(value, Tensor):
        if value.is_floating_point() and value.layout == torch.strided:
            yield value
    elif isinstance(value, (dict, list, tuple)) and id(value) not in inside:  # may hold itself
        for item in value.values() if isinstance(value, dict) else value:
            yield from floats(item, (*inside, id(value)))

"""Where NaN and infinity begin: the operation that makes them of finite numbers.

Every operator that runs is watched, forward and backward. Of a tensor that is not finite the trail
leads back to the operation that was given finite numbers only; what is infinite because the code
says so (the −inf of a mask) is told apart.
"""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from gnomon.probe.compiled import uncompiled
from gnomon.probe.quiet import quiet

# Whose frames are no place to look at: what runs the model, and PyTorch itself.
_TORCH = str(Path(torch.__file__).parent)
_RUNNERS = tuple(
    str(Path(__file__).parents[1] / room) for room in ("probe", "doctor", "training", "api", "cli")
)


@dataclass(frozen=True)
class Origin:
    """The operation in which a NaN or infinity began.

    Attributes:
        operator: as the dispatcher names it ("bmm", "div"); empty for what no operation made: a
            parameter, a buffer, an input.
        module: dotted name of the innermost module that ran, in a backward pass of the one whose
            forward it belongs to; None: outside the model, as a loss function is.
        module_kind: its class.
        backward: in a backward pass.
        constant: infinite by a number that stands in the code (a mask's −inf), not by arithmetic.
        detail: what in its operands explains it ("the divisor is 0 in 3 places"), where that shows.
        largest_input: largest finite magnitude among the tensors it read.
        dtype: of what it gave.
        name: of the parameter or buffer that holds it.
        line: file, line and function of the code that called it; in a backward pass of the forward.
    """

    order: int
    operator: str
    module: str | None
    module_kind: str
    backward: bool
    constant: bool
    detail: str
    largest_input: float | None
    dtype: torch.dtype
    num_nan: int
    num_inf: int
    num_values: int
    name: str = ""
    line: str = ""

    @property
    def limit(self) -> float:
        """Where its number format ends."""
        return torch.finfo(self.dtype).max


class Trail:
    """What is known of the tensors that are not finite, by where they lie in memory."""

    def __init__(self, module: nn.Module) -> None:
        self.origins: list[Origin] = []
        self._known: dict[int, _Spoilt] = {}
        self._names = {
            key: name
            for name, tensor in (*module.named_parameters(), *module.named_buffers())
            if (key := _key(tensor)) is not None
        }

    def of(self, tensor: Tensor) -> Origin | None:
        """Where the NaN, else the infinity, of a tensor began; None: it is not known."""
        key = _key(tensor)
        found = None if key is None else self._known.get(key)
        return None if found is None else found.nan or found.inf


@dataclass(frozen=True)
class _Spoilt:
    """Of one tensor: where its NaNs and where its infinities began; None: it holds none."""

    nan: Origin | None
    inf: Origin | None


@contextlib.contextmanager
def origins(module: nn.Module) -> Iterator[Trail]:
    """While the block runs, follow every NaN and infinity to where it begins.

    Costs a look at every result of every operator, so it is meant for a pass that is known to
    fail. Nothing that is computed changes; code under `torch.compile` runs uncompiled.
    """
    trail = Trail(module)
    stack: list[tuple[str, nn.Module]] = []
    handles = []

    def enter(name: str) -> Any:
        return lambda module, *_: stack.append((name, module))

    def leave(module: nn.Module, *_: Any) -> None:
        while stack and stack.pop()[1] is not module:
            pass  # modules that an exception left, where hooks did not run

    for name, each in module.named_modules():
        if not isinstance(each, torch.jit.ScriptModule):
            handles.append(each.register_forward_pre_hook(enter(name), prepend=True))
            handles.append(each.register_forward_hook(leave, always_call=True))
    try:
        with uncompiled(), _Watch(trail, stack):
            yield trail
    finally:
        for handle in handles:
            handle.remove()


class _Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    supports_higher_order_operators = True

    def __init__(self, trail: Trail, stack: list[tuple[str, nn.Module]]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._trail, self._stack = trail, stack
        # By the number of its node in the graph: who ran when it was made, and at which line.
        self._made: dict[int, tuple[str | None, str, str]] = {}
        self._order = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else the compiler is imported

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not isinstance(func, torch._ops.OpOverload):
            return func(*args, **kwargs)
        self._order += 1
        place = self._place()
        aliases = [each.alias_info for each in func._schema.returns]
        if any(each is not None and not each.is_write for each in aliases):
            return func(*args, **kwargs)  # a view: it lies where its source does
        given = list(_floats((args, kwargs)))
        before = None
        if func._schema.is_mutable:  # it may write into what it reads
            with quiet():
                before = [_Look(each) for each in given]
        result = func(*args, **kwargs)
        if "empty" in func._schema.name:
            return result  # whatever lay there
        with quiet():
            for tensor in _floats(result):
                self._look(func, args, kwargs, tensor, given, before, place)
        return result

    def _look(
        self,
        func: Any,
        args: Any,
        kwargs: Any,
        result: Tensor,
        given: Sequence[Tensor],
        before: Sequence[_Look] | None,
        place: tuple[str | None, str, str],
    ) -> None:
        key, known = _key(result), self._trail._known
        if key is None:
            return
        now = _Look(result, size=False)
        if now.finite:
            if result.numel() * result.element_size() >= result.untyped_storage().nbytes():
                known.pop(key, None)
            return
        looks = [_Look(each) for each in given] if before is None else before
        sources = [
            (look, self._source(each, look, place))
            for each, look in zip(given, looks, strict=True)
            if not look.finite
        ]
        nans = [spoilt.nan for look, spoilt in sources if look.nan and spoilt.nan]
        infs = [spoilt.inf for look, spoilt in sources if look.inf and spoilt.inf]
        real = [each for each in infs if not each.constant]
        made: Origin | None = None
        if (now.nan and not (nans or real)) or (now.inf and not (infs or nans)):
            module, kind, line = place
            name = func._schema.name.removeprefix("aten::")
            made = Origin(
                order=self._order,
                operator=name,
                module=module,
                module_kind=kind,
                backward=_in_backward(),
                constant=not now.nan
                and name.rstrip("_") not in _ARITHMETIC
                and _infinite_number((args, kwargs)),
                detail=_detail(name, args, result),
                largest_input=_largest(looks, args if name.rstrip("_") in _ARITHMETIC else ()),
                dtype=result.dtype,
                line=line,
                **_counts(result),
            )
            self._trail.origins.append(made)
        nan = (_first(nans) or _first(real) or made) if now.nan else None
        inf = (_first(infs) or _first(nans) or made) if now.inf else None
        known[key] = _Spoilt(nan, inf)

    def _source(self, tensor: Tensor, look: _Look, place: tuple[str | None, str, str]) -> _Spoilt:
        """What is known of an operand; one that no operation made is where it begins."""
        key, trail = _key(tensor), self._trail
        found = None if key is None else trail._known.get(key)
        if found is not None:
            return found
        module, kind, line = place
        begun = Origin(
            order=self._order,
            operator="",
            module=module,
            module_kind=kind,
            backward=_in_backward(),
            constant=not look.nan,
            detail="",
            largest_input=None,
            dtype=tensor.dtype,
            name="" if key is None else trail._names.get(key, ""),
            line=line,
            **_counts(tensor),
        )
        return _Spoilt(begun if look.nan else None, begun if look.inf else None)

    def _place(self) -> tuple[str | None, str, str]:
        """Module, its class and line of the operation that runs."""
        running = self._stack[-1] if self._stack else None
        if running is None and _in_backward():
            node = torch._C._current_autograd_node()
            number = None if node is None else node._sequence_nr()
            return self._made.get(number, (None, "", "")) if number is not None else (None, "", "")
        name, kind = (None, "") if running is None else (running[0], type(running[1]).__name__)
        found = name, kind, _line()
        if not _in_backward():
            number = torch.autograd._get_sequence_nr() - 1  # type: ignore[attr-defined]
            self._made.setdefault(number, found)
        return found


class _Look:
    """Whether a tensor holds NaN or infinity, and its largest finite magnitude."""

    __slots__ = ("inf", "largest", "nan")

    def __init__(self, tensor: Tensor, *, size: bool = True) -> None:
        self.nan = self.inf = False
        self.largest: float | None = None
        values = tensor.detach()
        if not bool(values.isfinite().all()):
            self.nan, self.inf = bool(values.isnan().any()), bool(values.isinf().any())
            values = values[values.isfinite()]
        if size and values.numel():
            self.largest = float(values.abs().max())

    @property
    def finite(self) -> bool:
        return not (self.nan or self.inf)


def _in_backward() -> bool:
    return bool(torch._C._current_graph_task_id() != -1)


def _first(found: Sequence[Origin]) -> Origin | None:
    """What arithmetic made before what the code says, then the first in time."""
    return min(found, key=lambda each: (each.constant, each.order), default=None)


def _floats(value: Any) -> Iterator[Tensor]:
    """Tensors of floating-point numbers in an operator's arguments or results."""
    if isinstance(value, Tensor):
        if value.is_floating_point() and value.layout == torch.strided and not value.is_meta:
            yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _floats(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _floats(each)


def _infinite_number(value: Any) -> bool:
    """Whether a number among the arguments is infinite."""
    if isinstance(value, Mapping):
        return any(map(_infinite_number, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_infinite_number, value))
    return isinstance(value, float) and not math.isfinite(value)


def _key(tensor: Tensor) -> int | None:
    """Where a tensor's memory lies; views of one tensor have the same."""
    try:
        return tensor.untyped_storage().data_ptr() or None
    except (RuntimeError, NotImplementedError):  # a kind without memory of its own
        return None


def _largest(looks: Sequence[_Look], args: Sequence[Any]) -> float | None:
    """Among the tensors that were read, and the number that a sum or product was given."""
    numbers = [abs(float(each)) for each in args[1:2] if isinstance(each, int | float)]
    found = [each.largest for each in looks if each.largest is not None]
    return max([*found, *(each for each in numbers if math.isfinite(each))], default=None)


def _counts(tensor: Tensor) -> dict[str, Any]:
    values = tensor.detach()
    return {
        "num_nan": int(values.isnan().sum()),
        "num_inf": int(values.isinf().sum()),
        "num_values": values.numel(),
    }


# With an infinite number these are no masks: 0 times it is NaN.
_ARITHMETIC = ("add", "sub", "rsub", "mul", "div", "pow")
_ROOTS = ("sqrt", "rsqrt", "_foreach_sqrt")
_LOGS = ("log", "log2", "log10", "log1p")


def _detail(operator: str, args: Sequence[Any], result: Tensor) -> str:
    """What in the operands of a division, root or logarithm explains it."""
    name = operator.rstrip("_")
    if name == "div" and len(args) > 1:
        divisor = args[1]
        if isinstance(divisor, Tensor):
            zeros = int((divisor == 0).sum())
            return f"the divisor is 0 in {zeros:,} of {divisor.numel():,} places" if zeros else ""
        return "the divisor is 0" if divisor == 0 else ""
    operand = args[0] if args else None
    if not isinstance(operand, Tensor) or operand.data_ptr() == result.data_ptr():
        return ""
    if name in (*_ROOTS, *_LOGS, "reciprocal", "pow"):
        least = -1 if name == "log1p" else 0
        zeros, below = int((operand == least).sum()), int((operand < least).sum())
        if zeros:
            return f"its operand is {least} in {zeros:,} of {operand.numel():,} places"
        if below and name not in ("reciprocal", "pow"):
            return f"its operand is negative in {below:,} of {operand.numel():,} places"
    return ""


def _line() -> str:
    """File, line and function of the innermost code that is neither PyTorch's nor ours."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(_RUNNERS):
            return ""
        if not file.startswith((_TORCH, "<frozen")):
            code = frame.f_code
            return f"{Path(file).name}, line {frame.f_lineno}, in {code.co_name}"
        frame = frame.f_back
    return ""

"""Finds where the first NaN or infinity of a step came from, by running the step again.

Hooks see at which module's output or gradient it first shows; the trail of operators leads from
there to the one that made it.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from gnomon.probe import Origin, Trail, origins
from gnomon.probe.owners import floats
from gnomon.probe.quiet import quiet


@dataclass(frozen=True)
class NonFinite:
    """Where the first NaN or infinity of a step arose.

    Attributes:
        what: "weights": a parameter holds it; "output": it first shows in a module's output;
            "gradient": of a module's output; "weight gradient": of a parameter; "loss": no
            module gives it.
        name: dotted name of the module or parameter; empty for the whole model and the loss.
        module_kind: class of the module.
        num_nan, num_inf, num_values: counted over the tensor.
        largest_input: largest finite magnitude that the module read (outputs only).
        largest_weight: largest finite magnitude of its own parameters (outputs only).
        dtype: of the tensor.
        origin: the operation that made it; None where the trail is lost.
    """

    what: Literal["weights", "output", "gradient", "weight gradient", "loss"]
    name: str = ""
    module_kind: str = ""
    num_nan: int = 0
    num_inf: int = 0
    num_values: int = 0
    largest_input: float | None = None
    largest_weight: float | None = None
    dtype: str = ""
    origin: Origin | None = None

    @property
    def place(self) -> str:
        """The module whose own code made it; empty for the whole model and the loss."""
        if self.what == "weights" or self.origin is None or self.origin.module is None:
            return self.name
        return self.origin.module

    def __str__(self) -> str:
        made = self.origin
        if made is None or self.what == "weights":
            return self._shown()
        if made.name:
            return f"{made.name}, which holds {_told(made)}"
        by = f"{'the way back through ' if made.backward else ''}{_operation(made)}"
        line = f" ({made.line})" if made.line else ""
        if made.module is None or (self.what == "output" and made.module == self.name):
            return f"{self._shown()}, made by {by}{line}"
        kind = f" ({made.module_kind})" if made.module_kind else ""
        return (
            f"{by} in {made.module or 'the whole model'}{kind}{line} gives {_told(made)}; "
            f"it shows in {self._shown()}"
        )

    def _shown(self) -> str:
        name = self.name or "the whole model"
        if self.what == "weights":
            return f"the weights themselves: {name} holds {_told(self)}"
        if self.what == "loss":
            return "the loss (every module's output is finite)"
        if self.what == "output":
            return f"the output of {name} ({self.module_kind}; {_told(self)})"
        owner = "the weights" if self.what == "weight gradient" else "the output of"
        return f"the gradient of {owner} {name} ({_told(self)})"


_OPERATIONS = {
    "mm": "a matrix product", "bmm": "a matrix product", "addmm": "a matrix product",
    "baddbmm": "a matrix product", "linear": "a matrix product", "_to_copy": "a conversion",
    "_softmax": "softmax", "_log_softmax": "softmax", "softmax": "softmax", "div": "a division",
    "add": "an addition", "sub": "a subtraction", "rsub": "a subtraction",
    "mul": "a multiplication", "log": "a logarithm", "sqrt": "a square root",
    "rsqrt": "a square root", "sum": "a sum", "mean": "a mean", "exp": "an exponential",
    "pow": "a power", "native_layer_norm": "a layer norm", "_fused_rms_norm": "an RMS norm",
}  # fmt: skip


def _operation(origin: Origin) -> str:
    """For people: the operation that made it."""
    plain = origin.operator.rstrip("_")
    if not plain:
        return "a tensor that was handed in"
    return _OPERATIONS.get(plain, origin.operator)


def _told(counted: NonFinite | Origin) -> str:
    n = counted
    return f"{n.num_nan} NaN and {n.num_inf} infinite of {n.num_values:,} values"


def find_non_finite(model: nn.Module, run: Callable[[], Tensor]) -> NonFinite | None:
    """Find which part of `model` first gives a NaN or infinity; None when nothing does.

    An infinity that the code itself puts in (−inf in a mask) is none as long as no NaN comes of it.

    Args:
        model: the network as it was before the step, without gradients.
        run: forward and backward pass of one micro-batch, with the generators as they were;
            returns the loss.
    """
    name = first_non_finite_weight(model)
    if name is not None:
        return NonFinite("weights", name, **_counts(model.get_parameter(name)))
    with origins(model) as trail, _watched(model, trail) as sightings:
        loss = run()
        with quiet():
            loss_is_bad, made = not _is_finite(loss), trail.of(loss)
    # Forward comes before backward, and the loss between the two.
    outputs = [each for each in sightings if each.what == "output"]
    gradients = [each for each in sightings if each.what != "output"]
    if nan := next((each for each in outputs if each.num_nan), None):
        return nan
    if loss_is_bad:
        shown = (each for each in outputs if made is not None and each.origin is made)
        return next(shown, NonFinite("loss", dtype=_dtype_name(loss), origin=made))
    return next(iter([*gradients, *outputs]), None)


def first_non_finite_weight(model: nn.Module) -> str | None:
    """The name of the first parameter that holds a NaN or infinity, in this rank's part of it."""
    return next((name for name, p in model.named_parameters() if not _is_finite(p)), None)


@contextmanager
def _watched(model: nn.Module, trail: Trail) -> Iterator[list[NonFinite]]:
    """While the block runs, note non-finite outputs and gradients in the order they appear.

    An inner module returns before the module around it, so the first note names the innermost
    one. Gradients are watched by hooks on tensors: module backward hooks wrap inputs in copies
    and forbid in-place operations, which would change the step under examination.
    """
    sightings: list[NonFinite] = []
    handles: list[RemovableHandle] = []

    def watch_gradient(
        tensor: Tensor, what: Literal["gradient", "weight gradient"], name: str
    ) -> None:
        def look(gradient: Tensor) -> None:
            with quiet():
                if not _is_finite(gradient):
                    origin = trail.of(gradient)
                    sightings.append(NonFinite(what, name, origin=origin, **_counts(gradient)))

        handles.append(tensor.register_hook(look))  # type: ignore[no-untyped-call]

    def forward_hook(name: str) -> Callable[..., None]:
        def look(module: nn.Module, args: Any, kwargs: Any, outputs: Any) -> None:
            for tensor in floats(outputs):
                with quiet():
                    seen = _sighted(name, module, tensor, trail, [args, kwargs])
                if seen is not None:
                    sightings.append(seen)
                if tensor.requires_grad:
                    watch_gradient(tensor, "gradient", name)

        return look

    try:
        for name, module in model.named_modules():
            handles.append(module.register_forward_hook(forward_hook(name), with_kwargs=True))
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                watch_gradient(parameter, "weight gradient", name)
        yield sightings
    finally:
        for handle in handles:
            handle.remove()


def _sighted(
    name: str, module: nn.Module, tensor: Tensor, trail: Trail, inputs: Any
) -> NonFinite | None:
    """An output that is not finite, but for the −inf of a mask."""
    if _is_finite(tensor):
        return None
    origin, counts = trail.of(tensor), _counts(tensor)
    if origin is not None and not counts["num_nan"] and (origin.constant or _hides(origin)):
        return None
    return NonFinite(
        "output",
        name,
        type(module).__name__,
        largest_input=_largest(floats(inputs)),
        largest_weight=_largest(module.parameters(recurse=False)),
        origin=origin,
        **counts,
    )


def _hides(origin: Origin) -> bool:
    """Whether it is the logarithm of a mask."""
    return origin.operator.rstrip("_") == "log" and origin.detail.startswith("its operand is 0")


def _largest(tensors: Iterable[Tensor]) -> float | None:
    """Largest finite magnitude; None where there is no value."""
    largest = None
    for tensor in tensors:
        values = tensor.detach().float().abs()
        values = values[values.isfinite()]
        if values.numel():
            largest = max(largest or 0.0, float(values.max()))
    return largest


def _is_finite(tensor: Tensor) -> bool:
    if hasattr(tensor, "to_local"):  # sharded: the other ranks look at their parts
        tensor = tensor.to_local()
    values = tensor.coalesce().values() if tensor.is_sparse else tensor
    return bool(torch.isfinite(values.detach()).all())


def _counts(tensor: Tensor) -> dict[str, Any]:
    values = (tensor.coalesce().values() if tensor.is_sparse else tensor).detach()
    return {
        "num_nan": int(values.isnan().sum()),
        "num_inf": int(values.isinf().sum()),
        "num_values": values.numel(),
        "dtype": _dtype_name(values),
    }


def _dtype_name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def is_disk_full(error: BaseException) -> bool:
    """Whether `error` says that no space (or quota) is left on the device."""
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    # safetensors reports the system's error by its text only.
    text = str(error)
    return isinstance(error, SafetensorError) and any(
        f"os error {code}" in text for code in (errno.ENOSPC, errno.EDQUOT)
    )

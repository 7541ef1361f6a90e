"""Finds where the first NaN or infinity of a step came from, by running the step again."""

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


@dataclass(frozen=True)
class NonFinite:
    """Where the first NaN or infinity of a step arose.

    Attributes:
        what: "weights": a parameter holds it; "output": a module's output; "gradient": of a
            module's output; "weight gradient": of a parameter; "loss": no module gives it.
        name: dotted name of the module or parameter; empty for the whole model and the loss.
        module_kind: class of the module.
        num_nan, num_inf, num_values: counted over the tensor.
        largest_input: largest finite magnitude that the module read (outputs only).
        largest_weight: largest finite magnitude of its own parameters (outputs only).
        dtype: of the tensor.
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

    def __str__(self) -> str:
        name = self.name or "the whole model"
        count = f"{self.num_nan} NaN and {self.num_inf} infinite of {self.num_values:,} values"
        if self.what == "weights":
            return f"the weights themselves: {name} holds {count}"
        if self.what == "loss":
            return "the loss: every module's output is finite, the cross-entropy is not"
        if self.what == "output":
            return f"the output of {name} ({self.module_kind}; {count})"
        owner = "the weights" if self.what == "weight gradient" else "the output of"
        return f"the gradient of {owner} {name} ({count})"


def find_non_finite(model: nn.Module, run: Callable[[], Tensor]) -> NonFinite | None:
    """Find which part of `model` first gives a NaN or infinity; None when nothing does.

    Args:
        model: the network as it was before the step, without gradients.
        run: forward and backward pass of one micro-batch, with the generators as they were;
            returns the loss.
    """
    name = first_non_finite_weight(model)
    if name is not None:
        return NonFinite("weights", name, **_counts(model.get_parameter(name)))
    with _watched(model) as sightings:
        loss = run()
    # Forward comes before backward, and the loss between the two.
    if not _is_finite(loss) and (not sightings or sightings[0].what != "output"):
        return NonFinite("loss", dtype=_dtype_name(loss))
    return sightings[0] if sightings else None


def first_non_finite_weight(model: nn.Module) -> str | None:
    """The name of the first parameter that holds a NaN or infinity."""
    return next((name for name, p in model.named_parameters() if not _is_finite(p)), None)


@contextmanager
def _watched(model: nn.Module) -> Iterator[list[NonFinite]]:
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
            if not _is_finite(gradient):
                sightings.append(NonFinite(what, name, **_counts(gradient)))

        handles.append(tensor.register_hook(look))  # type: ignore[no-untyped-call]

    def forward_hook(name: str) -> Callable[..., None]:
        def look(module: nn.Module, args: Any, kwargs: Any, outputs: Any) -> None:
            for tensor in _floating_tensors(outputs):
                if not _is_finite(tensor):
                    seen = NonFinite(
                        "output",
                        name,
                        type(module).__name__,
                        largest_input=_largest(_floating_tensors([args, kwargs])),
                        largest_weight=_largest(module.parameters(recurse=False)),
                        **_counts(tensor),
                    )
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


def _largest(tensors: Iterable[Tensor]) -> float | None:
    """Largest finite magnitude; None where there is no value."""
    largest = None
    for tensor in tensors:
        values = tensor.detach().float().abs()
        values = values[values.isfinite()]
        if values.numel():
            largest = max(largest or 0.0, float(values.max()))
    return largest


def _floating_tensors(value: Any) -> Iterator[Tensor]:
    """All floating tensors in nested tuples, lists and dicts."""
    if isinstance(value, Tensor):
        if value.is_floating_point():
            yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _floating_tensors(item)
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _floating_tensors(item)


def _is_finite(tensor: Tensor) -> bool:
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

"""One call of the module, and what came out of it at each position."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gnomon.doctor.call import Call
from gnomon.doctor.finding import NotApplicable, Skip
from gnomon.probe import Record, observe

_LARGE = 2**20  # elements
_PREFERRED = ("logits", "last_hidden_state", "prediction_logits", "start_logits", "hidden_states")


@dataclass(frozen=True)
class Run:
    """What one call gave.

    Attributes:
        output: as the module returned it.
        tensors: its float tensors by path ("logits", "past_key_values.0.1" …).
        seen: what the probe saw, where it was asked to look.
    """

    call: Call
    output: Any
    tensors: Mapping[str, Tensor]
    seen: Record | None = None

    @property
    def record(self) -> Record:
        """What the probe saw in an observed run."""
        assert self.seen is not None, "this run was not observed"
        return self.seen

    @property
    def tokens(self) -> Tensor:
        """The output at each position, `[B, T, X]`: logits or the last hidden states.

        Raises:
            Skip: nothing in the output runs along the text; `NotApplicable` where all of it is one
                value or row for each text (a classifier's scores).
        """
        found = self._along_text()
        if found is None:
            rows = self.call.num_rows()
            if self.tensors and all(
                each.dim() < 3 and each.shape[:1] in ((), (rows,)) for each in self.tensors.values()
            ):
                raise NotApplicable("the model says something of each text, not of each position")
            shapes = {name: tuple(each.shape) for name, each in self.tensors.items()}
            raise Skip(f"no output has a value for each position: {shapes}")
        return found

    @property
    def main(self) -> Tensor:
        """`tokens` where there are some, else the first output, rows first."""
        found = self._along_text()
        if found is not None:
            return found
        for name in (*_PREFERRED, *self.tensors):
            if name in self.tensors and self.tensors[name].dim():
                return self.tensors[name]
        raise Skip("the module returns no float tensor that has rows")

    def _along_text(self) -> Tensor | None:
        rows, length = self.call.num_rows(), self.call.length(self.call.read)
        entry = self.call.entry(self.call.read)
        for name in (*_PREFERRED, *self.tensors):
            tensor = self.tensors.get(name)
            if tensor is None or tensor.dim() < 2:
                continue
            if entry.batch == 1 and tensor.dim() >= 3 and tensor.shape[:2] == (length, rows):
                return tensor.transpose(0, 1)
            if tensor.dim() >= 3 and tensor.shape[:2] == (rows, length):
                return tensor
            if tensor.dim() == 2 and tensor.size(0) == rows * length and rows * length > rows:
                return tensor.reshape(rows, length, -1)  # positions of all rows in one dimension
            if name == "start_logits" and tensor.shape == (rows, length):
                return tensor[..., None]
        return None


def run(module: nn.Module, call: Call, *, record: bool = False, keep_outputs: bool = False) -> Run:
    """Call the module; the generators and the mode are the caller's to set.

    Args:
        record: whether to look inside (which may switch off fused fast paths).
        keep_outputs: whether the record holds every submodule's output.
    """
    seen: Record | None = None
    if record:
        with observe(module, keep_outputs=keep_outputs) as seen:
            output = module(*call.args, **call.kwargs)
    else:
        output = module(*call.args, **call.kwargs)
    return Run(call, output, tensors(output), seen)


def tensors(output: Any) -> dict[str, Tensor]:
    """The float tensors in what a module returned, by path ("logits", "past_key_values.0.1" …)."""
    return dict(_tensors(output))


def _tensors(
    output: Any, path: str = "", inside: tuple[int, ...] = ()
) -> Iterator[tuple[str, Tensor]]:
    if isinstance(output, Tensor):
        if output.is_floating_point():
            yield path or "output", output.to_dense() if output.is_sparse else output
        return
    if isinstance(output, Mapping):
        items: Any = output.items()
    elif isinstance(output, tuple | list):
        items = enumerate(output)
        if hasattr(output, "_fields"):
            items = zip(output._fields, output, strict=True)
    elif is_dataclass(output) and not isinstance(output, type):
        items = ((name, getattr(output, name)) for name in output.__dataclass_fields__)
    else:
        return
    if id(output) in inside:  # it holds itself
        return
    for name, value in items:
        below = f"{path}.{name}" if path else str(name)
        yield from _tensors(value, below, (*inside, id(output)))


def difference(a: Tensor, b: Tensor, where: Tensor | None = None) -> float:
    """The largest difference at the positions `where`, in units of the values' own spread.

    Args:
        a, b: `[B, T, X]`; non-finite values at the same places are equal, else infinitely far.
        where: bool `[B, T]`; None: everywhere.
    """
    a, b = a.detach(), b.detach()
    if where is not None:
        where = where.to(a.device)
        a, b = a[where], b[where]
    if a.numel() == 0:
        return 0.0
    if a.numel() > _LARGE and a.shape == b.shape:
        return _difference_of_large(a.flatten(), b.flatten())
    a, b = a.double(), b.double()
    finite = a.isfinite()
    if not torch.equal(finite, b.isfinite()):
        return float("inf")
    a, b = a[finite], b[finite]
    if a.numel() == 0:
        return 0.0
    spread = float(a.std(correction=0)) or float(a.abs().max()) or 1.0
    return float((a - b).abs().max()) / spread


def _difference_of_large(a: Tensor, b: Tensor) -> float:
    """As `difference`, in parts: in doubles at once it would take ten times the tensors' memory."""
    parts = list(zip(torch.split(a, _LARGE), torch.split(b, _LARGE), strict=True))
    count, total, largest, apart = 0, 0.0, 0.0, 0.0
    for one, other in parts:
        finite = one.isfinite()
        if not torch.equal(finite, other.isfinite()):
            return float("inf")
        one, other = one[finite].double(), other[finite].double()
        if one.numel():
            count, total = count + one.numel(), total + float(one.sum())
            largest = max(largest, float(one.abs().max()))
            apart = max(apart, float((one - other).abs().max()))
    if not count:
        return 0.0
    kept = (one[one.isfinite()].double() for one, _ in parts)
    square = sum(float((one - total / count).square().sum()) for one in kept)
    return apart / (math.sqrt(square / count) or largest or 1.0)


def rounding(dtype: torch.dtype) -> float:
    """How far two orders of the same sums may lie apart, in units of the spread."""
    info = torch.finfo(dtype if dtype.is_floating_point else torch.float32)
    # Sound models of 4 layers were seen at up to 23 eps in fp32 and 5 eps in half precision.
    return (500 if info.bits >= 32 else 32) * info.eps

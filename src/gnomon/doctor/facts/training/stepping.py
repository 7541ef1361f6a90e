"""The user's own training step, run on the real objects with an optimizer that only listens."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.utils import get_total_norm
from torch.optim import Optimizer

from gnomon.doctor.call import Call
from gnomon.doctor.facts.training.optimizing import optimizer_of
from gnomon.doctor.finding import Skip
from gnomon.doctor.restore import rolled_back

if TYPE_CHECKING:
    from gnomon.doctor.case import Case

_KEPT = 4_000_000  # numbers of gradients that are kept from a step, the smallest tensors first


@dataclass(frozen=True)
class Stepped:
    """What one call of the user's step did.

    Attributes:
        updates: how often it called the optimizer's step.
        advanced: how far the schedule moved; None: it does not say.
        norm: of the whole gradient at the (last) optimizer step.
        gradients: some of it, by name.
    """

    updates: int
    advanced: int | None
    norm: float
    gradients: Mapping[str, Tensor]


def steps(case: Case, sequences: Mapping[str, Sequence[Call]]) -> dict[str, Stepped]:
    """Call `patient.step` on each sequence of micro-batches, one after another.

    Before the one called "again" the gradients that the last step left are overwritten: a step that
    clears them first does not see it. Weights do not move and dropout is off, so what differs
    between two steps is the batches.

    Raises:
        Skip: there is no step or optimizer, or the step never reaches the optimizer.
    """
    patient, optimizer = case.patient, optimizer_of(case)
    if patient.step is None:
        raise Skip("no step function was handed over")
    schedule = getattr(patient.schedule, "scheduler", patient.schedule)
    found: dict[str, Stepped] = {}
    with (
        rolled_back(case.module, optimizer, patient.schedule),
        kept_in_eval(case.module),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        for name, calls in sequences.items():
            for parameter in case.module.parameters():
                # "again" meets what the last step left, if it left anything, made unmistakable.
                if name == "again" and parameter.grad is not None:
                    _overwrite(parameter.grad)
                else:
                    parameter.grad = None
            before = getattr(schedule, "last_epoch", None)
            with _listening(optimizer, case.module) as heard, torch.enable_grad():
                patient.step([call.as_batch(patient.batch) for call in calls])
            if not heard:
                raise Skip("the step function never called the optimizer that was handed over")
            after = getattr(schedule, "last_epoch", None)
            moved = None if before is None or after is None else int(after) - int(before)
            found[name] = Stepped(len(heard), moved, *heard[-1])
    return found


def micro_batches(call: Call) -> dict[str, list[Call]]:
    """Two micro-batches of as different token counts as the rows allow, alone and together.

    Raises:
        Skip: there is one row only.
    """
    num = call.num_rows()
    if num < 2:
        raise Skip("the batch has one row: nothing to divide into micro-batches")
    counts = call.keep(call.read).sum(1).tolist()
    order = sorted(range(num), key=lambda row: counts[row])
    short, long = order[: num // 2], order[num // 2 :]
    first, second, both = call.rows(long), call.rows(short), call.rows(long + short)
    return {
        "first": [first],
        "again": [first],
        "second": [second],
        "two": [first, second],
        "one": [both],
    }


@contextmanager
def kept_in_eval(module: nn.Module) -> Iterator[None]:
    """The module stays in evaluation mode whatever is asked of it: no dropout."""
    module.eval()
    module.train = lambda mode=True: module  # type: ignore[method-assign]
    try:
        yield
    finally:
        del module.train


@contextmanager
def _listening(
    optimizer: Optimizer, module: nn.Module
) -> Iterator[list[tuple[float, dict[str, Tensor]]]]:
    """The optimizer's step takes note of the gradients instead of using them."""
    heard: list[tuple[float, dict[str, Tensor]]] = []

    def listen(closure: Any = None) -> None:
        if closure is not None:
            closure()
        gradients = {n: p.grad for n, p in module.named_parameters() if p.grad is not None}
        heard.append((norm_of(gradients), _some_of(gradients)))

    own = optimizer.__dict__.get("step")  # a schedule may have put its own counter here
    optimizer.step = listen  # type: ignore[method-assign, assignment]
    try:
        yield heard
    finally:
        if own is None:
            del optimizer.step
        else:
            optimizer.step = own  # type: ignore[method-assign]


def _overwrite(gradient: Tensor) -> None:
    """Noise in place of a gradient, unless it was set to zero already."""
    values = gradient.detach().to_dense()
    size = float(values.float().square().mean().sqrt())
    if size > 0 and not gradient.is_sparse:
        generator = torch.Generator().manual_seed(0)
        noise = torch.randn(gradient.shape, generator=generator)
        gradient.copy_((3 * size * noise).to(gradient))


def _some_of(gradients: Mapping[str, Tensor]) -> dict[str, Tensor]:
    kept: dict[str, Tensor] = {}
    room = _KEPT
    for name, gradient in sorted(gradients.items(), key=lambda each: each[1].numel()):
        room -= gradient.numel()
        if kept and room < 0:
            break
        kept[name] = gradient.detach().to_dense().double().clone()
    return kept


def norm_of(gradients: Mapping[str, Tensor | None] | Iterable[Tensor]) -> float:
    """The L2 norm of all gradients together."""
    values = gradients.values() if isinstance(gradients, Mapping) else gradients
    dense = [g.detach().to_dense().float() for g in values if g is not None]
    return float(get_total_norm(dense)) if dense else 0.0

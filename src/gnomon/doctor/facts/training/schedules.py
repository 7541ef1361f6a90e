"""The learning rate over the whole training, read off a schedule without moving it."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.optim import Optimizer

from gnomon.doctor.finding import Skip
from gnomon.doctor.patient import Patient
from gnomon.errors import in_one_line

_WITHOUT_A_PLAN = 10_000  # steps that are looked at where nobody says how long training is
_MOST = 20_000  # steps that a schedule is walked


@dataclass(frozen=True)
class Rates:
    """The learning rate (the largest of all groups) at the steps 0, 1, … that were looked at.

    Attributes:
        start: the step that the schedule stands at.
        ended: the step from which on the schedule refuses to go, if it does.
    """

    steps: tuple[int, ...]
    rates: tuple[float, ...]
    start: int = 0
    ended: int | None = None

    @property
    def peak(self) -> float:
        """The highest."""
        return max(self.rates)

    @property
    def warmup(self) -> int:
        """Steps until the rate first reaches half its peak."""
        return next(s for s, r in zip(self.steps, self.rates, strict=True) if r >= self.peak / 2)

    def spent(self, share: float) -> int | None:
        """The step after which the rate stays below this share of its peak; None: none."""
        last = 0
        for step, rate in zip(self.steps, self.rates, strict=True):
            if rate >= share * self.peak:
                last = step
        return None if last == self.steps[-1] else last + 1


def learning_rates(patient: Patient) -> Rates:
    """The rates of the planned training.

    Raises:
        Skip: there is no schedule, or it depends on what happens in training.
    """
    if patient.schedule is None:
        raise Skip("no schedule was handed over")
    try:
        found = _all_rates(patient, patient.schedule)
    except Skip:
        raise
    except Exception as error:  # the user's function may raise anything
        raise Skip(f"the schedule raises {in_one_line(error)}") from None
    for step, rate in zip(found.steps, found.rates, strict=True):
        if not math.isfinite(rate):
            raise Skip(f"the schedule gives a learning rate of {rate} at step {step}")
    return found


def _all_rates(patient: Patient, schedule: Any) -> Rates:
    planned = patient.planned_steps or _WITHOUT_A_PLAN
    steps = _looked_at(planned)
    if is_function(schedule):
        return _rates(steps, lambda step: float(schedule(step)))
    schedule = getattr(schedule, "scheduler", schedule)  # accelerate wraps it
    optimizer = getattr(schedule, "optimizer", None)
    if not isinstance(optimizer, Optimizer) or not hasattr(schedule, "state_dict"):
        raise Skip(f"a {type(schedule).__name__} is no torch scheduler and no function of the step")
    if isinstance(schedule, torch.optim.lr_scheduler.ReduceLROnPlateau):
        raise Skip("ReduceLROnPlateau depends on the validation loss")
    if isinstance(schedule, torch.optim.lr_scheduler.LambdaLR):
        lambdas, bases = schedule.lr_lambdas, schedule.base_lrs
        return _rates(
            steps,
            lambda step: max(float(b * f(step)) for b, f in zip(bases, lambdas, strict=True)),
            int(schedule.last_epoch),
        )
    return _walked(schedule, optimizer, min(planned, _MOST))


def is_function(schedule: Any) -> bool:
    """Whether it is a function of the step, which the user's loop writes into the optimizer."""
    return callable(schedule) and not hasattr(schedule, "step")


def set_peak(patient: Patient, optimizer: Optimizer) -> None:
    """Give the groups the highest rate of a schedule that is a function: theirs is not in use."""
    if is_function(patient.schedule):
        for group in optimizer.param_groups:
            group["lr"] = learning_rates(patient).peak


def _looked_at(planned: int) -> list[int]:
    near = range(min(planned, 2000))
    far = (planned * k // 500 for k in range(500))
    return sorted({*near, *far, max(planned - 1, 0)})


def _rates(steps: list[int], rate: Callable[[int], float], start: int = 0) -> Rates:
    found: list[float] = []
    for step in steps:
        try:
            found.append(rate(step))
        except (ZeroDivisionError, ValueError):
            if step or found:  # it ends here; a formula that divides by step 0 goes on at 1
                break
            found.append(0.0)
    if not found:
        raise Skip("the schedule gives no learning rate")
    ended = steps[len(found)] if len(found) < len(steps) else None
    return Rates(tuple(steps[: len(found)]), tuple(found), start, ended)


def _walked(schedule: Any, optimizer: Optimizer, num: int) -> Rates:
    start, rates, ended = int(schedule.last_epoch), [], None
    with unmoved(schedule, optimizer), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the optimizer has not stepped
        for step in range(start, max(num, start + 1)):
            rates.append(max(float(group["lr"]) for group in optimizer.param_groups))
            try:
                schedule.step()
            except ValueError:  # OneCycleLR counts its steps
                ended = step + 1
                break
    return Rates(tuple(range(start, start + len(rates))), tuple(rates), start, ended)


@contextmanager
def unmoved(schedule: Any, optimizer: Optimizer) -> Iterator[None]:
    """Put schedule and groups back as they were, the groups' dictionaries being the same ones."""
    state = copy.deepcopy(schedule.state_dict()) if hasattr(schedule, "state_dict") else None
    groups = kept_groups(optimizer)
    try:
        yield
    finally:
        if state is not None:
            schedule.load_state_dict(state)
        put_back_groups(optimizer, groups)


def kept_groups(optimizer: Optimizer) -> list[dict[str, Any]]:
    """What the groups say beside their parameters."""
    return [
        {key: copy.deepcopy(value) for key, value in group.items() if key != "params"}
        for group in optimizer.param_groups
    ]


def put_back_groups(optimizer: Optimizer, kept: list[dict[str, Any]]) -> None:
    """The reverse of `kept_groups`, in place."""
    for group, values in zip(optimizer.param_groups, kept, strict=True):
        for key in set(group) - set(values) - {"params"}:
            del group[key]
        for key, value in values.items():
            if isinstance(value, torch.Tensor) and isinstance(group.get(key), torch.Tensor):
                group[key].copy_(value)  # a rate on the device is changed in place
            else:
                group[key] = value

"""Learning one short batch by heart, to see what keeps a model from it; then all is put back."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import torch

from gnomon.doctor.call import Call
from gnomon.doctor.finding import Skip
from gnomon.doctor.restore import rolled_back

if TYPE_CHECKING:
    from gnomon.doctor.case import Case

SECONDS, _PATIENCE = 4.0, 12.0  # of the processor; of the clock, where others use it, too
_STEPS = 150
_ROWS, _LENGTH = 2, 16
_RATE = 3e-3


def short(case: Case) -> Call:
    """Two rows, cut short where the loss can be computed on it."""
    call = case.call
    rows = call.rows(range(min(_ROWS, call.num_rows())))
    cut = rows
    for stream in rows.streams:
        if rows.length(stream) > _LENGTH:
            cut = cut.cut(stream, 0, _LENGTH)
    for each in (cut, rows):
        try:
            with torch.no_grad():
                case.module.eval()
                case.loss(each)
        except Skip:
            raise
        except Exception:  # a loss that insists on the whole batch
            continue
        return each
    return call


def trained(
    case: Case, call: Call, *, steps: int = _STEPS, enough: float = 0.0, decay: bool = False
) -> list[float]:
    """The loss before each step of Adam, and after the last; without dropout.

    Args:
        enough: ends at this share of the first loss.
        decay: whether weight decay acts as the groups of the user's optimizer say.
    """
    losses: list[float] = []
    start, clock = time.process_time(), time.perf_counter()
    with rolled_back(case.module, None, None), torch.enable_grad():
        case.module.eval()
        parameters = [p for p in case.module.parameters() if p.requires_grad]
        optimizer = torch.optim.AdamW(_groups(case, parameters, decay), lr=_RATE, weight_decay=0.0)
        for number in range(steps + 1):
            loss = case.loss(call)
            losses.append(float(loss.detach()))
            used = (time.process_time() - start) / torch.get_num_threads()
            spent = used > SECONDS or time.perf_counter() - clock > _PATIENCE
            learned = max(losses[-3:]) < enough * losses[0]
            if spent or learned or losses[-1] != losses[-1]:
                break
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            for group in optimizer.param_groups:
                group["lr"] = _RATE * min(1.0, (number + 1) / 10)
            optimizer.step()
    return losses


def _groups(case: Case, parameters: list[torch.nn.Parameter], decay: bool) -> list[dict[str, Any]]:
    known = case.patient.optimizer.param_groups if decay and case.patient.optimizer else []
    decays = {id(p): group.get("weight_decay", 0.0) for group in known for p in group["params"]}
    by_decay: dict[float, list[torch.nn.Parameter]] = {}
    for parameter in parameters:
        by_decay.setdefault(float(decays.get(id(parameter), 0.0)), []).append(parameter)
    return [{"params": found, "weight_decay": value} for value, found in by_decay.items()]

"""Mends that can be tried on a copy at little cost, and the check made again on it."""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from gnomon.doctor.check import all_checks
from gnomon.doctor.facts.training.optimizing import optimizer_of
from gnomon.doctor.finding import Finding, Skip
from gnomon.doctor.patient import Patient
from gnomon.doctor.walks.effect import Effect, effect_of
from gnomon.doctor.walks.walk import Proof

if TYPE_CHECKING:
    from gnomon.doctor.case import Case

_SOFTMAX = {torch.softmax, torch.Tensor.softmax, nn.functional.softmax, torch._softmax}
_SDPA = nn.functional.scaled_dot_product_attention


def prove(case: Case, finding: Finding, *, learning: bool = False) -> Proof | None:
    """Try the mend of a finding; None where there is none that can be tried cheaply.

    Args:
        learning: also learn one batch with the mend and without it.
    """
    make = _MENDS.get(finding.code)
    if make is None or case.patient.module is None:
        return None
    try:
        tried, patient = make(case, finding)
    except Exception:  # a module that cannot be copied, a fact that is not to be had
        return None
    after = _again(patient, finding.code)
    if after.verdict in ("skip", "n/a"):
        return None
    holds = after.verdict == "pass"
    effect: Effect | None = None
    if learning and holds:
        with contextlib.suppress(Exception):  # there is no loss, or the model's code raises
            effect = effect_of(case, patient)
    said, matters = ("", None) if effect is None else (str(effect), effect.matters)
    gain = None if effect is None else effect.gain
    return Proof(tried, finding.evidence, after.evidence, holds, finding.code, said, gain, matters)


def _again(patient: Patient, code: str) -> Finding:
    from gnomon.doctor.examine import examine

    return examine(patient, [all_checks()[code]]).findings[0]


class BeforeSoftmax(TorchFunctionMode):
    """Changes what attention's softmax is given; `scale`: also what the fused kernel multiplies by.

    Only softmax over the last axis of a tensor with as many axes as scores have (3 or 4) is meant.
    """

    def __init__(self, change: Callable[[Tensor], Tensor], *, scale: bool) -> None:
        super().__init__()
        self._change, self._scale = change, scale

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Change the scores, then go on."""
        kwargs = dict(kwargs or {})
        if func in _SOFTMAX and isinstance(args[0], Tensor) and args[0].dim() in (3, 4):
            args = (self._change(args[0]), *args[1:])
        elif func is _SDPA and self._scale:
            kwargs["scale"] = args[0].size(-1) ** -0.5
        return func(*args, **kwargs)


def mended(module: nn.Module, mode: TorchFunctionMode) -> nn.Module:
    """A copy of a module whose forward pass runs under a mend; class and names are the same."""
    other = copy.deepcopy(module)
    plain = other.forward

    @functools.wraps(plain)  # its signature is asked for
    def forward(*args: Any, **kwargs: Any) -> Any:
        with mode:
            return plain(*args, **kwargs)

    other.forward = forward
    return other


def _under(case: Case, mode: TorchFunctionMode) -> Patient:
    module = case.patient.module
    assert module is not None
    return replace(case.patient, module=mended(module, mode), optimizer=None)


def _scaled(case: Case, finding: Finding) -> tuple[str, Patient]:
    wrong = set(finding.where)
    calls = [c for c in case.record.attention if c.query is not None and c.scale]
    seen = next((c for c in calls if c.module in wrong), calls[0] if calls else None)
    if seen is None or seen.query is None or seen.scale is None:
        raise Skip("no scores are seen")
    factor = seen.query.size(-1) ** -0.5 / seen.scale
    if abs(factor - 1) < 0.02:
        raise Skip("the scale is there")
    mode = BeforeSoftmax(lambda scores: scores * factor, scale=True)
    return f"scores of a copy multiplied by {factor:.4g} before softmax", _under(case, mode)


def _finite(case: Case, finding: Finding) -> tuple[str, Patient]:
    def change(scores: Tensor) -> Tensor:
        return scores.masked_fill(scores == -torch.inf, torch.finfo(scores.dtype).min)

    mode = BeforeSoftmax(change, scale=False)
    return "mask constants of a copy replaced by torch.finfo(dtype).min", _under(case, mode)


def _regrouped(case: Case, finding: Finding) -> tuple[str, Patient]:
    optimizer = optimizer_of(case)
    groups: list[dict[str, Any]] = []
    for group in optimizer.param_groups:
        options = {name: value for name, value in group.items() if name != "params"}
        matrices = [p for p in group["params"] if p.dim() > 1]
        others = [p for p in group["params"] if p.dim() < 2]
        groups += [{**options, "params": matrices}] if matrices else []
        groups += [{**options, "params": others, "weight_decay": 0.0}] if others else []
    remade = copy.copy(optimizer)
    remade.param_groups = groups
    return (
        "the groups made again by rule: no decay for what has fewer than two dimensions",
        replace(case.patient, optimizer=remade),
    )


_MENDS: dict[str, Callable[[Case, Finding], tuple[str, Patient]]] = {
    "score-scale": _scaled,
    "saturated-softmax": _scaled,
    "non-finite": _finite,
    "empty-row": _finite,
    "mask-constant": _finite,
    "decay-on-norms": _regrouped,
}

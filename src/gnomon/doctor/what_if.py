"""How grave it is that something would break in fp16 or bf16."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import torch

from gnomon.doctor.finding import Outcome, failure, passed, warning

if TYPE_CHECKING:
    from gnomon.doctor.case import Case

HIGHEST_FP16 = 65_504.0
LOWEST_FP16 = 2.0**-24  # the smallest number above 0
_DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}


def judged(
    case: Case,
    precision: Literal["fp16", "bf16"],
    evidence: str,
    *,
    where: str | Sequence[str] = (),
    cause: str = "",
    mend: str = "",
    certain: bool = True,
    **numbers: Any,
) -> Outcome:
    """A failure where the model runs in this precision, a warning where nobody says, else a pass.

    Args:
        certain: whether it breaks for a fact; else it is a warning at most.
    """
    if runs_in(case, precision):
        verdict = failure if certain else warning
        return verdict(evidence, where=where, cause=cause, mend=mend, **numbers)
    if case.patient.precision is not None or case.dtype in _DTYPES.values():
        return passed(f"{evidence}; but it does not run in {precision}", **numbers)
    return warning(f"in {precision}: {evidence}", where=where, cause=cause, mend=mend, **numbers)


def follows_dtype(constant: float, *dtypes: torch.dtype) -> bool:
    """Whether it is the lowest number of one of these dtypes (of any, where none is named)."""
    known = dtypes or (torch.float32, *_DTYPES.values())
    return any(abs(constant / torch.finfo(each).min - 1) < 1e-5 for each in known)


def runs_in(case: Case, precision: Literal["fp16", "bf16"]) -> bool:
    """Whether that is what training or serving computes in."""
    return case.patient.precision == precision or case.dtype == _DTYPES[precision]

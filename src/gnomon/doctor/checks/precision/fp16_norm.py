"""fp16-norm: norms compute their variance in fp32."""

import copy
from typing import Any, Literal

import torch

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.layers.norms import Norm, norms
from gnomon.doctor.finding import Outcome, Skip, passed
from gnomon.doctor.what_if import judged, runs_in

_FAULTY = """
    import torch
    from torch import nn

    class RMSNorm(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(32))

        def forward(self, x):
            return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * self.weight

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(50, 32)
            nn.init.normal_(self.embed.weight, std=400.0)
            self.norm = RMSNorm()
            self.attention = nn.MultiheadAttention(32, 2, batch_first=True)

        def forward(self, ids):
            x = self.norm(self.embed(ids))
            return self.attention(x, x, x, need_weights=False)[0]

    def patient():
        torch.manual_seed(0)
        ids = torch.randint(1, 50, (2, 8))
        return {"module": Model(), "batch": {"ids": ids}, "precision": "fp16"}
"""
_MENDED = _FAULTY.replace(
    "return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * self.weight",
    """wide = x.float()
            wide = wide * (wide.square().mean(-1, keepdim=True) + 1e-6).rsqrt()
            return wide.to(x.dtype) * self.weight""",
)
_OFF = 0.05
_DTYPES: tuple[tuple[Literal["fp16", "bf16"], torch.dtype], ...] = (
    ("fp16", torch.float16), ("bf16", torch.bfloat16),
)  # fmt: skip


@check(
    code="fp16-norm",
    title="Norms survive half precision",
    fault="Norms would not survive half precision",
    cost="probe",
    cause="A norm written by hand squares in half precision: above 256 that overflows fp16, "
    "below 2.4e-4 it is 0.",
    mend="Convert to fp32 inside the norm and back behind it, or use nn.LayerNorm / nn.RMSNorm.",
    reference="PyTorch documentation, automatic mixed precision: ops that autocast to float32; "
    "Zhang & Sennrich 2019",
    symptoms=("nan",),
    example=_FAULTY,
    mended=_MENDED,
)
def fp16_norm(case: Case) -> Outcome:
    """A variance is a mean of squares, and squares leave fp16's range twice as fast.

    A copy of each norm in half precision is called with the input that it really got, and compared
    with the original.
    """
    found = [norm for norm in norms(case) if norm.module is not None]
    if not found:
        raise Skip("no norm was seen that could be called by itself")
    worst: dict[str, float] = {}
    for precision, dtype in _DTYPES:
        off = {norm.name: value for norm in found if (value := _off(norm, dtype)) is not None}
        broken = [name for name, value in off.items() if value > _OFF]
        worst[precision] = max(off.values(), default=0.0)
        if broken and (precision == "fp16" or runs_in(case, "bf16")):
            value = off[broken[0]]
            what = "not finite" if value == float("inf") else f"off by {value:.0%} of its size"
            return judged(
                case,
                precision,
                f"the output of {broken[0]} is {what} when it computes in {precision} "
                f"({len(broken)} of {len(found)} norms)",
                where=broken,
                off=value,
            )
    numbers: dict[str, Any] = {"fp16": worst["fp16"], "bf16": worst["bf16"]}
    return passed(
        f"{len(found)} norms in fp16 are off by {worst['fp16']:.1%} of their size at most",
        **numbers,
    )


def _off(norm: Norm, dtype: torch.dtype) -> float | None:
    """The largest error as a share of the output's size; infinite where it is not finite."""
    x = norm.call.input.detach()
    if float(x.abs().max()) > torch.finfo(dtype).max:
        return None  # the stream itself does not fit: another finding
    try:
        low = norm(x.to(dtype), copy.deepcopy(norm.module).to(dtype)).double()  # type: ignore[union-attr]
        high = norm(x).double()
    except Exception:  # no kernel for this dtype on this device
        return None
    if not bool(high.isfinite().all()):
        return None
    if not bool(low.isfinite().all()):
        return float("inf")
    size = high.square().mean().sqrt().clamp_min(1e-12)
    return float((low - high).square().mean().sqrt() / size)

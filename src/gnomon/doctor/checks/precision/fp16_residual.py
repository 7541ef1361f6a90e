"""fp16-residual: the residual stream fits into half precision, and what is added to it counts."""

from typing import Any

import torch
from torch import Tensor

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.finding import Outcome, Skip, passed
from gnomon.doctor.what_if import HIGHEST_FP16, judged, runs_in

_FAULTY = """
    import torch
    from torch import nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(50, 32)
            self.layers = nn.ModuleList(
                nn.TransformerEncoderLayer(32, 2, 64, batch_first=True, norm_first=True)
                for _ in range(3)
            )
            with torch.no_grad():
                self.layers[1].linear2.weight.mul_(1e6)

        def forward(self, ids):
            x = self.embed(ids)
            for layer in self.layers:
                x = layer(x)
            return x

    def patient():
        torch.manual_seed(0)
        ids = torch.randint(1, 50, (2, 8))
        return {"module": Model(), "batch": {"ids": ids}, "precision": "fp16"}
"""
_MENDED = _FAULTY.replace("mul_(1e6)", "mul_(1.0)")
_CLOSE = 0.25


@check(
    code="fp16-residual",
    title="The residual stream fits into half precision",
    fault="The residual stream would not fit into half precision",
    cost="probe",
    cause="Sublayers add more and more to a stream that no norm brings back (pre-norm).",
    mend="Keep the stream in fp32 or bf16, which has fp32's range (to 3.4e38); draw the last "
    "projection of each sublayer smaller by 1 / √(2N).",
    reference="transformers #4586, #10956 (T5); Radford et al. 2019, section 2.3 (init by depth)",
    symptoms=("nan",),
    example=_FAULTY,
    mended=_MENDED,
)
def fp16_residual(case: Case) -> Outcome:
    """The stream between pre-norm layers only grows: beyond 65,504 it is infinite in fp16.

    In bf16, which has eight bits, a sublayer that adds less than 1/512 of the stream adds nothing.
    Both are read off one pass in the model's own precision.
    """
    record = case.seen.record
    largest: dict[str, float] = {}
    swallowed: dict[str, float] = {}
    inputs = _inputs(case)
    for name in case.block_names:
        calls = record.modules.get(name, [])
        if not calls or not calls[0].outputs:
            continue
        largest[name] = calls[0].outputs[0].absmax
        if name in inputs and calls[0].tensors and calls[0].tensors[0].shape == inputs[name].shape:
            swallowed[name] = _swallowed(inputs[name], calls[0].tensors[0])
    if not largest:
        raise Skip("no layer's output was seen")
    numbers: dict[str, Any] = {"by_depth": largest}
    over = [name for name, size in largest.items() if not size <= HIGHEST_FP16]
    worst = max(largest, key=lambda each: largest[each])
    evidence = f"the stream reaches {largest[worst]:.3g}, behind {worst} (fp16 ends at 65,504)"
    if over:
        return judged(
            case,
            "fp16",
            f"the stream is {largest[over[0]]:.3g} behind {over[0]}; fp16 ends at 65,504",
            where=over,
            **numbers,
        )
    lost = [name for name, share in swallowed.items() if share > 0.5]
    if lost and runs_in(case, "bf16"):
        return judged(
            case,
            "bf16",
            f"{swallowed[lost[0]]:.0%} of what {lost[0]} adds to the stream is below half a step "
            "of bf16 there",
            where=lost,
            cause="The stream is so large that what a layer adds to it is rounded away.",
            certain=False,
            **numbers,
        )
    if largest[worst] > _CLOSE * HIGHEST_FP16 and runs_in(case, "fp16"):
        return judged(case, "fp16", evidence, where=[worst], certain=False, **numbers)
    return passed(evidence, **numbers)


def _inputs(case: Case) -> dict[str, Tensor]:
    """What each layer reads, `[B, T, D]`."""
    seen: dict[str, Tensor] = {}
    handles = []
    for name in case.block_names:

        def keep(_: Any, args: Any, kwargs: Any, name: str = name) -> None:
            values = [v for v in (*args, *kwargs.values()) if isinstance(v, Tensor)]
            for value in values:
                if value.is_floating_point():
                    seen.setdefault(name, value.detach())
                    return

        module = case.module.get_submodule(name)
        handles.append(module.register_forward_pre_hook(keep, with_kwargs=True))
    try:
        case.run(case.small, record=True)  # watched: no fused fast path
    finally:
        for handle in handles:
            handle.remove()
    return seen


def _swallowed(before: Tensor, after: Tensor) -> float:
    """The share of features whose change is below half a step of bf16."""
    change = (after - before).float()
    half = torch.finfo(torch.bfloat16).eps / 2 * before.float().abs()
    counted = change != 0
    return float((change.abs() < half / 2)[counted].float().mean()) if bool(counted.any()) else 0.0

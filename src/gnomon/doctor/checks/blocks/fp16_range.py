"""fp16-range: activations fit into fp16."""

import torch

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.finding import Outcome, passed
from gnomon.doctor.what_if import HIGHEST_FP16, judged

_FAULTY = """
    import torch
    from torch import nn

    def patient():
        torch.manual_seed(0)
        module = nn.TransformerEncoderLayer(32, 2, 64, batch_first=True)
        with torch.no_grad():
            module.linear1.weight.mul_(1e3)
            module.linear2.weight.mul_(1e3)
        return {"module": module, "batch": {"src": torch.randn(2, 6, 32)}, "precision": "fp16"}
"""
_MENDED = _FAULTY.replace(".mul_(1e3)", ".mul_(1.0)")
_CLOSE = 0.25


@check(
    code="fp16-range",
    title="Activations fit into fp16",
    fault="Activations leave the range of fp16",
    cost="probe",
    cause="A projection's output is larger than fp16 can hold: the weights were trained in bf16 or "
    "fp32, where nothing keeps them small.",
    mend="Compute in bf16, which keeps fp32's range (to 3.4e38) where float16 ends at 65,504, or "
    "keep this projection in fp32.",
    reference="transformers #5651, #9295: the output of T5's feed-forward; 65,504 is the "
    "largest fp16 number",
    symptoms=("nan",),
    example=_FAULTY,
    mended=_MENDED,
)
def fp16_range(case: Case) -> Outcome:
    """Beyond 65,504 fp16 is infinite, and the next norm or softmax makes NaN of it.

    The largest magnitude of every submodule's output is taken from one pass in the model's own
    precision; the first one that would not fit is named. A weight that does not fit is infinite as
    soon as autocast makes fp16 of it.
    """
    if large := _large_weights(case):
        name, size = next(iter(large.items()))
        return judged(
            case,
            "fp16",
            f"{len(large)} weights do not fit into fp16; the first is {name}, with values up to "
            f"{size:.4g}, and fp16 ends at 65,504",
            where=list(dict.fromkeys(each.rpartition(".")[0] for each in large)),
            cause="The weights themselves have grown (or were loaded) larger than fp16 can hold: "
            "autocast makes infinities of them.",
            mend="Compute in bf16, which keeps fp32's range (to 3.4e38) where float16 ends at "
            "65,504; or go back to weights from before they grew.",
            largest=size,
            first=name,
        )
    record = case.seen.record
    sizes = [
        (calls[0].order, name, max(o.absmax for call in calls for o in call.outputs))
        for name, calls in record.modules.items()
        if name and calls and all(call.outputs for call in calls)
        and not any(True for _ in case.module.get_submodule(name).children())
    ]  # fmt: skip
    sizes = [(order, name, size) for order, name, size in sorted(sizes) if size == size]
    if not sizes:
        return passed("no submodule's output to measure")
    over = [(name, size) for _, name, size in sizes if size > HIGHEST_FP16]
    largest = max(sizes, key=lambda each: each[2])
    evidence = f"the largest activation is {largest[2]:.3g}, of {largest[1]} (fp16 ends at 65,504)"
    if over:
        name, size = over[0]
        return judged(
            case,
            "fp16",
            f"{len(over)} modules' outputs do not fit into fp16; the first is that of {name}: "
            f"{size:.3g} (fp16 ends at 65,504)",
            where=[each for each, _ in over],
            largest=largest[2],
            first=name,
        )
    if largest[2] > _CLOSE * HIGHEST_FP16 and case.patient.precision == "fp16":
        return judged(case, "fp16", evidence, where=[largest[1]], certain=False, largest=largest[2])
    return passed(evidence, largest=largest[2])


def _large_weights(case: Case) -> dict[str, float]:
    """Of parameters that autocast converts, those beyond fp16's range, with their size."""
    sizes = {
        name: float(p.detach().abs().max())
        for name, p in case.module.named_parameters()
        if p.dim() > 1 and p.numel() and p.dtype != torch.float16 and p.is_floating_point()
    }
    return {name: size for name, size in sizes.items() if HIGHEST_FP16 < size < float("inf")}

"""bf16-update: an update is large enough to change the weights it is added to."""

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from gnomon.doctor.as_found import Weights
from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.beside.converted import converted
from gnomon.doctor.facts.training.optimizing import held, optimizer_of
from gnomon.doctor.finding import Outcome, Skip, failure, passed, warning
from gnomon.doctor.restore import rolled_back

_FAULTY = """
    import torch
    from torch import nn

    def patient():
        torch.manual_seed(0)
        module = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).bfloat16()
        return {
            "module": module, "optimizer": torch.optim.AdamW(module.parameters(), lr=1e-5),
            "batch": {"src": torch.randn(2, 6, 16).bfloat16()},
        }
"""
_MENDED = _FAULTY.replace(".bfloat16()", "")
_MOST = 0.5  # of all weights that may stand still


@check(
    code="bf16-update",
    title="Updates are not swallowed by rounding",
    fault="Updates are swallowed by rounding",
    cost="step",
    cause="The weights are stored in a dtype whose steps are coarser than the updates; there is no "
    "fp32 master copy.",
    mend="Keep the parameters in fp32 and compute in bf16 under autocast; or an optimizer with a "
    "master copy or stochastic rounding.",
    reference="Micikevicius et al. 2018, section 3.1; Zamirai et al. 2020, Revisiting BFloat16",
    symptoms=("stuck",),
    example=_FAULTY,
    mended=_MENDED,
)
def bf16_update(case: Case) -> Outcome:
    """bf16 has eight bits: adding less than 1/512 of a weight to it leaves it as it was.

    A norm's gain of 1 cannot move at any rate below 0.002. One step at the schedule's peak rate is
    made with real gradients, and the weights that stay bit for bit the same are counted; then it
    is taken back.
    """
    optimizer = optimizer_of(case)
    coarse = [h for h in held(case) if h.parameter.dtype in (torch.bfloat16, torch.float16)]
    if not coarse:
        return passed("all weights in the optimizer are in fp32 or better")
    try:
        peak: float | None = case.learning_rates.peak
    except Skip:
        peak = None
    gradients = _gradients(case)
    still: dict[str, float] = {}
    asked = stood = 0
    with rolled_back(case.module, optimizer, case.patient.schedule):
        before = Weights(h.parameter for h in coarse)  # copied already: no second copy
        for name, parameter in case.module.named_parameters():
            gradient = gradients.get(name)
            parameter.grad = None if gradient is None else gradient.to(parameter, copy=True)
        for group in optimizer.param_groups if peak is not None else ():
            group["lr"] = peak
        optimizer.step()
        for each, (_, _, value) in zip(coarse, before.kept, strict=True):
            gradient = gradients.get(each.name)
            if gradient is None or not bool((gradient != 0).any()):
                continue
            moved = each.parameter.detach() != value.to(each.parameter.device)
            wanted = int((gradient != 0).sum())
            same = int((~moved & (gradient != 0)).sum())
            asked, stood = asked + wanted, stood + same
            still[each.name] = same / wanted
    if not asked:
        raise Skip("no weight in half precision gets a gradient")
    share = stood / asked
    stuck = [name for name, each in still.items() if each > 0.99]
    rate = peak if peak is not None else optimizer.param_groups[0]["lr"]
    evidence = (
        f"at the rate {float(rate):.2g} a step leaves {share:.0%} of the weights with a gradient "
        "bit for bit as they were"
    )
    worst = [name for name, each in sorted(still.items(), key=lambda x: -x[1]) if each > _MOST]
    if share > _MOST:
        return failure(evidence, where=worst, share=share, stuck=len(stuck))
    if stuck:
        return warning(
            f"{evidence}, and all of {len(stuck)} parameters", where=stuck, share=share,
            stuck=len(stuck),
        )  # fmt: skip
    return passed(evidence, share=share)


def _gradients(case: Case) -> Mapping[str, Tensor | None]:
    """Of the model as it is, or of a copy in fp32: half-precision weights may need autocast."""
    try:
        return case.gradients
    except Skip:
        raise
    except Exception:
        wide = converted(case.module, torch.float32)
        return Case(replace(case.patient, module=wide)).gradients

"""warmup: the learning rate rises over the first steps where Adam needs it."""

from typing import Any

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.training.optimizing import held, is_adaptive, optimizer_of
from gnomon.doctor.finding import NotApplicable, Outcome, passed, warning

_FAULTY = """
    import torch
    from torch import nn

    def patient():
        torch.manual_seed(0)
        module = nn.TransformerEncoderLayer(64, 2, 128, batch_first=True)
        optimizer = torch.optim.Adam(module.parameters(), lr=1e-3)
        return {"module": module, "optimizer": optimizer, "schedule": lambda step: 1e-3}
"""
_MENDED = _FAULTY.replace("lambda step: 1e-3", "lambda step: 1e-3 * min(1.0, (step + 1) / 1000)")
_SHARE = 0.003  # of a weight's size that one step may take without warm-up (fine-tuning does)
_FEW = 10  # steps that are no warm-up


@check(
    code="warmup",
    title="The learning rate warms up",
    fault="The learning rate does not warm up as it should",
    cost="static",
    cause="The schedule starts at its peak.",
    mend="Raise the rate linearly over the first steps: 4,000 in Vaswani et al. 2017; at least "
    "2 / (1 - β2), so 100 for β2 = 0.98 and 2,000 for 0.999.",
    reference="Vaswani et al. 2017, section 5.3; Ma & Yarats 2021; Liu et al. 2020 (RAdam)",
    symptoms=("stuck", "nan"),
    example=_FAULTY,
    mended=_MENDED,
)
def warmup(case: Case) -> Outcome:
    """Adam's second moment is unsettled at first, so its first steps are all of full size.

    Without warm-up they can throw attention onto one token, from where it does not come back. It
    matters where a step is large beside the weights: training from scratch, not fine-tuning.
    """
    rates, optimizer = case.learning_rates, optimizer_of(case)
    if rates.peak <= 0:
        return warning(
            "the schedule's learning rate is 0 at every step",
            cause="The schedule multiplies the rate with 0, or its units are wrong.",
            mend="Print the rate at the first, the middle and the last step.",
        )
    planned = case.patient.planned_steps
    rising = rates.rates.index(rates.peak) == len(rates.rates) - 1
    if planned is not None and rising and rates.rates[0] < rates.peak / 2:
        return warning(
            f"the rate is still rising at the last of {planned} planned steps: the warm-up is "
            "longer than the training",
            cause="The warm-up was set for a longer training.",
            mend="A warm-up of 1 to 10 % of the steps.",
            peak=rates.peak,
        )
    if rates.start > 0:
        raise NotApplicable(f"the schedule stands at step {rates.start}: the first steps are over")
    if not is_adaptive(optimizer):
        raise NotApplicable("the optimizer is not of Adam's kind")
    sizes = sorted(
        float(h.parameter.detach().float().square().mean().sqrt())
        for h in held(case)
        if h.parameter.dim() >= 2 and h.parameter.numel()
    )
    if not sizes:
        raise NotApplicable("the optimizer holds no matrix")
    share = rates.peak / max(sizes[len(sizes) // 2], 1e-12)
    numbers: dict[str, Any] = {"warmup": rates.warmup, "peak": rates.peak, "share": share}
    evidence = (
        f"the rate is at half of its peak {rates.peak:.2g} after {rates.warmup} steps, and a step "
        f"at the peak moves a weight by {share:.1%} of its size"
    )
    if rates.warmup >= _FEW or share < _SHARE:
        return passed(evidence, **numbers)
    return warning(evidence, **numbers)

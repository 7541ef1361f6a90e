"""gradient-ratio: one step moves the weights, by a small part of their size."""

import torch

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.training.optimizing import is_adaptive, optimizer_of
from gnomon.doctor.facts.training.schedules import set_peak
from gnomon.doctor.finding import Outcome, Skip, passed, warning
from gnomon.doctor.monitors.updates import FAULT, TITLE, Updates, judge
from gnomon.doctor.restore import rolled_back

_FAULTY = """
    import torch
    from torch import nn

    def patient():
        torch.manual_seed(0)
        module = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        optimizer = torch.optim.AdamW(module.parameters(), lr=0.3)
        return {"module": module, "optimizer": optimizer, "batch": (torch.randn(2, 8, 16),)}
"""
_MENDED = _FAULTY.replace("lr=0.3", "lr=0.0003")

_WHOLE = 1.0


@check(
    code="gradient-ratio",
    title=TITLE,
    fault=FAULT,
    cost="step",
    cause="The learning rate does not fit the size of the weights.",
    mend="Choose the peak learning rate so that a step moves a matrix by about a thousandth.",
    reference="Karpathy, A Recipe for Training Neural Networks (update:data ratio)",
    symptoms=("stuck", "nan"),
    example=_FAULTY,
    mended=_MENDED,
)
def gradient_ratio(case: Case) -> Outcome:
    """Steps that are far too large throw away what was learned; steps of nothing learn nothing.

    One step of the real optimizer is taken at its present learning rate (at the highest, where the
    schedule is a function of the step), and rolled back. Adam's steps are as long as the rate says:
    what is within bounds at the begin of a warm-up is held against the schedule's peak, too, and
    told where a step would be as large as the weights.
    """
    module, optimizer = case.module, optimizer_of(case)
    monitor = Updates(module)
    with rolled_back(module, optimizer, case.patient.schedule), torch.enable_grad():
        module.eval()
        set_peak(case.patient, optimizer)
        case.any_loss(case.call).backward()  # type: ignore[no-untyped-call]
        monitor.on_gradients(1)
        optimizer.step()
        gradients, ratios = monitor.measure()
        rates = [float(group["lr"]) for group in optimizer.param_groups]
    if not any(rates):
        raise Skip("its learning rate is 0 now")
    found = judge(module, gradients, ratios)
    if found is None:
        middle = sorted(ratios.values())[len(ratios) // 2] if ratios else 0.0
        peak = middle * _rise(case, max(rates))
        if peak > _WHOLE and is_adaptive(optimizer):
            return warning(
                f"at the peak of its schedule, {case.learning_rates.peak:.3g}, a step as now moves "
                f"the median matrix by {peak:.0%} of its size (about 0.1 % is usual)",
                median=middle,
                peak=peak,
            )
        return passed(f"a step moves the median matrix by {middle:.2%} of its size", median=middle)
    return warning(
        found.evidence, where=found.where, cause=found.cause, mend=found.mend, **found.numbers
    )


def _rise(case: Case, rate: float) -> float:
    """How many times as high the learning rate will be at its peak; 1 where nobody knows."""
    try:
        known = case.learning_rates
    except Skip:
        return 1.0
    return max(1.0, known.peak / rate)

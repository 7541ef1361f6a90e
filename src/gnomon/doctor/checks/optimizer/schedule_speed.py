"""schedule-speed: the schedule moves once with each optimizer step, and ends with training."""

from typing import Any

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.finding import Outcome, Skip, failure, passed

_FAULTY = """
    import torch
    from torch import nn

    def patient():
        torch.manual_seed(0)
        module = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, total_iters=1000)

        def step(batches):
            optimizer.zero_grad()
            for batch in batches:
                module(**batch).square().mean().backward()
                schedule.step()  # once for each micro-batch
            optimizer.step()

        return {
            "module": module, "optimizer": optimizer, "schedule": schedule, "step": step,
            "batch": {"src": torch.randn(4, 6, 16)},
        }
"""
_MENDED = _FAULTY.replace(
    """                schedule.step()  # once for each micro-batch
            optimizer.step()""",
    """            optimizer.step()
            schedule.step()""",
)
_GONE, _EARLY = 0.005, 0.5  # the share of the peak, the share of the planned steps


@check(
    code="schedule-speed",
    title="The schedule keeps step with the optimizer",
    fault="The schedule does not keep step with the optimizer",
    cost="step",
    cause="The schedule is stepped for every micro-batch or process instead of every update.",
    mend="Step the schedule once after each optimizer step, and count its length in optimizer "
    "steps.",
    reference="accelerate #2926, diffusers #8312, transformers #24088",
    symptoms=("stuck", "slow"),
    example=_FAULTY,
    mended=_MENDED,
)
def schedule_speed(case: Case) -> Outcome:
    """A schedule that runs too fast has used up the learning rate long before training ends.

    One real step over two micro-batches is made without moving weights, and the schedule is
    watched; its curve is compared with the planned number of steps.
    """
    rates, planned = case.learning_rates, case.patient.planned_steps
    if planned is not None:
        spent = rates.spent(_GONE)
        over = next((s for s in (rates.ended, spent) if s is not None), None)
        if over is not None and over < _EARLY * planned:
            return failure(
                f"the learning rate is spent after {over} of {planned} planned steps",
                cause="The schedule's length was counted in other units than optimizer steps "
                "(epochs, micro-batches divided by processes), or set for a shorter training.",
                mend=f"Give the schedule its length in optimizer steps: {planned}.",
                spent=over,
                planned=planned,
            )
    try:
        first = case.stepped["two"]
    except Skip as reason:
        if planned is None:
            raise Skip(f"neither planned_steps nor a step to watch: {reason}") from None
        return passed(f"the rate lasts for the {planned} planned steps", planned=planned)
    if first.advanced is None:
        raise Skip("the schedule does not count its steps")
    numbers: dict[str, Any] = {"advanced": first.advanced, "updates": first.updates}
    evidence = (
        f"one step over 2 micro-batches made {first.updates} optimizer steps and moved the "
        f"schedule by {first.advanced}"
    )
    if first.advanced == first.updates:
        return passed(evidence, **numbers)
    if first.advanced == 0:
        return failure(
            evidence,
            cause="The schedule is never stepped: the rate stays where it starts (at 0, or at its "
            "peak).",
            mend="Step the schedule after each optimizer step.",
            **numbers,
        )
    return failure(evidence, **numbers)

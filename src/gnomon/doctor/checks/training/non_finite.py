"""non-finite: outputs, loss and gradients hold no NaN and no infinity."""

import torch

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.finding import Outcome, passed
from gnomon.doctor.monitors.autopsy import FAULT, REFERENCE, TITLE, explain, look_into
from gnomon.doctor.restore import untouched

_FAULTY = """
    import torch
    from torch import nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(50, 16)
            self.query, self.key, self.value = (nn.Linear(16, 16) for _ in range(3))

        def forward(self, ids):
            x = self.embed(ids)
            scores = self.query(x) @ self.key(x).transpose(1, 2) / 4
            keep = torch.ones(len(ids), 8, 8).tril(-1).bool()  # the first token sees nothing
            weights = scores.masked_fill(~keep, float("-inf")).softmax(-1)
            return weights @ self.value(x)

    def patient():
        torch.manual_seed(0)
        return {"module": Model(), "batch": {"ids": torch.randint(1, 50, (2, 8))}}
"""
_MENDED = _FAULTY.replace("tril(-1).bool()  # the first token sees nothing", "tril().bool()")


@check(
    code="non-finite",
    title=TITLE,
    fault=FAULT,
    cost="probe",
    cause="A value left the range of its number format, or a division by 0.",
    mend="Look at the operation that is named first, and at what it read.",
    reference=REFERENCE,
    symptoms=("nan",),
    example=_FAULTY,
    mended=_MENDED,
)
def non_finite(case: Case) -> Outcome:
    """One NaN reaches every weight with the next step, and the run is lost.

    The pass is made once under watch, forward and backward, and once under the probe. The first
    operation that makes NaN or infinity of finite numbers is named, with its module, its line, and
    in attention the size of the scores. A crash bundle is made again as it was recorded.
    """
    if case.patient.replay is not None:
        return case.patient.replay()
    module, call = case.module, case.call

    def run() -> torch.Tensor:
        loss = case.any_loss(call)
        if loss.requires_grad:
            loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    with untouched(module), torch.enable_grad():
        module.eval()
        autopsy = look_into(module, run, before_each=lambda: torch.manual_seed(0))
    if autopsy.first is not None:
        return explain(autopsy)
    evidence = "everything is finite, forward and backward"
    if not autopsy.scores:
        return passed(evidence)
    largest = max(each.largest for each in autopsy.scores)
    return passed(f"{evidence}; scores before softmax reach {largest:.3g}", largest_score=largest)

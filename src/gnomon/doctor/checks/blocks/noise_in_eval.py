"""noise-in-eval: in evaluation mode the same input gives the same output."""

import torch

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.training.optimizing import listed
from gnomon.doctor.finding import Outcome, failure, passed
from gnomon.doctor.run import run

_FAULTY = """
    import torch
    from torch import nn
    import torch.nn.functional as F

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(50, 32)
            self.layer = nn.TransformerEncoderLayer(32, 2, 64, batch_first=True)

        def forward(self, ids):
            return self.layer(F.dropout(self.embed(ids), 0.1))  # its training=True is the default

    def patient():
        torch.manual_seed(0)
        return {"module": Model(), "batch": {"ids": torch.randint(1, 50, (2, 8))}}
"""
_MENDED = _FAULTY.replace(
    "0.1))  # its training=True is the default", "0.1, training=self.training))"
)


@check(
    code="noise-in-eval",
    title="Evaluation is without noise",
    fault="Evaluation is noisy",
    cost="probe",
    cause="A dropout does not follow the module's mode: `F.dropout(x, p)` without "
    "`training=self.training`, or a submodule whose train() and eval() do not reach its children.",
    mend="Pass `training=self.training`, or use nn.Dropout; keep every submodule registered.",
    reference="PyTorch documentation, torch.nn.functional.dropout: training=True is the default",
    symptoms=("gibberish", "deployed"),
    example=_FAULTY,
    mended=_MENDED,
)
def noise_in_eval(case: Case) -> Outcome:
    """Dropout that lives on in evaluation makes every score and every translation a little wrong.

    The module is run twice in evaluation mode, under two seeds of the generators.
    """
    first = case.base.main
    with torch.no_grad():
        case.module.eval()
        torch.manual_seed(1)
        second = run(case.module, case.small).main
    again = case.run(case.small).main
    off, state = _moved(first, second), _moved(first, again)
    if max(off, state) == 0.0:
        return passed("two runs under different seeds are the same", moved=0.0)
    record = case.seen.record
    alive = [each.module for each in record.dropouts if each.training and each.p > 0]
    drawn = [each.module for each in record.random_ops]
    where = list(dict.fromkeys(each or "(the root)" for each in alive or drawn))
    training = [n for n, m in case.module.named_modules() if m.training and n]
    where = where or training
    if off <= case.tolerance and state <= case.tolerance:
        return passed(f"two runs differ by rounding alone ({max(off, state):.1e})", moved=off)
    if state > case.tolerance and not drawn:
        return failure(
            f"the same call under the same seed differs by {state:.2g} of its spread from the last "
            "one",
            where=where,
            cause="The module keeps something from one call to the next (running statistics, a "
            "cache, a counter) and uses it in the next.",
            mend="Keep no state across calls in evaluation mode.",
            moved=state,
        )
    what = f"random numbers are drawn in {listed(where)}" if where else "no draw was seen"
    return failure(
        f"two runs in evaluation mode differ by {off:.2g} of the output's spread; {what}",
        where=where,
        moved=off,
    )


def _moved(a: torch.Tensor, b: torch.Tensor) -> float:
    if a.shape != b.shape:
        return float("inf")
    a, b = a.double(), b.double()
    same = (a == b) | (a.isnan() & b.isnan())
    if bool(same.all()):
        return 0.0
    spread = float(a[a.isfinite()].std(correction=0)) if bool(a.isfinite().any()) else 1.0
    return float((a - b).abs()[~same].max()) / (spread or 1.0)

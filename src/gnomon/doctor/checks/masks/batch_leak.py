"""batch-leak: the rows of a batch do not influence each other."""

import torch
from torch import Tensor

from gnomon.doctor.call import Call
from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.beside.trace import parted
from gnomon.doctor.finding import Outcome, Skip, failure, passed, warning
from gnomon.doctor.run import difference, run

_FAULTY = """
    import torch
    from torch import nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(50, 16)
            # The batch comes first, and the layer is not told so: it attends over rows.
            self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0)

        def forward(self, ids):
            return self.layer(self.embed(ids))

    def patient():
        torch.manual_seed(0)
        return {"module": Model(), "batch": {"ids": torch.randint(1, 50, (3, 8))}}
"""
_MENDED = _FAULTY.replace("dropout=0.0)", "dropout=0.0, batch_first=True)").replace(
    "\n            # The batch comes first, and the layer is not told so: it attends over rows.", ""
)


@check(
    code="batch-leak",
    title="Rows of a batch do not influence each other",
    fault="Rows of a batch influence each other",
    cost="probe",
    cause="Something is computed over the batch's dimension.",
    mend="Look for dim=0, a reshape that mixes rows with positions or heads, and batch_first.",
    reference="causal-certificate; pytorch nn.MultiheadAttention, batch_first",
    symptoms=("padding", "gibberish"),
    example=_FAULTY,
    mended=_MENDED,
)
def batch_leak(case: Case) -> Outcome:
    """A text's result must not depend on which texts stand beside it.

    The first row is put into other words, and the rows are put into another order; the others must
    come out the same. In training mode this is tried, too: BatchNorm mixes rows there.
    """
    call = case.small
    rows = call.num_rows()
    if rows < 2:
        raise Skip("the batch has one row, and the model does not take more")
    before = case.base.main
    if before.size(0) != rows:
        raise Skip(f"the output {tuple(before.shape)} does not tell the rows apart")
    if before.shape == (rows, rows) and case.run(call.rows(range(rows - 1))).main.size(-1) < rows:
        raise Skip("the output [B, B] compares the rows with one another, as a loss over them does")
    first = torch.zeros(call.text(call.read).shape[:2], dtype=torch.bool)
    first[0] = True
    other = call
    for name in call.streams:
        keep = call.keep(name).cpu().clone()
        keep[1:] = False
        other = other.perturbed(name, keep)
    others = torch.arange(rows) > 0
    changed = case.run(other)
    moved = difference(changed.main, before, others)
    order = [*range(1, rows), 0]
    turned = difference(case.run(call.rows(order)).main, before[order])
    if max(moved, turned) <= case.tolerance:
        return _trained(case, other, others, max(moved, turned))
    found = None
    if moved > case.tolerance:
        found = parted(case.module, case.seen, case.observed(other), ~first, case.tolerance)
        evidence = (
            f"other words in the first row move the other rows by {moved:.2g} of their spread"
        )
        cause = ""
    else:
        evidence = f"with its rows in another order the batch comes out {turned:.2g} apart"
        cause = "Something of one row (its mask or its length, say) is used for all rows."
    return failure(
        f"{evidence} (rounding: {case.tolerance:.0e})",
        where=found[0] if found else (),
        cause=cause,
        moved=moved,
        reordered=turned,
    )


def _trained(case: Case, other: Call, others: Tensor, moved: float) -> Outcome:
    def trained(call: Call) -> Tensor:
        case.module.train()
        torch.manual_seed(0)
        with torch.no_grad():
            return run(case.module, call).main

    before = trained(case.small)
    by = difference(trained(other), before, others)
    evidence = f"other words in the first row move the other rows by {moved:.1e} of their spread"
    if by <= case.tolerance or difference(trained(case.small), before) > case.tolerance:
        return passed(evidence, moved=moved)
    norms = [n for n, each in case.module.named_modules() if "BatchNorm" in type(each).__name__]
    return warning(
        f"{evidence}, but in training mode by {by:.2g}",
        where=norms,
        cause="BatchNorm takes its statistics over the batch in training."
        if norms
        else "Something is computed over the batch in training mode alone.",
        mend="Use LayerNorm or RMSNorm." if norms else "",
        moved=by,
    )

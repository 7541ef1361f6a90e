"""dropout-before-softmax: dropout acts on the weights, not on the scores."""

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.finding import Outcome, Skip, failure, passed

_FAULTY = """
    import torch
    import torch.nn.functional as F
    from torch import nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(50, 16)
            self.query, self.key = nn.Linear(16, 16), nn.Linear(16, 16)

        def forward(self, ids):
            x = self.embed(ids)
            scores = self.query(x) @ self.key(x).transpose(-1, -2) / 4
            weights = F.dropout(scores, 0.1, self.training).softmax(-1)
            return weights @ x

    def patient():
        torch.manual_seed(0)
        return {"module": Model(), "batch": {"ids": torch.randint(1, 50, (2, 8))}}
"""
_MENDED = _FAULTY.replace(
    "F.dropout(scores, 0.1, self.training).softmax(-1)",
    "F.dropout(scores.softmax(-1), 0.1, self.training)",
)


@check(
    code="dropout-before-softmax",
    title="Dropout acts on the weights, not on the scores",
    fault="Dropout acts on the scores, before softmax",
    cost="probe",
    cause="Dropout stands between the scores and softmax.",
    mend="Apply dropout to what softmax returns.",
    reference="Vaswani et al. 2017, section 5.4; Zehui et al. 2019, DropAttention",
    symptoms=("stuck",),
    example=_FAULTY,
    mended=_MENDED,
)
def dropout_before_softmax(case: Case) -> Outcome:
    """A dropped score is 0, not −∞: such a key is not left out, it may even gain weight.

    The other scores are made larger by 1 / (1 − p), so that softmax is sharper in training than in
    use.
    """
    record = case.in_training.record
    if not record.attention:
        raise Skip("no attention call was seen in this module")
    wrong = [each for each in record.attention if each.dropout_before_softmax]
    if wrong:
        rates = [each.p for each in record.dropouts if each.position == "before softmax"]
        return failure(
            f"in {len(wrong)} of {len(record.attention)} attention calls the scores pass dropout"
            + (f" (p = {max(rates):.2g})" if rates else "")
            + " before softmax",
            where=list(dict.fromkeys(each.module for each in wrong)),
        )
    return passed(f"none of {len(record.attention)} attention calls drops scores before softmax")

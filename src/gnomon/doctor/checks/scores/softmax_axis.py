"""softmax-axis: a query's weights sum to 1 over the keys."""

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.finding import Outcome, Skip, failure, passed
from gnomon.probe import AttentionCall

_FAULTY = """
    import torch
    from torch import nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(50, 32)
            self.project = nn.Linear(32, 96)

        def forward(self, ids):
            heads = self.project(self.embed(ids)).view(*ids.shape, 3, 4, 8)
            q, k, v = heads.permute(2, 0, 3, 1, 4)
            weights = (q @ k.transpose(-1, -2) / 8**0.5).softmax(dim=-2)  # over the queries
            return (weights @ v).transpose(1, 2).flatten(2)

    def patient():
        torch.manual_seed(0)
        return {"module": Model(), "batch": {"ids": torch.randint(1, 50, (2, 8))}}
"""
_MENDED = _FAULTY.replace("dim=-2)  # over the queries", "dim=-1)")
_AXES = {-2: "the queries", -3: "the heads", -4: "the rows of the batch"}


@check(
    code="softmax-axis",
    title="Softmax runs over the keys",
    fault="Softmax does not run over the keys",
    cost="probe",
    cause="Softmax was given another dimension than that of the keys.",
    mend="softmax(dim=-1) on scores [B, H, T, S]; with another layout, the dimension of the keys.",
    reference="Vaswani et al. 2017, section 3.2.1",
    symptoms=("stuck", "gibberish", "too-good"),
    example=_FAULTY,
    mended=_MENDED,
)
def softmax_axis(case: Case) -> Outcome:
    """Over another axis the weights are no mixture of values.

    Over the queries, a later position even changes what earlier ones get; over the rows, texts of
    a batch influence each other. The run stays free of errors as shapes agree.
    """
    calls = [each for each in case.record.attention if each.weights is not None]
    if not calls:
        raise Skip("no attention call shows its weights")
    wrong = [each for each in calls if each.softmax_dim in _AXES and not _normalised(each)]
    if not wrong:
        return passed(f"softmax runs over the keys in all {len(calls)} attention calls")
    weights = wrong[0].weights
    assert weights is not None
    sums = weights.float().sum(-1)
    axes = sorted({_AXES[each.softmax_dim] for each in wrong if each.softmax_dim is not None})
    return failure(
        f"softmax runs over {' and '.join(axes)} in {len(wrong)} of {len(calls)} attention calls; "
        f"a query's weights over the keys sum to {float(sums.min()):.2g} to "
        f"{float(sums.max()):.2g}",
        where=list(dict.fromkeys(each.module for each in wrong)),
        cause=f"Softmax runs over {' and '.join(axes)}.",
    )


def _normalised(call: AttentionCall) -> bool:
    """Brought to a sum of 1 over the keys afterwards, as slot attention does."""
    applied = call.applied_weights
    if applied is None:
        return False
    return float((applied.float().sum(-1) - 1).abs().max()) < 1e-2

"""duplicate-heads: no two heads of a layer do the same."""

import torch

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.attention.heads import alike
from gnomon.doctor.facts.attention.joined import joined
from gnomon.doctor.finding import Outcome, Skip, failure, passed, warning
from gnomon.probe import AttentionCall

_FAULTY = """
    import torch
    from torch import nn

    def patient():
        torch.manual_seed(0)
        module = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
        with torch.no_grad():
            weight = module.self_attn.in_proj_weight.view(3, 4, 8, 32)
            weight[:, 2] = weight[:, 0]  # head 2 starts as head 0, and stays so
        return {"module": module, "batch": {"src": torch.randn(2, 10, 32)}}
"""
_MENDED = _FAULTY.replace(
    "weight[:, 2] = weight[:, 0]  # head 2 starts as head 0, and stays so",
    "nn.init.xavier_uniform_(weight[0, 2])",
)
_SAME, _NEAR = 1 - 1e-5, 0.999  # correlation of the scores


@check(
    code="duplicate-heads",
    title="No two heads of a layer do the same",
    fault="Heads of one layer do the same",
    cost="probe",
    cause="Heads were initialised alike, or share their weights: they get the same gradient and "
    "never part.",
    mend="Draw every head's weights anew; make one projection of all heads instead of copying one "
    "head's module or weights.",
    reference="Michel et al. 2019, Are Sixteen Heads Really Better than One?",
    symptoms=("stuck",),
    example=_FAULTY,
    mended=_MENDED,
)
def duplicate_heads(case: Case) -> Outcome:
    """Two heads with the same queries and keys give the same map: the second is wasted.

    Compared are the scores q · k of each pair of heads on real text. Keys and values that several
    query heads share by design (grouped-query attention) are no duplicates.
    """
    same: list[str] = []
    near: list[str] = []
    highest, pairs = 0.0, 0
    for call in joined(case):
        matrix = alike(call)
        if matrix is None or matrix.size(0) < 2:
            continue
        upper = torch.ones_like(matrix, dtype=torch.bool).triu(1)
        pairs += int(upper.sum())
        highest = max(highest, float(matrix[upper].max()))
        for first, second in (upper & (matrix > _NEAR)).nonzero().tolist():
            name = f"heads {first} and {second} of {call.module or 'the module'}"
            if float(matrix[first, second]) > _SAME and _same_values(call, first, second):
                same.append(name)
            else:
                near.append(name)
    if not pairs:
        raise Skip("no attention call shows the scores of more than one head")
    evidence = f"the highest correlation of two heads' scores is {highest:.5f} in {pairs} pairs"
    if same:
        return failure(
            f"{len(same)} of {pairs} pairs of heads have the same scores and the same outputs: "
            f"{', '.join(same[:3])}",
            where=same,
            highest=highest,
        )
    if near:
        return warning(
            f"{len(near)} of {pairs} pairs of heads have the same scores (correlation up to "
            f"{highest:.5f}): {', '.join(near[:3])}",
            where=near,
            cause="Queries and keys of these heads are the same or nearly so.",
            highest=highest,
        )
    return passed(evidence, highest=highest)


def _same_values(call: AttentionCall, first: int, second: int) -> bool:
    """Whether the two heads read the same values, too."""
    value = call.value
    if value is None:
        return True
    a, b = (
        value[:, head].float() - value[:, head].float().mean(1, keepdim=True)
        for head in (first, second)
    )
    return float((a - b).abs().max()) <= 1e-4 * float(a.abs().max().clamp_min(1e-30))

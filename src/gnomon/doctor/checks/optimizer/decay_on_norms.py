"""decay-on-norms: weight decay leaves norms and biases alone."""

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.finding import Outcome, passed, warning
from gnomon.doctor.optimizing import held

_FAULTY = """
    import torch
    from torch import nn

    def patient():
        module = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        optimizer = torch.optim.AdamW(module.parameters(), weight_decay=0.1)
        return {"module": module, "optimizer": optimizer}
"""
_MENDED = """
    import torch
    from torch import nn

    def patient():
        module = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        matrices = [p for p in module.parameters() if p.dim() > 1]
        others = [p for p in module.parameters() if p.dim() < 2]
        groups = [{"params": matrices}, {"params": others, "weight_decay": 0.0}]
        return {"module": module, "optimizer": torch.optim.AdamW(groups, weight_decay=0.1)}
"""


@check(
    code="decay-on-norms",
    title="Weight decay leaves norms and biases alone",
    cost="static",
    cause="All parameters are in one group, or the groups were made by class names that miss a "
    "norm of one's own.",
    mend="Two groups by rule: decay for weights of two dimensions or more, none for the rest.",
    reference="transformers #35927, minGPT #24, TransformerLens #460",
    symptoms=("stuck",),
    example=_FAULTY,
    mended=_MENDED,
)
def decay_on_norms(case: Case) -> Outcome:
    """Decay pulls gains of norms from 1 to 0 and biases to 0, against what they have to learn."""
    decayed = [
        each.name
        for each in held(case)
        if each.options.get("weight_decay", 0.0)
        and each.parameter.dim() < 2
        and each.parameter.numel() > 1
    ]
    if not decayed:
        return passed("no gain or bias is in a group with weight decay")
    return warning(
        f"{len(decayed)} gains or biases are in groups with weight decay: {', '.join(decayed[:3])}"
        + (" …" if len(decayed) > 3 else ""),
        where=decayed,
        count=len(decayed),
    )

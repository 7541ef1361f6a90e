"""decay-on-norms: weight decay leaves norms and biases alone."""

from typing import Any

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.training.optimizing import held, is_adaptive, optimizer_of
from gnomon.doctor.finding import Outcome, passed, warning

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
_MATTERS = 0.05  # of a step


@check(
    code="decay-on-norms",
    title="Weight decay leaves norms and biases alone",
    fault="Weight decay acts on norms or biases",
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
    """Decay pulls gains of norms from 1 to 0 and biases to 0, against what they have to learn.

    In AdamW it takes weight_decay times the learning rate off a gain of 1, whose step is about the
    learning rate: PyTorch's default of 0.01 is a hundredth of a step, and no finding.
    """
    decayed = [
        each
        for each in held(case)
        if each.options.get("weight_decay", 0.0)
        and each.parameter.dim() < 2
        and each.parameter.numel() > 1
    ]
    if not decayed:
        return passed("no gain or bias is in a group with weight decay")
    decay = max(float(each.options["weight_decay"]) for each in decayed)
    names = [each.name for each in decayed]
    evidence = (
        f"{len(names)} gains or biases are in groups with weight decay {decay:g}: "
        f"{', '.join(names[:3])}" + (" …" if len(names) > 3 else "")
    )
    numbers: dict[str, Any] = {"count": len(names), "decay": decay}
    if is_adaptive(optimizer_of(case)) and _is_decoupled(case):
        evidence += f"; it pulls a gain of 1 by {decay:.2g} of what a step moves it"
        if decay < _MATTERS:
            return passed(f"{evidence}: too little to matter", **numbers)
    return warning(evidence, where=names, **numbers)


def _is_decoupled(case: Case) -> bool:
    """Whether decay is taken off the weights beside Adam's step, not added to the gradient.

    Added to it, it is divided by the gradient's size as all of it, and can be as large as a step.
    """
    optimizer = optimizer_of(case)
    said = [group.get("decoupled_weight_decay") for group in optimizer.param_groups]
    return all(said) if None not in said else type(optimizer).__name__.endswith("W")

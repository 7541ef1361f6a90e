"""parameter-missing: every weight that is to be trained is in the optimizer."""

from typing import Any

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.training.optimizing import FOREIGN, held, listed
from gnomon.doctor.finding import Outcome, Skip, failure, passed, warning

_FAULTY = """
    import torch
    from torch import nn

    def patient():
        module = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        optimizer = torch.optim.AdamW(module.parameters())
        module.linear2 = nn.Linear(32, 16)  # exchanged after the optimizer was built
        return {"module": module, "optimizer": optimizer}
"""
_MENDED = """
    import torch
    from torch import nn

    def patient():
        module = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        module.linear2 = nn.Linear(32, 16)
        return {"module": module, "optimizer": torch.optim.AdamW(module.parameters())}
"""


@check(
    code="parameter-missing",
    title="Every trainable weight is in the optimizer",
    fault="Trainable weights are missing from the optimizer",
    cost="probe",
    cause="The rule that sorts parameters into groups leaves some out.",
    mend="Give the optimizer every parameter with requires_grad, each in exactly one group; set "
    "requires_grad=False for those that are to stay. If a second optimizer moves these, hand over "
    "the two as one, or suppress this code.",
    reference="PyTorch documentation, torch.optim: construct it after the model is complete",
    symptoms=("stuck",),
    example=_FAULTY,
    mended=_MENDED,
)
def parameter_missing(case: Case) -> Outcome:
    """A weight that no optimizer holds stays as it was drawn, and nothing says so.

    A parameter counts as missing when it asks for a gradient, gets one from the loss, and is not
    in the optimizer.
    """
    held_ids = {id(each.parameter) for each in held(case)}
    foreign = sum(each.name == FOREIGN for each in held(case))
    trainable = {n: p for n, p in case.module.named_parameters() if p.requires_grad}
    if not trainable:
        raise Skip("no parameter asks for a gradient")
    candidates = [name for name, p in trainable.items() if id(p) not in held_ids]
    try:
        gradients = case.gradients
        missing = [
            n for n in candidates if (g := gradients[n]) is not None and bool((g != 0).any())
        ]
    except Skip:
        missing = candidates
    if not missing:
        return passed(
            f"all {len(trainable)} parameters that are trained are in the optimizer",
            count=len(trainable),
        )
    numbers: dict[str, Any] = {
        "missing": len(missing),
        "trainable": len(trainable),
        "foreign": foreign,
    }
    evidence = (
        f"{len(missing)} of {len(trainable)} parameters get a gradient but are not in the "
        f"optimizer: {listed(missing)}"
    )
    if foreign:
        return failure(
            f"{evidence}; it holds {foreign} parameters that are not of this module",
            where=missing,
            cause="The optimizer was built before parts of the model were exchanged (a resized "
            "embedding, a new head, a copy), so it moves weights that are no longer used.",
            mend="Build the optimizer after the model is complete.",
            **numbers,
        )
    if 2 * len(missing) > len(trainable):  # the rest may be frozen on purpose
        return warning(
            evidence,
            where=missing,
            cause="Most of the model is left out: if that is meant (only a head is trained), the "
            "rest should not ask for gradients either.",
            **numbers,
        )
    return failure(evidence, where=missing, **numbers)

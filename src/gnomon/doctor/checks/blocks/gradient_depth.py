"""gradient-depth: the gradient reaches all layers in about the same size."""

from collections import defaultdict
from typing import Any

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.training.stepping import norm_of
from gnomon.doctor.finding import NotApplicable, Outcome, Skip, failure, passed, warning

_FAULTY = """
    import torch
    from torch import nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(50, 32)
            self.layers = nn.ModuleList(
                nn.TransformerEncoderLayer(32, 2, 64, dropout=0.0, batch_first=True)
                for _ in range(4)
            )

        def forward(self, ids):
            x = self.embed(ids)
            for layer in self.layers:
                x = layer(x.detach())
            return x

    def patient():
        torch.manual_seed(0)
        return {"module": Model(), "batch": {"ids": torch.randint(1, 50, (2, 8))}}
"""
_MENDED = _FAULTY.replace("x.detach()", "x")
_SUSPECT, _BROKEN = 1e3, 1e6


@check(
    code="gradient-depth",
    title="The gradient reaches every layer",
    fault="The gradient does not reach every layer as it should",
    cost="probe",
    cause="Something between these layers and the loss shrinks the gradient (or lets it grow): a "
    "missing residual connection, a wrong scale, a saturated softmax, a wrong init.",
    mend="Mend residual connections and scales first; pre-norm keeps the path whole.",
    reference="He et al. 2016; Xiong et al. 2020, figure 3",
    symptoms=("stuck", "nan"),
    example=_FAULTY,
    mended=_MENDED,
)
def gradient_depth(case: Case) -> Outcome:
    """Layers that get no gradient stay as they were drawn, however long the training is.

    The norm of each layer's gradient is compared with that of the other layers of its stack.
    """
    names, gradients = case.block_names, case.gradients
    norms: dict[str, float] = {}
    trainable = {n for n, p in case.module.named_parameters() if p.requires_grad}
    for name in names:
        own = {n: g for n, g in gradients.items() if n.startswith(f"{name}." if name else "")}
        if own.keys() & trainable:
            norms[name] = norm_of(own)
    stacks: dict[str, list[str]] = defaultdict(list)
    for name in norms:
        stacks[name.rpartition(".")[0]].append(name)
    if not any(len(members) > 1 for members in stacks.values()):
        raise NotApplicable("fewer than two layers of a kind have trainable parameters")
    numbers: dict[str, Any] = {"by_depth": norms}
    if not any(norms.values()):
        raise Skip("no layer gets a gradient: nothing to compare (see parameter-frozen)")
    if bad := [name for name, norm in norms.items() if norm != norm or norm == float("inf")]:
        return failure(
            f"the gradient of {len(bad)} layers is not finite",
            where=bad,
            cause="A value on the way back is infinite or 0/0.",
            **numbers,
        )
    silent = [name for name, norm in norms.items() if norm == 0]
    if silent:
        return failure(
            f"{len(silent)} of {len(norms)} layers get no gradient at all, from {silent[0]} on",
            where=silent,
            cause="The graph is cut (detach, no_grad, .data) or multiplied with 0 above them.",
            **numbers,
        )
    worst, where, smallest = 1.0, "", ""
    for members in stacks.values():
        low, high = min(members, key=norms.__getitem__), max(members, key=norms.__getitem__)
        if norms[high] / norms[low] > worst:
            worst, where, smallest = norms[high] / norms[low], high, low
    if not where:
        return passed("all layers get the same gradient", **numbers)
    evidence = (
        f"the gradient's norm is {norms[where]:.2g} in {where}, {norms[smallest]:.2g} in {smallest}"
    )
    if worst > _BROKEN:
        return failure(evidence, where=[smallest, where], ratio=worst, **numbers)
    if worst > _SUSPECT:
        return warning(evidence, where=[smallest, where], ratio=worst, **numbers)
    return passed(evidence, ratio=worst, **numbers)

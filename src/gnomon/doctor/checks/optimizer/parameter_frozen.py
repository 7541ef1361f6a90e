"""parameter-frozen: what is meant to be trained can be trained."""

import re
from collections import defaultdict

import torch

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.training.optimizing import listed
from gnomon.doctor.finding import Outcome, Skip, failure, passed, warning
from gnomon.doctor.restore import untouched

_FAULTY = """
    import torch
    from torch import nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(50, 16)
            self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
            self.head = nn.Linear(16, 50)

        def forward(self, ids):
            return self.head(self.layer(self.embed(ids)).detach())  # left over from debugging

    def patient():
        torch.manual_seed(0)
        ids = torch.randint(1, 50, (2, 8))

        def loss(module, batch):
            return nn.functional.cross_entropy(module(batch["ids"]).flatten(0, 1), ids.flatten())

        return {"module": Model(), "batch": {"ids": ids}, "loss": loss}
"""
_MENDED = _FAULTY.replace(".detach())  # left over from debugging", ")")
_NUMBER = re.compile(r"\.(\d+)\.")
_MOVED = 1e-4  # of the loss: what rounding does not explain


@check(
    code="parameter-frozen",
    title="Nothing is frozen by mistake",
    fault="Parameters get no gradient, it seems by mistake",
    cost="probe",
    cause="The graph is cut between these parameters and the loss: detach, .data, no_grad, a "
    "rebuilt tensor or a comparison.",
    mend="Take out the cut, or set requires_grad=False for what is meant to stay.",
    reference="PyTorch documentation: autograd mechanics, locally disabling gradients",
    symptoms=("stuck",),
    example=_FAULTY,
    mended=_MENDED,
)
def parameter_frozen(case: Case) -> Outcome:
    """A parameter that the loss depends on but that gets no gradient never learns.

    Such a one is told from one that is merely not used by moving it a little: the loss moves, too.
    A parameter that does not ask for a gradient is suspect where the same one of most other layers
    does, unless the frozen layers are the lowest and the embeddings below them are frozen, too; or
    where most of its own layer does.
    """
    case.must_take_gradients()
    parameters = dict(case.module.named_parameters())
    if not parameters:
        raise Skip("the model has no parameters")
    if not any(p.requires_grad for p in parameters.values()):
        return failure(
            "no parameter asks for a gradient: nothing would be trained",
            cause="Everything was frozen (requires_grad_(False), or a model loaded for inference).",
            mend="module.requires_grad_(True) for what is to be trained.",
        )
    odd = _odd_ones(parameters, learns_below=_trains_embeddings(case))
    try:
        case.loss_gives_gradients  # noqa: B018 - skips where no training loss is known
    except Skip as reason:
        if not odd:
            raise Skip(f"no layer has other frozen parameters than the rest; {reason}") from None
        cut: list[str] = []
    else:
        gradients = case.gradients
        silent = [n for n, p in parameters.items() if p.requires_grad and gradients[n] is None]
        cut = _that_matter(case, silent)
    if cut:
        return failure(
            f"the loss depends on {len(cut)} parameters that get no gradient: {listed(cut)}",
            where=cut,
            count=len(cut),
        )
    if odd:
        return warning(
            f"{len(odd)} parameters are frozen whose counterparts in most other layers are not: "
            f"{listed(odd)}",
            where=odd,
            cause="requires_grad was switched off for some layers only.",
            mend="requires_grad_(True) for them, or freeze the lowest layers as a whole.",
            count=len(odd),
        )
    if part := _frozen_in_part(case, parameters):
        return warning(
            f"{len(part)} projections are frozen in layers whose others are trained: "
            f"{listed(part)}",
            where=part,
            cause="requires_grad was switched off by name, for more than was meant.",
            mend="requires_grad_(True) for them; if it is meant, say so in the recipe.",
            count=len(part),
        )
    trained = sum(p.requires_grad for p in parameters.values())
    return passed(
        f"{trained} of {len(parameters)} parameters ask for a gradient, and those that the loss "
        "depends on get one",
        trained=trained,
    )


def _frozen_in_part(case: Case, parameters: dict[str, torch.nn.Parameter]) -> list[str]:
    """Frozen matrices of layers of which at least half is trained: with adapters it is less."""
    try:
        blocks = case.block_names
    except Skip:
        return []
    found: list[str] = []
    for block in blocks:
        inside = f"{block}." if block else ""
        own = {n: p for n, p in parameters.items() if n.startswith(inside) and p.dim() == 2}
        frozen = [name for name, parameter in own.items() if not parameter.requires_grad]
        if frozen and 2 * sum(own[n].numel() for n in frozen) <= sum(
            p.numel() for p in own.values()
        ):
            found += frozen
    return found


def _trains_embeddings(case: Case) -> bool:
    return any(call.table.requires_grad for call in case.seen.record.embeddings)


def _odd_ones(parameters: dict[str, torch.nn.Parameter], learns_below: bool) -> list[str]:
    """Frozen parameters of a layer that are not frozen in most layers, nor in all below it."""
    roles: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for name in parameters:
        if number := _NUMBER.search(name):
            roles[name.replace(number[0], ".*.", 1)].append((int(number[1]), name))
    odd = []
    for members in roles.values():
        frozen = [not parameters[name].requires_grad for _, name in sorted(members)]
        lowest = frozen.index(False) if False in frozen and not learns_below else 0
        lowest = len(frozen) if all(frozen) else lowest
        above = [name for (_, name), is_frozen in zip(sorted(members), frozen, strict=True)
                 if is_frozen][lowest:]  # fmt: skip
        if above and 2 * sum(frozen) <= len(frozen):
            odd += above
    return odd


def _that_matter(case: Case, names: list[str]) -> list[str]:
    """Those that move the loss when they are moved a little."""
    parameters = dict(case.module.named_parameters())
    groups: dict[str, list[str]] = defaultdict(list)
    for name in names:
        groups[name.rpartition(".")[0]].append(name)
    found: list[str] = []
    with untouched(case.module, weights=True), torch.no_grad():
        case.module.eval()
        before = float(case.loss(case.call))
        generator = torch.Generator().manual_seed(0)
        for members in groups.values():
            kept = {name: parameters[name].clone() for name in members}
            for name in members:
                noise = torch.randn(parameters[name].shape, generator=generator)
                size = float(kept[name].float().std(correction=0)) or 0.1
                parameters[name].add_(0.3 * size * noise.to(parameters[name]))
            if abs(float(case.loss(case.call)) - before) > _MOVED * max(abs(before), 1e-3):
                found += members
            for name in members:
                parameters[name].copy_(kept[name])
    return found

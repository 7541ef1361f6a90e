"""parameter-twice: the optimizer moves every weight once a step."""

import itertools

from torch import Tensor

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.training.optimizing import Held, held, listed
from gnomon.doctor.finding import Outcome, failure, passed

_FAULTY = """
    import torch
    from torch import nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(50, 16)
            self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
            self.head = nn.Linear(16, 50, bias=False)
            self.head.weight = nn.Parameter(self.embed.weight.data)  # one storage, two parameters

        def forward(self, ids):
            return self.head(self.layer(self.embed(ids)))

    def patient():
        module = Model()
        return {"module": module, "optimizer": torch.optim.AdamW(module.parameters())}
"""
_MENDED = _FAULTY.replace(
    "nn.Parameter(self.embed.weight.data)  # one storage, two parameters", "self.embed.weight"
)


@check(
    code="parameter-twice",
    title="Every weight is in the optimizer once",
    fault="A weight is in the optimizer twice",
    cost="static",
    cause="A tied or shared weight was added under each of its names.",
    mend="Build the groups from `module.named_parameters()`, which gives a shared parameter once, "
    "and tie by assigning the parameter itself, not its data.",
    reference="PyTorch documentation, torch.optim: parameter groups; Press & Wolf 2017 on tying",
    symptoms=("stuck", "nan"),
    example=_FAULTY,
    mended=_MENDED,
)
def parameter_twice(case: Case) -> Outcome:
    """A weight that is in the optimizer twice is moved twice a step, with two sets of moments.

    Two parameters over one storage (a tie made through `.data`) are the same fault: the gradients
    stay apart, and each moves the shared numbers without knowing of the other.
    """
    everything = list(held(case))
    seen: dict[int, Held] = {}
    again = []
    for each in everything:
        if id(each.parameter) in seen:
            again.append(each.name)
        seen.setdefault(id(each.parameter), each)
    if again:
        return failure(
            f"{len(again)} parameters are in the optimizer more than once: {listed(again)}",
            where=list(dict.fromkeys(again)),
            count=len(again),
        )
    overlapping = _overlaps(list(seen.values()))
    if overlapping:
        pairs = [f"{a} and {b}" for a, b in overlapping]
        return failure(
            f"{len(pairs)} pairs of parameters share memory but are two parameters to the "
            f"optimizer: {listed(pairs)}",
            where=list(dict.fromkeys(name for pair in overlapping for name in pair)),
            cause="A tie was made through the data, so autograd and the optimizer see two "
            "parameters over one storage.",
            mend="Assign the parameter itself (`head.weight = embed.weight`) before the optimizer "
            "is built.",
            count=len(pairs),
        )
    return passed(f"{len(everything)} parameters, each once", count=len(everything))


def _overlaps(parameters: list[Held]) -> list[tuple[str, str]]:
    """Pairs that share memory."""
    spans = sorted(
        (*_span(each.parameter), each.name) for each in parameters if each.parameter.numel()
    )
    return [
        (first[3], second[3])
        for first, second in itertools.pairwise(spans)
        if first[0] == second[0] and second[1] < first[2]
    ]


def _span(tensor: Tensor) -> tuple[int, int, int]:
    """Storage, first place and the place after the last."""
    if tensor.is_sparse or tensor.is_meta:
        return id(tensor), 0, 1
    start = tensor.storage_offset()
    last = sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.untyped_storage().data_ptr(), int(start), int(start + last + 1)

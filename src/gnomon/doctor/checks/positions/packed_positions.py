"""packed-positions: a document is read in a packed row as it is read alone."""

import torch
from torch import Tensor

from gnomon.doctor.call import Call
from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.finding import NotApplicable, Outcome, Skip, passed, warning
from gnomon.doctor.run import difference

_FAULTY = """
    import torch
    from torch import nn
    import torch.nn.functional as F

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.place = nn.Embedding(50, 16), nn.Embedding(16, 16)
            self.qkv = nn.Linear(16, 48)

        def forward(self, ids, documents):
            same = documents[:, :, None] == documents[:, None, :]
            place = torch.arange(ids.size(1))  # they run on over the whole row
            keep = (same & torch.ones_like(same).tril())[:, None]
            x = self.embed(ids) + self.place(place)
            q, k, v = self.qkv(x)[:, None].chunk(3, dim=-1)
            return F.scaled_dot_product_attention(q, k, v, keep)[:, 0]

    def patient():
        torch.manual_seed(0)
        documents = torch.tensor([[0, 0, 0, 0, 1, 1, 1, 1]] * 2)
        batch = {"ids": torch.randint(1, 50, (2, 8)), "documents": documents}
        return {"module": Model(), "batch": batch, "document_key": "documents", "causal": True}
"""
_MENDED = _FAULTY.replace(
    "torch.arange(ids.size(1))  # they run on over the whole row",
    "same.tril().sum(-1) - 1",
)
_DOCUMENTS = 4


@check(
    code="packed-positions",
    title="A document is read in a packed row as it is read alone",
    fault="A document is read otherwise behind another one",
    cost="probe",
    cause="Positions run on over the documents of a row, where they should begin anew with each.",
    mend="Count positions from the begin of each document.",
    reference="Krell et al. 2021, Efficient Sequence Packing without Cross-contamination",
    symptoms=("gibberish",),
    example=_FAULTY,
    mended=_MENDED,
)
def packed_positions(case: Case) -> Outcome:
    """In use a text begins at the first position; a model that was trained otherwise reads it
    otherwise.

    Documents that stand behind others in their row are also read alone, and must come out the same.
    Positions that are relative do so by themselves.
    """
    call = case.packed
    documents = call.documents(call.read)
    assert documents is not None, "it is packed"
    if call.text(call.read).dim() != 2:
        raise NotApplicable("the model reads vectors: whoever makes them adds the positions")
    before = case.run(call).tokens
    found = _behind_others(documents)
    if not found:
        raise Skip("no document begins within a row of the batch")
    worst, shift = 0.0, 0
    for row, own in found[:_DOCUMENTS]:
        together = before[row][own]
        if _depends_on_others(case, call, row, own, together):
            raise Skip("the documents of a row see each other: see packed-documents")
        alone = case.run(call.filled(call.read, [call.text(call.read)[row][own]])).tokens[0]
        moved = difference(alone[None], together[None])
        if moved > worst:
            worst, shift = moved, int(own.int().argmax())
    if worst <= case.tolerance:
        return passed(
            f"{len(found[:_DOCUMENTS])} documents that stand behind others come out as they do "
            f"alone ({worst:.1e} of their spread apart)",
            moved=worst,
        )
    return warning(
        f"a document that begins at position {shift} of its row comes out {worst:.2g} of its "
        f"spread otherwise than alone (rounding: {case.tolerance:.0e}), and no other document "
        "moves it",
        moved=worst,
        shift=shift,
    )


def _behind_others(documents: Tensor) -> list[tuple[int, Tensor]]:
    """Row and places, bool `[T]`, of each whole document that another one stands before."""
    found = []
    for row, numbers in enumerate(documents):
        for number in dict.fromkeys(numbers[numbers >= 0].tolist()):
            own = numbers == number
            first, last = int(own.int().argmax()), len(own) - 1 - int(own.flip(0).int().argmax())
            if numbers[:first].ge(0).any() and bool(own[first : last + 1].all()) and last > first:
                found.append((row, own))
    return found


def _depends_on_others(case: Case, call: Call, row: int, own: Tensor, together: Tensor) -> bool:
    others = torch.zeros(call.text(call.read).shape, dtype=torch.bool)
    others[row] = ~own.cpu()
    moved = case.run(call.perturbed(call.read, others)).tokens[row][own]
    return difference(moved[None], together[None]) > case.tolerance

"""packed-documents: documents packed into one row do not see each other."""

from typing import Any

import torch
from torch import Tensor

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.attention.hidden_how import taken_after_softmax
from gnomon.doctor.facts.attention.sights import SEEN, Sight, sights
from gnomon.doctor.finding import NotApplicable, Outcome, Skip, failure, passed
from gnomon.doctor.inputs import text_ends
from gnomon.doctor.run import difference

_FAULTY = """
    import torch
    from torch import nn
    import torch.nn.functional as F

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(50, 16)
            self.qkv = nn.Linear(16, 48)

        def forward(self, ids, documents):
            keep = torch.ones(ids.size(1), ids.size(1), dtype=torch.bool).tril()  # causal alone
            q, k, v = self.qkv(self.embed(ids))[:, None].chunk(3, dim=-1)
            return F.scaled_dot_product_attention(q, k, v, keep)[:, 0]

    def patient():
        torch.manual_seed(0)
        documents = torch.tensor([[0, 0, 0, 0, 1, 1, 1, 1]] * 2)
        batch = {"ids": torch.randint(1, 50, (2, 8)), "documents": documents}
        return {"module": Model(), "batch": batch, "document_key": "documents"}
"""
_MENDED = _FAULTY.replace(
    ".tril()  # causal alone",
    """.tril()
            keep = keep & (documents[:, None, :, None] == documents[:, None, None, :])""",
)


@check(
    code="packed-documents",
    title="Documents packed into one row do not see each other",
    fault="Documents packed into one row see each other",
    cost="probe",
    cause="The mask does not tell the documents of a row apart.",
    mend="keep & (documents[:, :, None] == documents[:, None, :]), and positions that begin anew "
    "with each document.",
    reference="trl #784, #3526; nanoVLM #204; profam #495; llm-foundry #1464",
    symptoms=("gibberish", "too-good"),
    example=_FAULTY,
    mended=_MENDED,
)
def packed_documents(case: Case) -> Outcome:
    """A document would be read as the continuation of an unrelated one.

    Each document of a row is put into other words in turn; all others must not move. Positions
    that begin anew are not enough.
    """
    documents = _documents(case)
    call = case.packed
    run = case.observed(call)
    before, worst, pair = run.tokens, 0.0, (0, 0)
    numbers = sorted(set(documents.flatten().tolist()) - {-1})
    for number in numbers[:4]:
        own = documents == number
        moved = difference(
            case.run(call.perturbed(call.read, own)).tokens, before, ~own & (documents >= 0)
        )
        if moved > worst:
            worst, pair = moved, (number, len(numbers))
    if worst <= case.tolerance:
        return passed(
            f"other words in one document move the others by {worst:.1e} of their spread",
            moved=worst,
        )
    seen = [each for each in sights(run) if each.is_self and each.query == call.read]
    bad = [each for each in seen if _crosses(each, documents)]
    late = taken_after_softmax(seen, lambda each: _other(each, documents), "other documents")
    where, mend = list(dict.fromkeys(each.module for each in bad)), ""
    if bad:
        cause = f"{len(bad)} of {len(seen)} self-attentions see across documents."
    elif late is not None:
        where, cause, mend = list(late.where), late.cause, late.mend
    elif seen:
        cause = "No attention that was seen crosses documents: something else mixes them."
    else:
        cause = "No self-attention shows its weights: what mixes them is not known."
    return failure(
        f"other words in document {pair[0]} move its row's other documents by {worst:.2g} of their "
        f"spread (rounding: {case.tolerance:.0e})",
        where=where,
        cause=cause,
        mend=mend,
        moved=worst,
    )


def _documents(case: Case) -> Tensor:
    """int64 `[B, T]`: each token's document, -1 at padding.

    Raises:
        Skip: nothing says which tokens belong together.
    """
    call, key = case.call, case.patient.document_key
    if key is not None:
        value: Any = call.values.get(key)
        if not isinstance(value, Tensor) or value.shape != call.text(call.read).shape[:2]:
            raise Skip(f"the batch has no input {key} of the size of the text")
    elif case.patient.batch is not None and call.documents(call.read) is None:
        _refuse_unpacked(case)
    found = case.packed.documents(call.read)
    assert found is not None, "it is packed"
    return found


def _refuse_unpacked(case: Case) -> None:
    """Rows whose text does not end within are not packed."""
    call, over = case.call, text_ends(case.patient)
    if over:
        text, keep = call.text(call.read), call.keep(call.read)
        ended = torch.isin(text, torch.tensor(sorted(over), device=text.device)) & keep
        ended &= keep.flip(1).cumsum(1).flip(1) > 1  # real tokens follow
        ended &= keep.cumsum(1) > 1  # some texts begin with the id that ends one
        if not bool(ended.any()):
            raise NotApplicable("no text of the batch ends within a row: nothing is packed")


def _other(sight: Sight, documents: Tensor) -> Tensor:
    """Bool `[B, 1, T, S]`: keys of another document than the query's."""
    T, S = sight.weights.shape[-2:]
    short = documents.size(1)
    real = documents >= 0
    other = (documents[:, :, None] != documents[:, None, :]) & real[:, :, None] & real[:, None, :]
    wide = torch.nn.functional.pad(other, (0, S - short, 0, T - short))
    return wide[:, None].to(sight.weights.device)


def _crosses(sight: Sight, documents: Tensor) -> bool:
    weights = sight.weights.nan_to_num(0.0)
    return bool((weights.masked_fill(~_other(sight, documents), 0.0) > SEEN).any())

"""mask-heads: a mask is applied to every head of every layer."""

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.attention.sights import SEEN, Sight, What, most, places
from gnomon.doctor.finding import Outcome, Skip, failure, passed

_FAULTY = """
    import torch
    from torch import nn
    import torch.nn.functional as F

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(50, 16)
            self.qkv = nn.Linear(16, 48)
            self.head = nn.Linear(16, 50)

        def forward(self, ids):
            B, T = ids.shape
            keep = torch.ones(4, T, T, dtype=torch.bool).tril()
            keep[3] = True  # one head is forgotten
            q, k, v = self.qkv(self.embed(ids)).view(B, T, 3, 4, 4).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(q, k, v, keep)
            return self.head(y.transpose(1, 2).reshape(B, T, 16))

    def patient():
        torch.manual_seed(0)
        return {"module": Model(), "batch": {"ids": torch.randint(1, 50, (2, 8))}, "causal": True}
"""
_MENDED = _FAULTY.replace("keep[3] = True  # one head is forgotten", "pass")


@check(
    code="mask-heads",
    title="Every head of every layer is masked",
    fault="Some heads are not masked like the others",
    cost="probe",
    cause="The mask does not reach all heads or layers.",
    mend="Give the same mask [B, 1, T, S] to every layer; the 1 lets it reach all heads.",
    reference="Vaswani et al. 2017, section 3.2.2; pytorch #119371: a mask broadcast wrongly",
    symptoms=("too-good", "gibberish", "padding", "nan"),
    example=_FAULTY,
    mended=_MENDED,
)
def mask_heads(case: Case) -> Outcome:
    """One head that is not masked is enough to leak, and the others hide it from view.

    Heads are compared with each other: what most of a model's attentions of one kind hide, all of
    them have to.
    """
    groups: dict[tuple[What, str], list[Sight]] = {}
    causal = case.intent.causal
    for each in case.sights:
        kind = f"{each.query} self-attention" if each.is_self else "cross-attention"
        if each.has_padding:
            groups.setdefault(("padding", kind), []).append(each)
        if causal and each.is_self and each.query == case.small.read:
            groups.setdefault(("future", kind), []).append(each)
    if not groups:
        raise Skip("there is nothing to hide: no padding is told, and it may look ahead")
    all_open = []
    for (what, kind), seen in groups.items():
        bad = sum(int((each.mass(what) > SEEN).sum()) for each in seen)
        total = sum(each.mass(what).numel() for each in seen)
        if bad == total:
            all_open.append(f"the {what} in {kind}")
        elif bad:
            open_ones = [each for each in seen if float(each.mass(what).max()) > SEEN]
            whole = all(float(each.mass(what).min()) > SEEN for each in open_ones)
            return failure(
                f"{bad} of {total} heads in {kind} see {_the(what)} (weight up to "
                f"{most(open_ones, what):.2g}), the others do not",
                where=places(open_ones, what),
                cause=f"The mask does not reach {len(open_ones)} of {len(seen)} layers."
                if whole
                else "The mask is applied to some heads of a layer and not to others.",
                heads=bad,
                of=total,
            )
    if all_open and len(all_open) == len(groups):
        raise Skip(f"no head hides {', '.join(all_open)}: told by the checks of these masks")
    return passed("what one head hides, all heads of its kind hide")


def _the(what: What) -> str:
    return "the future" if what == "future" else "padding"

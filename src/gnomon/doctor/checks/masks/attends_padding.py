"""attends-padding: no head of self-attention looks at padding."""

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.attention.sights import SEEN, most, places
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

        def forward(self, ids, keep):
            q, k, v = self.qkv(self.embed(ids))[:, None].chunk(3, dim=-1)
            scores = q @ k.transpose(-1, -2) / 4 + keep[:, None, None, :].float()  # not a mask
            return (scores.softmax(-1) @ v)[:, 0]

    def patient():
        torch.manual_seed(0)
        keep = torch.arange(8) < torch.tensor([[8], [5]])
        ids = torch.randint(1, 50, (2, 8)) * keep
        return {"module": Model(), "batch": {"ids": ids, "keep": keep}}
"""
_MENDED = _FAULTY.replace(
    "+ keep[:, None, None, :].float()  # not a mask",
    """
            scores = scores.masked_fill(~keep[:, None, None, :], -torch.inf)""",
)


@check(
    code="attends-padding",
    title="No head looks at padding",
    fault="Heads look at padding",
    cost="probe",
    cause="The padding mask does not reach the scores, or lowers them by too little.",
    mend="scores.masked_fill(~keep[:, None, None, :], -inf) before softmax, in every layer.",
    reference="pytorch #119371, #24816; hyunwoongko/transformer #40",
    symptoms=("padding", "gibberish", "nan"),
    example=_FAULTY,
    mended=_MENDED,
)
def attends_padding(case: Case) -> Outcome:
    """What a head gives to padding is missing at the text, the more so the shorter the text is.

    The weights of every head of self-attention are summed over padded keys, for queries at real
    tokens. Heads that look at a separator or the first token are normal and not counted.
    """
    seen = [each for each in case.sights if each.is_self and each.has_padding]
    if not seen:
        raise Skip("no self-attention was seen over a text whose padding the model is told of")
    worst = most(seen, "padding")
    heads = sum(int((each.padding > SEEN).sum()) for each in seen)
    masses = {each.module: each.padding.tolist() for each in seen}
    if not heads:
        return passed(
            f"the most that any head gives to padding is {worst:.1e}", mass=worst, heads=masses
        )
    total = sum(each.padding.numel() for each in seen)
    return failure(
        f"{heads} of {total} heads of self-attention look at padding, with up to {worst:.0%} of "
        "their weight",
        where=places(seen, "padding"),
        cause="No self-attention hides padding." if heads == total else "",
        mass=worst,
        heads=masses,
    )

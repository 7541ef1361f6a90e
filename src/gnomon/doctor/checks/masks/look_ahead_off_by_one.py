"""look-ahead-off-by-one: a position sees itself and what came before, exactly."""

import torch
from torch import Tensor

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.attention.sights import SEEN, Sight
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
            T = ids.size(1)
            keep = torch.ones(T, T, dtype=torch.bool).tril(1)  # the next token is seen
            x = self.embed(ids)
            q, k, v = self.qkv(x)[:, None].chunk(3, dim=-1)
            return self.head(x + F.scaled_dot_product_attention(q, k, v, keep)[:, 0])

    def patient():
        torch.manual_seed(0)
        return {"module": Model(), "batch": {"ids": torch.randint(1, 50, (2, 8))}, "causal": True}
"""
_MENDED = _FAULTY.replace(".tril(1)  # the next token is seen", ".tril()")


@check(
    code="look-ahead-off-by-one",
    title="The look-ahead mask begins right after the diagonal",
    fault="The look-ahead mask begins at the wrong place",
    cost="probe",
    cause="The look-ahead mask is shifted by one.",
    mend="keep = torch.ones(T, T, dtype=torch.bool).tril(): the diagonal is seen, nothing above.",
    reference="Vaswani et al. 2017, section 3.2.3",
    symptoms=("too-good", "gibberish"),
    example=_FAULTY,
    mended=_MENDED,
)
def look_ahead_off_by_one(case: Case) -> Outcome:
    """With the diagonal shifted up each position sees its answer; shifted down, not itself.

    The first learns to copy. The second hides a token from its own place, so that the last token
    never takes part in the prediction of the next. Looked up in the weights of each head.
    """
    case.must_not_look_ahead  # noqa: B018 - skips where looking ahead is right
    read = case.small.read
    own = [each for each in case.sights if each.is_self and each.query == read]
    if not own:
        raise Skip("no self-attention was seen over the text that must not look ahead")
    ahead = [(each, head) for each in own for head in _heads(_sees_next(each))]
    blind = [(each, head) for each in own for head in _heads(_misses_itself(each))]
    if not ahead and not blind:
        return passed(f"in none of {len(own)} self-attentions the diagonal is shifted")
    found = ahead or blind
    total = sum(each.weights.size(1) for each in own)
    weight = max(float(each.weights.nan_to_num(0.0).diagonal(1, -2, -1).max()) for each, _ in found)
    evidence = (
        f"{len(found)} of {total} heads see the next token (weight up to {weight:.2g}) and none "
        "after it"
        if ahead
        else f"{len(found)} of {total} heads see earlier tokens, but not their own place"
    )
    return failure(
        evidence,
        where=_named(found),
        cause="The diagonal of the look-ahead mask is shifted "
        + ("up by one (tril(1), or triu(2) hidden)." if ahead else "down by one (tril(-1))."),
        heads=len(found),
    )


def _sees_next(sight: Sight) -> Tensor:
    weights = sight.weights.nan_to_num(0.0)
    T, S = weights.shape[-2:]
    further = torch.ones(T, S, dtype=torch.bool, device=weights.device).triu(2)
    after = (weights * further).amax((0, 2, 3))
    following = (weights.diagonal(1, -2, -1) * sight.real[:, None, :-1]).amax((0, 2))
    return (after <= SEEN) & (following > SEEN)


def _misses_itself(sight: Sight) -> Tensor:
    weights = sight.weights.nan_to_num(0.0)
    real = sight.real[:, None, 1:]
    itself = (weights.diagonal(0, -2, -1)[..., 1:] * real).amax((0, 2))
    before = (weights.diagonal(-1, -2, -1) * real).amax((0, 2))
    return (itself <= 0) & (before > SEEN) & (sight.future <= SEEN)


def _heads(bad: Tensor) -> list[int]:
    return [int(head) for head in bad.nonzero().flatten()]


def _named(found: list[tuple[Sight, int]]) -> list[str]:
    whole = {id(each): sum(other is each for other, _ in found) for each, _ in found}
    names = [
        each.module if whole[id(each)] == each.weights.size(1) else f"head {head} of {each.module}"
        for each, head in found
    ]
    return list(dict.fromkeys(names))

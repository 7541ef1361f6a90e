"""head-split: heads are cut out of the features of each position, and put back there."""

import torch
from torch import Tensor

from gnomon.doctor.call import StreamName
from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.attention.merge import merged, split_rows
from gnomon.doctor.facts.beside.stock import stock_run
from gnomon.doctor.facts.positions.constant import self_attention
from gnomon.doctor.finding import Outcome, Skip, failure, passed
from gnomon.probe import AttentionCall

_FAULTY = """
    import torch
    import torch.nn.functional as F
    from torch import nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(50, 32)
            self.query, self.key, self.value, self.out = (nn.Linear(32, 32) for _ in range(4))

        def forward(self, ids):
            x = self.embed(ids)
            q, k, v = (self.heads(f(x)) for f in (self.query, self.key, self.value))
            context = F.scaled_dot_product_attention(q, k, v)
            return self.out(context.transpose(1, 2).flatten(2))

        def heads(self, x):  # [B, T, 32] → [B, 4, T, 8]
            return x.view(x.size(0), 4, x.size(1), 8)  # heads made of neighbouring positions

    def patient():
        torch.manual_seed(0)
        return {"module": Model(), "batch": {"ids": torch.randint(1, 50, (2, 8))}}
"""
_MENDED = _FAULTY.replace(
    "x.view(x.size(0), 4, x.size(1), 8)  # heads made of neighbouring positions",
    "x.view(x.size(0), x.size(1), 4, 8).transpose(1, 2)",
)


@check(
    code="head-split",
    title="Heads are cut out of each position's own features",
    fault="Heads mix features of several positions",
    cost="probe",
    cause="A reshape in place of a reshape and a transpose: it has the right shape and mixes "
    "positions with heads.",
    mend="x.view(B, T, H, K).transpose(1, 2) to split, .transpose(1, 2).reshape(B, T, H * K) to "
    "put together; never view(B, H, T, K).",
    reference="Vaswani et al. 2017, section 3.2.2; arXiv 2508.04925 (attention faults)",
    symptoms=("stuck", "gibberish", "too-good"),
    example=_FAULTY,
    mended=_MENDED,
)
def head_split(case: Case) -> Outcome:
    """A wrong reshape raises no error and lets positions, or rows, read each other.

    Compared is, position by position, what the projections gave with what the heads got, and what
    the heads gave with what the output projection read; and with another token at one place, every
    head has to see the change at the same place.
    """
    crossed: dict[str, str] = {}
    judged = 0
    for attention in case.record.attention:
        cut = split_rows(case.record, attention)
        judged += bool(cut)
        for name, right in cut.items():
            if not right:
                crossed[attention.module] = f"the {name} are cut across positions"
        joined = merged(case.record, attention)
        judged += joined is not None
        if joined is not None and not joined.in_place:
            crossed[attention.module] = "the heads' outputs are put together across positions"
    for name in _grouped_otherwise(case):
        crossed.setdefault(name, "queries share keys with other heads than its class has it")
    for stream in case.small.streams:
        torn = _torn(case, stream)
        judged += torn is not None
        if torn is not None and torn[1]:
            crossed.setdefault(torn[0], "one token's change shows at other places in other heads")
    if not judged:
        raise Skip("neither projections nor single changes can be matched with the heads")
    if crossed:
        name, how = next(iter(crossed.items()))
        return failure(
            f"in {len(crossed)} attention modules heads are mixed up: in {name or 'the module'} "
            f"{how}",
            where=list(crossed),
            crossed=crossed,
        )
    return passed("every head has, at each position, features of that position alone")


def _grouped_otherwise(case: Case) -> list[str]:
    """Modules in which other heads share their keys than in the model's own class."""
    groups = [_groups(each) for each in case.record.attention]
    if all(each is None or len(set(each)) == len(each) for each in groups):
        return []
    try:
        record = stock_run(case).record
    except Skip:
        return []
    design = {each.module: _groups(each) for each in record.attention}
    return [
        each.module
        for each, seen in zip(case.record.attention, groups, strict=True)
        if seen is not None and design.get(each.module) not in (None, seen)
    ]


def _groups(attention: AttentionCall) -> tuple[int, ...] | None:
    """Of each head, the first one with the same keys."""
    key = attention.key
    if key is None:
        return None
    heads = key.transpose(0, 1).flatten(1)
    firsts: list[int] = []
    for head, own in enumerate(heads):
        same = (first for first in dict.fromkeys(firsts) if torch.equal(heads[first], own))
        firsts.append(next(same, head))
    return tuple(firsts)


def _torn(case: Case, stream: StreamName) -> tuple[str, bool] | None:
    """The first self-attention on a text, and whether heads disagree on where a token changed."""
    call = case.small
    text = call.text(stream)
    keep = call.keep(stream).cpu()
    row = int(keep.sum(1).argmax())
    real = keep[row].nonzero().flatten()
    if len(real) < 4:
        return None
    where = torch.zeros(text.shape[:2], dtype=torch.bool)
    where[row, real[len(real) // 2]] = True
    before = self_attention(case.seen, stream)
    after = self_attention(case.observed(call.perturbed(stream, where)), stream)
    if not before or len(before) != len(after):
        return None
    torn, known = False, False
    for name in ("query", "key", "value"):
        a, b = getattr(before[0], name), getattr(after[0], name)
        verdict = _disagree(a, b) if a is not None and b is not None else None
        if verdict is not None:
            known, torn = True, torn or verdict
    return (before[0].module, torn) if known else None


def _disagree(before: Tensor, after: Tensor) -> bool | None:
    """Whether a place changed in one head and not at all in another that tells tokens apart."""
    if before.shape != after.shape:
        return None
    change = (after.float() - before.float()).abs().amax(-1)  # [B, H, T]
    largest = float(change.max())
    if largest == 0.0 or before.size(1) < 2:
        return None
    moved, still = change > 0.05 * largest, change <= 1e-6 * largest
    spread = (before.float() - before.float()[:, :, :1]).abs().amax((0, 2, 3))
    moving = spread > 0.01 * spread.max()  # [H]
    places = moved.any(1)  # [B, T]
    if not bool(moving.any()) or int(places.sum()) == places.numel():
        return None
    return bool((places[:, None] & still & moving[:, None]).any())

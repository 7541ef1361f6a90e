"""rope-pairing: rotated queries and keys see distances, nothing else."""

from gnomon.doctor.call import StreamName
from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.beside.stock import on_stock
from gnomon.doctor.facts.positions.constant import text_of_one_token
from gnomon.doctor.facts.positions.rotary import Rotary, pairing, rotary, turned
from gnomon.doctor.finding import Outcome, Skip, failure, foremost, passed
from gnomon.probe import AttentionCall

_FAULTY = """
    import torch
    import torch.nn.functional as F
    from torch import nn

    def rotated(x):  # [B, T, 32]
        angle = torch.arange(x.size(1))[:, None] / 100 ** (torch.arange(16) / 16)
        angle = angle.repeat_interleave(2, -1)  # pairs of neighbours ...
        first, second = x.chunk(2, -1)  # ... turned as pairs of halves
        return x * angle.cos() + torch.cat((-second, first), -1) * angle.sin()

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(50, 32)
            self.query, self.key = nn.Linear(32, 32), nn.Linear(32, 32)

        def forward(self, ids):
            x = self.embed(ids)
            q, k = rotated(self.query(x)), rotated(self.key(x))
            return F.scaled_dot_product_attention(q[:, None], k[:, None], x[:, None])[:, 0]

    def patient():
        torch.manual_seed(0)
        return {"module": Model(), "batch": {"ids": torch.randint(1, 50, (2, 12))}}
"""
_MENDED = _FAULTY.replace(
    "angle.repeat_interleave(2, -1)  # pairs of neighbours ...", "torch.cat((angle, angle), -1)"
).replace("  # ... turned as pairs of halves", "")
_MOST = 0.05  # of the scores' spread


@check(
    code="rope-pairing",
    title="Rotated queries and keys see distances alone",
    fault="Rotary phases are paired or placed wrongly",
    cost="probe",
    cause="Cosines and sines are laid out for other pairs than those that are turned, or queries "
    "and keys are turned differently.",
    mend="One layout throughout: halves (x[:K/2] with x[K/2:], angles repeated as a whole) or "
    "neighbours (x[0::2] with x[1::2], each angle twice), the same for queries and keys, with the "
    "positions along the dimension of time.",
    reference="Su et al. 2021 (RoFormer), section 3.2",
    symptoms=("gibberish", "long-input", "stuck"),
    example=_FAULTY,
    mended=_MENDED,
)
def rope_pairing(case: Case) -> Outcome:
    """Rotary positions rest on q_m · k_n depending on m − n only.

    On a text of one token that is seen directly. Which of the two layouts is right cannot be told
    from that: both are sound. Where the model's class is a stock one, its layout is the right one
    for its weights.
    """
    said: list[str] = []
    skipped: list[Skip] = []
    for stream in case.small.streams:
        try:
            found = rotary(case, stream)
        except Skip as reason:
            skipped.append(reason)
            continue
        if found.short > _MOST and found.short > 0.2 * float(found.shift.max()):
            return failure(
                f"on a {stream} of one token q_m · k_n of one distance m − n moves by up to "
                f"{found.short:.2g} of the scores' spread within 12 positions",
                where=found.worst.module,
                cause=_cause(found),
                shift=found.short,
            )
        layouts = _layouts(case, stream)
        if len(layouts) == 2 and layouts[0] != layouts[1]:
            return failure(
                f"on the {stream}, {layouts[0]} are turned together; its class turns {layouts[1]}",
                where=found.worst.module,
                cause="The layout of the pairs is not the one that its weights are made for.",
            )
        said.append(
            f"on a {stream} of one token q_m · k_n depends on m − n alone, to {found.short:.1e} of "
            f"the scores' spread" + (f" ({layouts[0]} turn together)" if layouts else "")
        )
    if not said:
        raise foremost(skipped)
    return passed("; ".join(said))


def _cause(found: Rotary) -> str:
    turning = [_turns(found.worst, name) for name in ("query", "key")]
    if turning == [True, False]:
        return "Queries are turned and keys are not."
    if turning == [False, True]:
        return "Keys are turned and queries are not."
    scores = found.worst.raw_scores
    if scores is not None:
        mirrored = scores.flip(-1)
        last = mirrored.diagonal(0, -2, -1)
        spread = float(scores.std())
        if last.size(-1) > 2 and float((last - last[..., :1]).abs().max()) < 0.05 * spread:
            return "q_m · k_n depends on m + n: keys are turned the other way than queries."
    if not _keeps_length(found.worst):
        return "Turning changes the length of the vectors: cosines and sines are of other pairs."
    return "Queries and keys are turned by other angles, or as other pairs."


def _turns(attention: AttentionCall, name: str) -> bool:
    each = getattr(attention, name)
    if each is None:
        return False
    each = each.float()
    return bool((each - each[:, :, :1]).abs().max() > 1e-4 * each.abs().max())


def _keeps_length(attention: AttentionCall) -> bool:
    query = attention.query
    assert query is not None
    length = query.float().norm(dim=-1)
    return float((length - length[:, :, :1]).abs().max()) < 0.01 * float(length.max())


def _layouts(case: Case, stream: StreamName) -> list[str]:
    """Which features turn together, here and in the model's own class."""
    found: list[str] = []
    try:
        call = text_of_one_token(case, stream)
        for run in (case.observed(call), on_stock(case, call)):
            layout = pairing(turned(run, stream)[0])
            if layout is not None:
                found.append(layout)
    except Skip:
        pass
    return found

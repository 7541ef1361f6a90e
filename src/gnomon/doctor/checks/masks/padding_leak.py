"""padding-leak: padding at the right does not move what stands at real positions."""

from collections.abc import Sequence

import torch
from torch import Tensor

from gnomon.doctor.call import StreamName
from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.attention.hidden_how import padded, set_to_a_number, taken_after_softmax
from gnomon.doctor.facts.attention.sights import SEEN, Sight, most, places
from gnomon.doctor.facts.beside.trace import parted
from gnomon.doctor.finding import Outcome, Skip, failure, passed
from gnomon.doctor.run import Run, difference

_FAULTY = """
    import torch
    from torch import nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(50, 16)
            self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)

        def forward(self, ids):
            return self.layer(self.embed(ids))  # the padding (id 0) is read like any token

    def patient():
        torch.manual_seed(0)
        ids = torch.randint(1, 50, (2, 8))
        ids[1, 5:] = 0
        return {"module": Model(), "batch": {"ids": ids}, "pad_id": 0}
"""
_MENDED = _FAULTY.replace(
    "self.layer(self.embed(ids))  # the padding (id 0) is read like any token",
    "self.layer(self.embed(ids), src_key_padding_mask=ids == 0)",
)


@check(
    code="padding-leak",
    title="Padding at the right changes nothing",
    fault="Padding at the right changes what real tokens give",
    cost="probe",
    cause="Padded keys are not hidden in some attention call, or something beside attention reads "
    "padded positions.",
    mend="Hide padded keys in every attention call: a boolean padding mask [B, 1, 1, S], True at "
    "real tokens, combined with the look-ahead mask by logical and.",
    reference="Vaswani et al. 2017; OpenNMT-py #137, joeynmt #50: results that depend on the batch",
    symptoms=("padding", "gibberish"),
    example=_FAULTY,
    mended=_MENDED,
)
def padding_leak(case: Case) -> Outcome:
    """A text's result must not depend on how long its neighbours in the batch are.

    The same texts are run with five more positions of padding at the right, marked as the model
    is told of padding (its mask input, or its padding id).
    """
    worst: tuple[float, StreamName] | None = None
    for name, stream in case.small.streams.items():
        if stream.hides_padding:
            moved = _moved(case, case.run(case.small.padded(name, 5, "right")))
            if worst is None or moved > worst[0]:
                worst = moved, name
    if worst is None:
        raise Skip("nothing tells the model where padding is: no mask among the inputs, no pad id")
    moved, name = worst
    evidence = (
        f"5 more positions of padding on the {name} move real positions by {moved:.2g} of their "
        f"spread (rounding: {case.tolerance:.0e})"
    )
    if moved <= case.tolerance:
        return passed(evidence, moved=moved)
    seen = [each for each in case.sights_if_any if each.has_padding and each.key == name]
    where, mend = places(seen, "padding"), ""
    late = taken_after_softmax(seen, padded, "padding")
    if where:
        total = sum(each.padding.numel() for each in seen)
        bad = sum(int((each.padding > 1e-6).sum()) for each in seen)
        cause = (
            f"{bad} of {total} heads that read the {name} look at padding, with up to "
            f"{most(seen, 'padding'):.0%} of their weight."
        )
        weak = set_to_a_number(
            [x for x in seen if bool((x.padding > SEEN).any())], padded, "padding"
        )
        if weak is not None:
            cause, mend = weak.cause, weak.mend
    elif late is not None:
        where, cause, mend = list(late.where), late.cause, late.mend
    else:
        other = case.observed(case.small.padded(name, 5, "right"))
        found = parted(case.module, case.seen, other, _read(case), case.tolerance)
        where = [found[0]] if found else []
        cause, mend = _unseen(seen, where)
    return failure(evidence, where=where, cause=cause, mend=mend, moved=moved)


def _unseen(seen: Sequence[Sight], where: Sequence[str]) -> tuple[str, str]:
    """Cause and mend where no attention call that was seen looks at padding."""
    first = f" The first module that moves is {where[0]}." if where else ""
    if not seen:
        return f"No attention over padding shows its weights: the cause is not known.{first}", ""
    return (
        f"Something beside attention (a norm, a pooling, a convolution) reads padded positions: "
        f"all {len(seen)} calls that were seen hide padding.{first}",
        "Leave padded positions out there: a mean over real tokens, a norm of each position by "
        "itself.",
    )


def _read(case: Case) -> Tensor:
    return case.small.keep(case.small.read)


def _moved(case: Case, longer: Run) -> float:
    """Of the positions of real tokens, or of what is said of the text as a whole."""
    try:
        before = case.base.tokens
    except Skip:
        before, after = case.base.main, longer.main
        if before.shape != after.shape or before.size(0) != case.small.num_rows():
            raise
        everywhere = torch.ones(before.shape[:1], dtype=torch.bool)
        return difference(before, after, everywhere)
    return difference(longer.tokens[:, : before.size(1)], before, _read(case))

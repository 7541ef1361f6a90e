"""future-leak: no position of a causal model sees a later one."""

import torch

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.finding import Outcome, failure, passed
from gnomon.doctor.intent import hides_future, is_self_attention
from gnomon.doctor.run import difference

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
            return self.head(self.layer(self.embed(ids)))  # nothing hides the future

    def patient():
        torch.manual_seed(0)
        return {"module": Model(), "batch": {"ids": torch.randint(1, 50, (2, 8))}, "causal": True}
"""
_MENDED = _FAULTY.replace(
    "return self.head(self.layer(self.embed(ids)))  # nothing hides the future",
    """mask = nn.Transformer.generate_square_subsequent_mask(ids.size(1))
            return self.head(self.layer(self.embed(ids), src_mask=mask, is_causal=True))""",
)


@check(
    code="future-leak",
    title="No position sees a later one",
    cost="probe",
    cause="The look-ahead mask is missing somewhere, or something else mixes positions.",
    mend="Hide later keys in every self-attention of the decoder: a lower-triangular boolean mask, "
    "or is_causal=True; nothing else in the layer may mix positions.",
    reference="Vaswani et al. 2017, section 3.2.3",
    symptoms=("too-good", "gibberish"),
    example=_FAULTY,
    mended=_MENDED,
)
def future_leak(case: Case) -> Outcome:
    """A model that sees the token it has to predict learns to copy it.

    Its training loss falls to almost nothing and its free-running output is noise. Other tokens are
    put in from each of several positions on; what stands before must not move. Perturbing also
    shows a leak through a comparison, which has no gradient.
    """
    intent = case.must_not_look_ahead
    call, before = case.small, case.base.tokens
    length = call.length(call.read)
    worst, at = 0.0, 0
    for cut in sorted({1, length // 3, length // 2, length - 1} - {0}):
        late = torch.zeros(call.text(call.read).shape[:2], dtype=torch.bool)
        late[:, cut:] = True
        moved = difference(case.run(call.perturbed(call.read, late)).tokens, before, ~late)
        if moved > worst:
            worst, at = moved, cut
    if worst <= case.tolerance:
        return passed(
            f"other tokens from position {at or 1} on move what stands before by {worst:.1e} "
            f"of its spread ({intent.reason})",
            moved=worst,
        )
    open_calls = [
        each.module
        for each in case.record.attention
        if is_self_attention(each) and not hides_future(each)
    ]
    all_calls = [each for each in case.record.attention if is_self_attention(each)]
    if not open_calls:
        cause = "Every attention call hides the future: something beside attention mixes positions."
    elif len(open_calls) == len(all_calls):
        cause = "No self-attention hides the future."
    else:
        cause = (
            f"{len(open_calls)} of {len(all_calls)} self-attention calls do not hide the future."
        )
    return failure(
        f"other tokens from position {at} on move what stands before by {worst:.2g} of its spread "
        f"(rounding: {case.tolerance:.0e}); it is causal: {intent.reason}",
        where=list(dict.fromkeys(open_calls)),
        cause=cause,
        moved=worst,
    )

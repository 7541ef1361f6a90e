"""padding-leak: padding at the right does not move what stands at real positions."""

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.finding import Outcome, Skip, failure, passed
from gnomon.doctor.run import difference

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
    cost="probe",
    cause="Attention (or a norm, a pooling, a convolution) reads padded positions.",
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
    call, worst, widest = case.small, 0.0, ""
    for name, stream in call.streams.items():
        if not stream.hides_padding:
            continue
        padded = call.padded(name, 5, "right")
        tokens, before = case.run(padded).tokens, case.base.tokens
        keep = call.keep(call.read)
        moved = difference(tokens[:, : before.size(1)], before, keep)
        if not widest or moved > worst:
            worst, widest = moved, name
    if not widest:
        raise Skip("nothing tells the model where padding is: no mask among the inputs, no pad id")
    evidence = f"5 more positions of padding on the {widest} move real positions by {worst:.2g} of "
    evidence += f"their spread (rounding: {case.tolerance:.0e})"
    return (
        failure(evidence, moved=worst) if worst > case.tolerance else passed(evidence, moved=worst)
    )

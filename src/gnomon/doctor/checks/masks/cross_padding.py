"""cross-padding: cross-attention does not look at the source's padding."""

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.attention.sights import SEEN, most, places
from gnomon.doctor.finding import NotApplicable, Outcome, Skip, failure, passed

_FAULTY = """
    import torch
    from torch import nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(50, 16)
            self.model = nn.Transformer(16, 2, 1, 1, 32, dropout=0.0, batch_first=True)

        def forward(self, src, tgt):
            causal = nn.Transformer.generate_square_subsequent_mask(tgt.size(1))
            memory = self.model.encoder(self.embed(src), src_key_padding_mask=src == 0)
            return self.model.decoder(self.embed(tgt), memory, tgt_mask=causal)

    def patient():
        torch.manual_seed(0)
        src, tgt = torch.randint(1, 50, (2, 9)), torch.randint(1, 50, (2, 7))
        src[1, 5:] = 0
        return {"module": Model(), "batch": {"src": src, "tgt": tgt}, "pad_id": 0}
"""
_MENDED = _FAULTY.replace(
    "memory, tgt_mask=causal)",
    "memory, tgt_mask=causal, memory_key_padding_mask=src == 0)",
)


@check(
    code="cross-padding",
    title="Cross-attention does not look at source padding",
    fault="Cross-attention looks at source padding",
    cost="probe",
    cause="The source's padding mask is not given to the cross-attention.",
    mend="Give the encoder's padding mask to every cross-attention as well (in nn.Transformer: "
    "memory_key_padding_mask).",
    reference="Vaswani et al. 2017, section 3.2.3; OpenNMT-py #137",
    symptoms=("padding", "gibberish"),
    example=_FAULTY,
    mended=_MENDED,
)
def cross_padding(case: Case) -> Outcome:
    """A short source beside a long one would be translated from noise.

    The mask of the source is used twice, in the encoder and in the decoder, and forgotten easily
    the second time: the translation of a sentence then depends on its neighbours' length.
    """
    cross = [each for each in case.sights if not each.is_self]
    if not cross and "target" not in case.small.streams:
        raise NotApplicable("the model reads one text: there is no cross-attention")
    if not cross:
        raise Skip("no cross-attention was seen")
    seen = [each for each in cross if each.has_padding]
    if not seen:
        raise Skip("nothing tells the model where the source's padding is")
    worst = most(seen, "padding")
    heads = sum(int((each.padding > SEEN).sum()) for each in seen)
    if not heads:
        return passed(f"the most that any head gives to source padding is {worst:.1e}", mass=worst)
    total = sum(each.padding.numel() for each in seen)
    return failure(
        f"{heads} of {total} heads of cross-attention look at source padding, with up to "
        f"{worst:.0%} of their weight",
        where=places(seen, "padding"),
        cause="" if heads == total else "Some heads or layers do not get the source's mask.",
        mass=worst,
    )

"""causal-encoder: an encoder reads in both directions."""

import torch
from torch import Tensor

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.attention.sights import SEEN, Sight
from gnomon.doctor.finding import NotApplicable, Outcome, Skip, failure, passed

_FAULTY = """
    import torch
    from torch import nn

    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(50, 16)
            self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)

        def forward(self, ids):
            mask = nn.Transformer.generate_square_subsequent_mask(ids.size(1))
            return self.layer(self.embed(ids), src_mask=mask)

    def patient():
        torch.manual_seed(0)
        batch = {"ids": torch.randint(1, 50, (2, 8))}
        return {"module": Encoder(), "batch": batch, "family": "encoder"}
"""
_MENDED = _FAULTY.replace(", src_mask=mask)", ")")


@check(
    code="causal-encoder",
    title="The encoder reads in both directions",
    fault="The encoder does not see later words",
    cost="probe",
    cause="The decoder's look-ahead mask was given to the encoder.",
    mend="Give the encoder the padding mask alone.",
    reference="Vaswani et al. 2017, section 3.2.3; Devlin et al. 2019, section 3.1",
    symptoms=("stuck",),
    example=_FAULTY,
    mended=_MENDED,
)
def causal_encoder(case: Case) -> Outcome:
    """An encoder that hides the future trains without complaint and stays worse than it could be.

    Half of each sentence is out of sight: no query gives any weight to a later word, in some layer
    or all of them.
    """
    intent = case.intent
    if intent.causal is None:
        raise Skip("whether it is causal is not known: say causal=True or False")
    if intent.family == "encoder_decoder":
        seen = [each for each in case.sights if each.is_self and each.query == "source"]
    elif intent.causal:
        raise NotApplicable(f"it is a decoder ({intent.reason})")
    else:
        seen = [each for each in case.sights if each.is_self and each.query == case.small.read]
    if not seen:
        raise Skip("no self-attention over the encoder's text was seen")
    blind = {id(each): _blind(each) for each in seen}
    heads = sum(int(each.sum()) for each in blind.values())
    total = sum(each.numel() for each in blind.values())
    if not heads:
        return passed(f"all {total} heads of the encoder see later words")
    layers = [each for each in seen if bool(blind[id(each)].all())]
    if not layers and heads < total / 4:
        # A head that looks back by what it learned: not a mask.
        return passed(f"{heads} of {total} heads of the encoder look back alone, no whole layer")
    where = [each.module for each in layers] or [
        f"head {head} of {each.module}"
        for each in seen
        for head in blind[id(each)].nonzero().flatten().tolist()
    ]
    return failure(
        f"in {len(layers)} of {len(seen)} layers of the encoder no query gives any weight to a "
        "later word"
        if layers
        else f"in {heads} of {total} heads of the encoder no query gives any weight to a later "
        "word, though no layer is without heads that do",
        where=list(dict.fromkeys(where)),
        heads=heads,
        of=total,
    )


def _blind(sight: Sight) -> Tensor:
    """`[H]`: whether queries see earlier words and no later one, among real tokens."""
    weights = sight.weights.nan_to_num(0.0)
    pairs = (sight.real[:, :, None] & sight.keep[:, None, :])[:, None]
    upper = torch.ones(weights.shape[-2:], dtype=torch.bool, device=weights.device).triu(1)
    later = weights.masked_fill(~(pairs & upper), 0.0).amax((0, 2, 3))
    earlier = weights.masked_fill(~(pairs & upper.t()), 0.0).amax((0, 2, 3))
    return (later <= SEEN) & (earlier > SEEN)

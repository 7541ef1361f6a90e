"""label-shift: each position is to predict the next token."""

from typing import Any

import torch

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.loss.objective import Objective
from gnomon.doctor.finding import NotApplicable, Outcome, Skip, failure, passed

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
            mask = nn.Transformer.generate_square_subsequent_mask(ids.size(1))
            return self.head(self.layer(self.embed(ids), src_mask=mask, is_causal=True))

    def loss(module, batch):
        logits, ids = module(batch["ids"]), batch["ids"]
        return nn.functional.cross_entropy(logits.flatten(0, 1), ids.flatten())  # the same token

    def patient():
        torch.manual_seed(0)
        return {
            "module": Model(), "batch": {"ids": torch.randint(1, 50, (2, 8))}, "loss": loss,
            "causal": True,
        }
"""
_MENDED = _FAULTY.replace(
    "cross_entropy(logits.flatten(0, 1), ids.flatten())  # the same token",
    "cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())",
)
_ENOUGH = 0.9


@check(
    code="label-shift",
    title="Labels are shifted by one",
    fault="Labels are not shifted by one",
    cost="probe",
    cause="The shift between inputs and labels has no single owner.",
    mend="Let one place shift: either the data (then the loss must not) or the loss.",
    reference="transformers #47394, #46898; Vaswani et al. 2017, section 3.1",
    symptoms=("too-good", "gibberish", "stuck"),
    example=_FAULTY,
    mended=_MENDED,
)
def label_shift(case: Case) -> Outcome:
    """A causal model must predict the token after the one it reads.

    Labels that are not shifted teach it to copy its input (the loss falls to nothing, the output
    is noise); labels shifted twice teach it to skip a token. The loss's gradient on the logits
    says which token each position is asked for.
    """
    case.must_not_look_ahead  # noqa: B018 - skips where there is nothing to shift
    if case.call.text(case.call.read).dim() != 2:
        raise NotApplicable("the model reads vectors: there is no token that a position reads")
    objective = case.objective
    shares = {shift: _agreement(objective, shift) for shift in range(-2, 5)}
    shift, share = max(shares.items(), key=lambda each: each[1])
    if shares[1] > _ENOUGH:
        shift, share = 1, shares[1]
    numbers: dict[str, Any] = {"shift": shift, "share": share}
    if share < _ENOUGH:
        raise Skip(
            f"the labels are not the text's own tokens ({share:.0%} agree at a shift of {shift})"
        )
    evidence = f"{share:.0%} of the positions are asked for the token {shift} after their own"
    if shift == 1:
        return passed(evidence, **numbers)
    if shift == 0:
        return failure(
            f"{share:.0%} of the positions are asked for the very token they read",
            cause="The labels are not shifted at all: the model learns to copy its input.",
            **numbers,
        )
    cause = (
        "They are shifted twice: by the data and by the loss or the model." if shift == 2 else ""
    )
    return failure(evidence, cause=cause, **numbers)


def _agreement(objective: Objective, shift: int) -> float:
    """The share of counted positions whose target is the text's token `shift` further on."""
    text, length = objective.text, objective.text.size(1)
    places = torch.arange(length, device=text.device) + shift
    inside = ((places >= 0) & (places < length)).expand(text.shape)
    places = places.clamp(0, length - 1)
    judged = objective.counts & inside & objective.keep & objective.keep[:, places]
    judged &= objective.mass > 0.5
    if (documents := objective.call.documents(objective.call.read)) is not None:
        judged &= (
            documents == documents[:, places]
        )  # a document's last label is no token of the row
    if int(judged.sum()) < 3:
        return 0.0
    return float((objective.target == text[:, places])[judged].float().mean())

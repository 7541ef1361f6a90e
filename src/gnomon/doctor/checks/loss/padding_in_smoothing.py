"""padding-in-smoothing: label smoothing leaves padded positions alone."""

from typing import Any

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.checks.loss.padding_in_loss import with_padding
from gnomon.doctor.finding import NotApplicable, Outcome, failure, passed

_FAULTY = """
    import torch
    from torch import nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(50, 16, padding_idx=0)
            self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
            self.head = nn.Linear(16, 50)

        def forward(self, ids):
            mask = nn.Transformer.generate_square_subsequent_mask(ids.size(1))
            return self.head(self.layer(self.embed(ids), src_mask=mask, is_causal=True))

    def loss(module, batch):
        goal = batch["ids"][:, 1:]
        scores = module(batch["ids"])[:, :-1].log_softmax(-1)
        real = goal != 0
        nll = -scores.gather(-1, goal[..., None])[..., 0]
        smooth = -scores.mean(-1)  # of padded positions, too
        return 0.9 * (nll * real).sum() / real.sum() + 0.1 * smooth.sum() / real.sum()

    def patient():
        torch.manual_seed(0)
        ids = torch.randint(1, 50, (2, 8))
        ids[1, 4:] = 0
        return {"module": Model(), "batch": {"ids": ids}, "loss": loss, "pad_id": 0}
"""
_MENDED = _FAULTY.replace(
    "smooth = -scores.mean(-1)  # of padded positions, too", "smooth = -scores.mean(-1) * real"
)


@check(
    code="padding-in-smoothing",
    title="Label smoothing leaves padding alone",
    fault="Label smoothing gives weight to padding",
    cost="probe",
    cause="The smoothing term is summed over all positions, only the other term over real ones.",
    mend="Mask the smoothing term as the other one, or use the smoothing of "
    "`F.cross_entropy(…, label_smoothing=…, ignore_index=…)`.",
    reference="Szegedy et al. 2016; annotated-transformer #18, #38; transformers #7546",
    symptoms=("padding",),
    example=_FAULTY,
    mended=_MENDED,
)
def padding_in_smoothing(case: Case) -> Outcome:
    """Smoothing at padded positions pulls the model towards guessing wherever a batch is padded.

    Such a position gets a gradient from the loss, but no token is asked for there: all are, alike.
    """
    objective = with_padding(case)
    smoothed = objective.counts & (objective.mass < 0.5)
    padded = smoothed & ~objective.keep
    # A position before padding may be asked for it: its target is padding, too.
    edge = smoothed & objective.keep
    edge[:, :-1] &= ~objective.keep[:, 1:]
    alpha = 1.0 - float(objective.mass[objective.counts & objective.keep].median())
    numbers: dict[str, Any] = {"padded": int(padded.sum()), "alpha": alpha}
    if bool(padded.any()) or bool(edge[:, :-1].any()):
        share = float(objective.weight[smoothed].sum() / objective.weight.sum())
        return failure(
            f"{int(padded.sum() + edge[:, :-1].sum())} positions whose target is padding get a "
            f"gradient from smoothing alone, {share:.1%} of the whole",
            share=share,
            **numbers,
        )
    if alpha < 0.005:
        raise NotApplicable("the loss does not smooth its labels")
    return passed(f"smoothing of {alpha:.2g} reaches real positions only", **numbers)

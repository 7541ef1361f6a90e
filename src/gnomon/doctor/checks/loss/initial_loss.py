"""initial-loss: a fresh model's loss is that of guessing, ln V."""

import math
from typing import Any

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.finding import NotApplicable, Outcome, Skip, failure, passed, warning

_FAULTY = """
    import torch
    from torch import nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(50, 64)
            self.layer = nn.TransformerEncoderLayer(64, 2, 64, dropout=0.0, batch_first=True)
            self.head = nn.Linear(64, 50, bias=False)
            self.head.weight = self.embed.weight  # N(0, 1) is no scale for an output projection

        def forward(self, ids):
            return self.head(self.layer(self.embed(ids)))

    def patient():
        torch.manual_seed(0)
        ids = torch.randint(1, 50, (4, 8))

        def loss(module, batch):
            logits = module(batch["ids"])[:, :-1]
            return nn.functional.cross_entropy(logits.flatten(0, 1), batch["ids"][:, 1:].flatten())

        return {"module": Model(), "batch": {"ids": ids}, "loss": loss}
"""
_MENDED = _FAULTY.replace(
    "  # N(0, 1) is no scale for an output projection",
    "\n            nn.init.normal_(self.embed.weight, std=0.02)",
)
_WORSE = 0.2  # nats above guessing, of a trained model


@check(
    code="initial-loss",
    title="The first loss is that of guessing",
    fault="The first loss is not that of guessing",
    cost="probe",
    cause="The output projection (or the embedding it is tied to) is drawn too large, or the last "
    "norm is missing, so the fresh model is sure of wrong tokens.",
    mend="Draw a tied embedding from N(0, D^-1/2) (times √D at the input), an output projection by "
    "Xavier or N(0, 0.02), and normalise before it.",
    reference="Karpathy 2019, A Recipe for Training Neural Networks: verify loss at init; "
    "Vaswani et al. 2017, section 3.4",
    symptoms=("stuck", "too-good"),
    example=_FAULTY,
    mended=_MENDED,
)
def initial_loss(case: Case) -> Outcome:
    """Before training a model knows nothing: its loss must be near ln V, V being the tokens.

    Far more means that it is sure of wrong answers, far less that the answer is among its inputs.
    A model counts as fresh while all gains of its norms are still equal.
    """
    patient, call = case.patient, case.call
    if case.is_fresh is False and patient.batch is None:
        raise Skip("the model is trained and no batch of its own text was handed over")
    if case.is_fresh is not True and case.labels_are_invented:
        raise Skip("the batch has no labels, and a trained model need not give made-up ones")
    num_classes = _num_classes(case)
    loss = _loss(case)
    guess = math.log(num_classes)
    numbers: dict[str, Any] = {"loss": loss, "guess": guess, "num_classes": num_classes}
    evidence = f"the loss is {loss:.3f}, guessing among {num_classes} gives {guess:.3f}"
    if not math.isfinite(loss):
        return failure(
            f"the loss is {loss}",
            cause="A value is not finite before any training: see the checks of masks and blocks.",
            **numbers,
        )
    tokens = int(call.keep(call.read).sum())
    for count, what in ((tokens, "tokens"), (call.num_rows(), "rows")):
        if count >= 4 and loss > 2 * guess and abs(loss / (guess * count) - 1) < 0.25:
            return warning(
                f"{evidence}, {loss / guess:.0f} times as much: about its number of {what}",
                cause=f"The loss is summed over {what} instead of averaged, so the gradient's size "
                "follows the batch's.",
                mend="Divide the sum by the number of target tokens.",
                **numbers,
            )
    own_labels = patient.loss is not None or any(each.role == "labels" for each in call.entries)
    if case.is_fresh is False:
        if loss > 2 * guess or (own_labels and loss > guess + _WORSE):
            return (failure if loss > 2 * guess else warning)(
                f"{evidence}: the model is trained and does worse than one that knows nothing",
                cause="The text is of another kind or encoded otherwise than in training, the "
                "labels are not what it was trained on, or weights were damaged.",
                mend="Hand over a batch of its own training text; see foreign-ids, label-shift, "
                "rescaled-weights and untrained-weights.",
                **numbers,
            )
        return passed(f"{evidence}; the model is trained", **numbers)
    if loss > 2 * guess:
        return failure(evidence, **numbers)
    # Logits of variance s² cost s²/2: a variance of 3 is still usual.
    if loss > guess + 1.5:
        return warning(evidence, **numbers)
    # Sums over few tokens vary; a quarter less is no chance.
    if case.is_fresh and own_labels and loss < 0.75 * guess:
        return failure(
            f"{evidence}: a model that knows nothing cannot be that good",
            cause="The answer is among the inputs: labels that are not shifted, a mask that hides "
            "nothing, or padding that is counted as text.",
            mend="See label-shift, future-leak and padding-in-loss.",
            **numbers,
        )
    return passed(evidence, **numbers)


def _num_classes(case: Case) -> int:
    """How many answers there are."""
    tensors = case.base.tensors
    if "logits" in tensors:
        size = tensors["logits"].size(-1)
    else:
        size = case.base.main.size(-1)
        stream = case.call.streams[case.call.read]
        if stream.vocab_size and size < stream.vocab_size:
            raise NotApplicable("the model gives hidden states, not one value for each token")
    if size < 2:
        raise NotApplicable("the model gives one value: no choice among classes")
    return int(size)


def _loss(case: Case) -> float:
    case.module.eval()
    return float(case.loss(case.call).detach())

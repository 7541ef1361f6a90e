"""padding-in-loss: padded positions do not count."""

from typing import Any

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.loss.objective import Objective, read_objective
from gnomon.doctor.finding import Outcome, Skip, failure, passed, warning

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
        logits, ids = module(batch["ids"])[:, :-1], batch["ids"][:, 1:]
        return nn.functional.cross_entropy(logits.flatten(0, 1), ids.flatten())

    def patient():
        torch.manual_seed(0)
        ids = torch.randint(1, 50, (2, 8))
        ids[1, 4:] = 0
        return {"module": Model(), "batch": {"ids": ids}, "loss": loss, "pad_id": 0}
"""
_MENDED = _FAULTY.replace("ids.flatten())\n\n", "ids.flatten(), ignore_index=0)\n\n")
_PADDING = 4  # positions that are put behind a batch that has none


@check(
    code="padding-in-loss",
    title="Padding does not count in the loss",
    fault="Padding counts in the loss",
    cost="probe",
    cause="Padded positions are among those that the loss counts.",
    mend="Leave padded targets out (ignore_index, or a sum over real positions) and divide by the "
    "number of real targets.",
    reference="pytorch #73205, transformers #7546; fairseq2 0.8.0 release notes",
    symptoms=("padding", "too-good"),
    example=_FAULTY,
    mended=_MENDED,
)
def padding_in_loss(case: Case) -> Outcome:
    """Padding is easy to predict: counted in the loss it makes training look good and weak.

    The gradient of the loss on the logits shows which positions count. That of padded ones must be
    nothing, and real ones must weigh the same whatever stands beside them.
    """
    objective = with_padding(case)
    padded = ~objective.keep
    labelled = objective.counts & padded & (objective.mass > 0.5)
    share = float(objective.weight[padded].sum() / objective.weight.sum())
    numbers: dict[str, Any] = {
        "padded": int(padded.sum()),
        "counted": int(labelled.sum()),
        "share": share,
    }
    if bool(labelled.any()):
        return failure(
            f"{int(labelled.sum())} of {int(padded.sum())} padded positions count in the loss, "
            f"with {share:.0%} of all weight",
            **_how(objective),
            **numbers,
        )
    ends = _asked_for_padding(objective)
    if ends:
        return warning(
            f"{ends} real positions are asked to predict padding",
            cause="The loss is masked by where the inputs are padding, not by where the targets "
            "are: the last token of each text is asked for the padding behind it.",
            mend="Mask by the targets: leave out each position whose target is padding.",
            **numbers,
        )
    total = float(objective.weight[objective.keep].sum())
    real, every = int(objective.counts.sum()), objective.keep.numel()
    if total < 0.99 and _is_near(total, real / every, real / (every - objective.keep.size(0))):
        return failure(
            f"real positions together weigh {total:.3f} instead of 1: the sum is divided by all "
            f"{every} positions, not by the {real} that count",
            cause="The loss of padded positions is set to 0, but they are counted in the mean.",
            total=total,
            **numbers,
        )
    return passed(f"none of {int(padded.sum())} padded positions counts", **numbers)


def _how(objective: Objective) -> dict[str, Any]:
    """Cause and mend by what the loss asks of a text: each position, one of them, one label."""
    counts, keep = objective.counts, objective.keep
    if bool((counts.sum(1) == 1).all()):
        places = counts.int().argmax(1)
        same = f", position {int(places[0])}," if bool((places == places[0]).all()) else ""
        return {
            "cause": f"The loss reads one position of each text{same} and in "
            f"{int((counts & ~keep).any(1).sum())} of {len(keep)} texts that is padding.",
            "mend": "Read the last real position of each text, keep.sum(1) - 1 where padding is at "
            "the right, or a mean over real positions.",
        }
    labels = objective.target.masked_fill(~counts, -1)
    one = [len(set(row.tolist()) - {-1}) <= 1 for row in labels]
    if all(one) and len(set(labels.flatten().tolist()) - {-1}) > 1:
        return {
            "cause": "The loss asks every position of a text for the text's one label, padded "
            "positions included.",
            "mend": "Take the mean over real positions alone: (x * keep).sum(1) / keep.sum(1).",
        }
    if bool(counts.all()):
        return {"cause": "The loss averages over all positions of the batch, padded ones included."}
    return {}


def with_padding(case: Case) -> Objective:
    """What the loss asks for in a batch that is padded, by the user or by us.

    Raises:
        Skip: nothing tells the model and the loss where padding is.
    """
    objective = case.objective
    if not bool(objective.keep.all()):
        return objective
    call = objective.call
    stream = call.streams[call.read]
    if not stream.hides_padding:
        raise Skip("the batch has no padding, and nothing would tell the loss where it is")
    longest = case.patient.max_length
    if longest is not None and _PADDING < longest < call.length(call.read) + _PADDING:
        call = call.cut(call.read, 0, longest - _PADDING)  # where positions may end
    return read_objective(case, call.padded(call.read, _PADDING, "right"))


def _asked_for_padding(objective: Objective) -> int:
    """Real positions before padding whose target is the padding id."""
    stream = objective.call.streams[objective.call.read]
    pad_id, text, keep = stream.pad_id, objective.text, objective.keep
    if pad_id is None or text.dim() != 2 or bool((text == pad_id)[keep].any()):
        return 0  # unknown, or a token as well (the end of a text)
    if objective.vocab_size < stream.vocab_size:
        return 0  # the labels are no tokens: one of them has the number of padding
    before = keep[:, :-1] & ~keep[:, 1:]
    asked = objective.counts & (objective.target == pad_id) & (objective.mass > 0.5)
    return int((asked[:, :-1] & before).sum())


def _is_near(value: float, *others: float) -> bool:
    return any(abs(value - other) < 0.01 * other for other in others)

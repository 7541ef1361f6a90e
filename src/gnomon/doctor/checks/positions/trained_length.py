"""trained-length: texts are no longer than those the model was trained on."""

import torch
import torch.nn.functional as F

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.positions.lookups import lookups_of_batch
from gnomon.doctor.finding import Outcome, Skip, failure, passed, warning
from gnomon.doctor.inputs import config_of

_FAULTY = """
    import torch
    from torch import nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.places = nn.Embedding(50, 16), nn.Embedding(64, 16)
            self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)

        def forward(self, ids):
            return self.layer(self.embed(ids) + self.places(torch.arange(ids.size(1))))

    def patient():
        torch.manual_seed(0)
        ids = torch.randint(1, 50, (2, 40))  # it was trained on 16
        return {"module": Model(), "batch": {"ids": ids}, "max_length": 16}
"""
_MENDED = _FAULTY.replace("(2, 40))  # it was trained on 16", "(2, 16))")
_WORSE = 1.1  # times the loss within the trained length


@check(
    code="trained-length",
    title="Texts are no longer than the model was trained on",
    fault="Texts are longer than the model was made for",
    cost="probe",
    cause="Texts reach positions that no training text had.",
    mend="Cut or split the texts, or extend the model: interpolation, NTK-aware or YaRN for rotary "
    "positions, a longer table for learned ones; then train a little at the new length.",
    reference="Press et al. 2022 (ALiBi); Peng et al. 2023 (YaRN)",
    symptoms=("long-input", "gibberish"),
    example=_FAULTY,
    mended=_MENDED,
)
def trained_length(case: Case) -> Outcome:
    """Past the length of its training texts a model gets worse, mostly without an error.

    Where the batch is longer, the loss of the next token is told by position, within and beyond.
    """
    limit, said = _limit(case)
    seen = lookups_of_batch(case)
    if seen.wrong is not None:
        raise Skip(f"the batch is out of range in {seen.wrong.module}")
    call = case.call
    longest = max(call.length(stream) for stream in call.streams)
    if seen.length is not None and seen.length < call.length(call.read):
        return failure(
            f"of {call.length(call.read)} tokens the model answers at {seen.length}",
            cause="The model cuts its texts off without saying so.",
            longest=longest,
            limit=limit,
        )
    if longest <= limit:
        return passed(
            f"the batch has texts of up to {longest} tokens, the limit is {limit} ({said})",
            longest=longest,
            limit=limit,
        )
    evidence = f"the batch has texts of {longest} tokens, the limit is {limit} ({said})"
    losses = _losses(case, limit)
    if losses is None:
        return warning(evidence, longest=longest, limit=limit)
    within, beyond = losses
    evidence += f"; the next token's loss is {within:.3g} within and {beyond:.3g} beyond"
    judge = failure if beyond > _WORSE * within else warning
    return judge(evidence, longest=longest, limit=limit, within=within, beyond=beyond)


def _limit(case: Case) -> tuple[int, str]:
    if case.patient.max_length is not None:
        return case.patient.max_length, "as declared"
    config = config_of(case.patient)
    for name in ("max_position_embeddings", "n_positions", "max_length"):
        value = getattr(config, name, None)
        if isinstance(value, int) and value > 1:
            return value, f"{name} in its configuration"
    raise Skip("nothing says how long the training texts were: max_length, or a configuration")


def _losses(case: Case, limit: int) -> tuple[float, float] | None:
    """The loss of the next token at positions within and beyond the limit; None: not to be had."""
    try:
        causal = case.intent.causal
        logits = case.run(case.call).tokens.float()
    except Skip:
        return None
    ids = case.call.text(case.call.read)
    keep = case.call.keep(case.call.read)[:, 1:]
    if not causal or ids.dim() != 2 or logits.size(-1) <= int(ids.max()):
        return None
    loss = F.cross_entropy(logits[:, :-1].transpose(1, 2), ids[:, 1:], reduction="none")
    beyond = torch.zeros_like(keep)
    beyond[:, limit:] = True
    parts = [loss[keep & ~beyond], loss[keep & beyond]]
    if any(part.numel() == 0 for part in parts):
        return None
    return float(parts[0].mean()), float(parts[1].mean())

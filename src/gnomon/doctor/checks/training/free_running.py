"""free-running: what is predicted well with the right prefix is also written without it."""

from torch import Tensor

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.decoding.generation import first, real_ids
from gnomon.doctor.finding import NotApplicable, Outcome, Skip, failure, passed
from gnomon.doctor.monitors.free_running import (
    CAUSE,
    FAULT,
    HIGH,
    LOW,
    MEND,
    REFERENCE,
    TITLE,
    token_f1,
)

_FAULTY = """
    import torch
    from torch import nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(50, 50)
            self.embed.weight.data = torch.eye(50)

        def forward(self, ids):
            return self.embed(ids.roll(-1, dims=1))  # the answer is among the inputs

    def generate(module, batch, num_tokens):
        ids = batch["ids"]
        for _ in range(num_tokens):
            ids = torch.cat([ids, module(ids)[:, -1:].argmax(-1)], dim=1)
        return ids

    def patient():
        ids = torch.arange(12) + torch.tensor([[3], [11], [20]])  # the texts count upwards
        return {"module": Model(), "batch": {"ids": ids}, "causal": True, "generate": generate}
"""
_MENDED = _FAULTY.replace(
    "ids.roll(-1, dims=1))  # the answer is among the inputs",
    "(ids + 1).clamp(max=49))  # it has learned to count",
)


@check(
    code="free-running",
    title=TITLE,
    fault=FAULT,
    cost="probe",
    cause=CAUSE,
    mend=MEND,
    reference=REFERENCE,
    symptoms=("too-good", "gibberish"),
    example=_FAULTY,
    mended=_MENDED,
)
def free_running(case: Case) -> Outcome:
    """Validation accuracy of 98 % with nonsense at the output: nobody looked at both.

    The next tokens of the batch's text are predicted with the right prefix; then the text is
    continued freely from its beginning, and both are held against the text itself.
    """
    case.must_not_look_ahead  # noqa: B018 - skips where nothing is continued
    if case.reads_vectors:
        raise NotApplicable("the model reads vectors: it writes no tokens")
    call = case.small
    ids, keep = call.text(call.read), call.keep(call.read)
    if case.patient.batch is None:
        raise Skip("no batch of real text was handed over")
    logits = case.base.tokens
    if ids.dim() != 2 or ids.is_floating_point() or logits.size(-1) <= int(ids.max()):
        raise Skip("the output is not one value for each token")
    counted = keep[:, 1:] & keep[:, :-1]
    accuracy = float((logits[:, :-1].argmax(-1) == ids[:, 1:])[counted].float().mean())
    if not accuracy >= HIGH:
        raise NotApplicable(
            f"it is about models that predict well: {accuracy:.0%} of this one's next tokens are "
            f"right, and below {HIGH:.0%} there is nothing to compare with"
        )
    made = first(case)
    asked = [len(row) for row in real_ids(made.call)]
    num = made.tokens.size(1)
    texts = [row[n : n + num] for row, n in zip(real_ids(call), asked, strict=True)]
    free = [row[: len(text)] for row, text in zip(made.tokens, texts, strict=True)]
    overlap = token_f1([_words(each) for each in free], [_words(each) for each in texts])
    evidence = (
        f"{accuracy:.0%} of the tokens are right when the tokens before them are given; what is "
        f"written freely shares {overlap:.0%} of its tokens with the text"
    )
    if overlap > LOW:
        return passed(evidence, accuracy=accuracy, overlap=overlap)
    return failure(evidence, accuracy=accuracy, overlap=overlap)


def _words(ids: Tensor) -> str:
    return " ".join(map(str, ids.tolist()))

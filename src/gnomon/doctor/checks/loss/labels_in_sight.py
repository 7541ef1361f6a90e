"""labels-in-sight: a model that reads both sides is asked for tokens that it does not see."""

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
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
            return self.head(self.layer(self.embed(ids)))

    def loss(module, batch):
        # The tokens that are hidden are 49; those that are read count, too.
        return nn.functional.cross_entropy(module(batch["ids"]).flatten(0, 1), text.flatten())

    torch.manual_seed(0)
    text = torch.randint(1, 49, (4, 10))
    hidden = torch.arange(40).view(4, 10) % 6 == 0

    def patient():
        batch = {"ids": text.masked_fill(hidden, 49)}
        return {"module": Model(), "batch": batch, "loss": loss, "causal": False}
"""
_MENDED = _FAULTY.replace(
    "        # The tokens that are hidden are 49; those that are read count, too.\n", ""
).replace(
    'module(batch["ids"]).flatten(0, 1), text.flatten())',
    'module(batch["ids"])[hidden], text[hidden])',
)
_MOST = 0.5


@check(
    code="labels-in-sight",
    title="A masked language model is asked for what it does not see",
    fault="A masked language model is asked for the tokens that it reads",
    cost="probe",
    cause="Labels are the whole text, or those of tokens that are not hidden are not left out.",
    mend="Labels only where a token is hidden, replaced or kept on purpose (15 % of the text), and "
    "-100 elsewhere.",
    reference="Devlin et al. 2019, section 3.1",
    symptoms=("too-good",),
    example=_FAULTY,
    mended=_MENDED,
)
def labels_in_sight(case: Case) -> Outcome:
    """A model that reads both sides of a token needs only copy one that stands before it.

    Its loss falls to nothing, and what it learns is of no use. Some visible tokens are asked for
    on purpose (10 % of them in BERT), never most of them. The loss's gradient on the logits says
    which token each position is asked for.
    """
    intent = case.intent
    if intent.causal is None:
        raise Skip(f"whether it is causal is not known ({intent.reason}): say causal=True or False")
    if intent.causal or case.call.read == "target":
        raise NotApplicable("each position is asked for a later token: see label-shift")
    stream = case.call.streams[case.call.read]
    if case.call.text(case.call.read).dim() != 2:
        raise NotApplicable("the model reads vectors: there is no token that a position reads")
    own = any(each.role == "labels" for each in case.call.entries)
    if case.patient.loss is None and not own:
        raise Skip("no loss function was handed over, and the batch has no labels")
    if case.base.tokens.size(-1) < stream.vocab_size:
        raise NotApplicable("its answers are no tokens of the vocabulary")
    objective = case.objective
    asked = objective.counts & objective.keep & (objective.mass > 0.5)
    if int(asked.sum()) < 3:
        raise Skip("the loss counts too few tokens to tell")
    seen = float((objective.target == objective.text)[asked].float().mean())
    share = float(asked.sum() / objective.keep.sum())
    evidence = (
        f"{share:.0%} of the positions are asked for a token, {seen:.0%} of them for the very one "
        "that they read"
    )
    found = passed if seen <= _MOST else failure
    return found(evidence, asked=share, seen=seen)

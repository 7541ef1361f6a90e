"""foreign-ids: the ids mean to the model what they mean to the tokenizer."""

from typing import Any

import torch
from torch import Tensor

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.positions.embedded import text_lookups
from gnomon.doctor.facts.training.optimizing import names_of
from gnomon.doctor.finding import Outcome, Skip, passed, warning

_FAULTY = """
    import torch
    from torch import nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(64, 32)
            self.layer = nn.TransformerEncoderLayer(32, 2, 64, dropout=0.0, batch_first=True)
            self.head = nn.Linear(32, 64)

        def forward(self, ids):
            look_ahead = nn.Transformer.generate_square_subsequent_mask(ids.size(1))
            return self.head(self.layer(self.embed(ids), src_mask=look_ahead, is_causal=True))

    def loss(module, batch):
        logits = module(batch["ids"])[:, :-1]
        return nn.functional.cross_entropy(logits.flatten(0, 1), batch["ids"][:, 1:].flatten())

    def text():  # few tokens are frequent, as in any language
        return (64 * torch.rand(4, 40) ** 8).long()

    def patient():
        torch.manual_seed(0)
        module = Model()
        optimizer = torch.optim.Adam(module.parameters(), 1e-2)
        for _ in range(40):
            optimizer.zero_grad()
            loss(module, {"ids": text()}).backward()
            optimizer.step()
        other = torch.randperm(64)  # the vocabulary was sorted anew
        return {"module": module, "batch": {"ids": other[text()]}, "loss": loss}
"""
_MENDED = _FAULTY.replace("other[text()]", "text()")
_OFTEN = 3  # times in the text
_UNLIKELY = 0.5  # the model's own rank of a token: in the less likely half of the vocabulary
_EXPECTED = 0.5  # times in the text, by the model's average prediction
_SHARE = 0.06  # of the text
_KINDS = 3  # different tokens
_FEWEST = 50  # tokens of text
_SMALLEST = 32  # vocabulary


@check(
    code="foreign-ids",
    title="Ids mean to the model what they mean to the text",
    fault="Ids mean something else to the model than to the text",
    cost="probe",
    cause="The text was encoded with another tokenizer than the model's (or with one whose entries "
    "were put in another order), or rows of the embedding were exchanged.",
    mend="Use the tokenizer that was saved with the model; if it was, load the embedding again.",
    reference="fairseq #1905, Marian #260 (models decoded with another vocabulary of one size)",
    symptoms=("gibberish", "deployed"),
    example=_FAULTY,
    mended=_MENDED,
)
def foreign_ids(case: Case) -> Outcome:
    """A vocabulary of the right size with other entries breaks nothing, and nothing is understood.

    Whatever a model does not know of a text, it knows which tokens are frequent. So its predictions
    are averaged over the text: tokens that stand there again and again must not be among those it
    holds for unlikely.
    """
    case.must_be_trained()
    if case.patient.batch is None:
        raise Skip("no batch of its own text was handed over")
    objective = case.objective
    logits = case.run(objective.call).tokens
    asked = objective.counts & objective.keep
    if logits.size(-1) < _SMALLEST:
        raise Skip("the vocabulary has fewer than 32 entries")
    expected = logits[asked].double().softmax(-1).mean(0)
    rank = torch.empty_like(expected)
    rank[expected.argsort()] = torch.linspace(0, 1, len(expected)).to(rank)
    text = _ordinary(case, objective.target[asked], objective.text, objective.keep & ~asked)
    text = text[text < len(rank)]
    if len(text) < _FEWEST:
        raise Skip(f"the batch has {len(text)} ordinary tokens: too few to know what is frequent")
    counts = torch.bincount(text, minlength=len(rank))
    rare = (rank < _UNLIKELY) & (expected * len(text) < _EXPECTED)
    strange = ((counts >= _OFTEN) & rare).nonzero().flatten()
    share = float(counts[strange].sum()) / len(text)
    usual = float(rank[text].mean())
    numbers: dict[str, Any] = {"share": share, "mean_rank": usual, "ids": strange.tolist()[:20]}
    if share >= _SHARE and len(strange) >= _KINDS:
        return warning(
            f"{len(strange)} tokens that make up {share:.0%} of the text are among the less likely "
            f"half of the vocabulary to the model, e.g. {strange.tolist()[:5]}",
            where=_tables(case),
            **numbers,
        )
    return passed(
        f"the text's tokens are likelier to the model than {usual:.0%} of its vocabulary", **numbers
    )


def _ordinary(case: Case, targets: Tensor, text: Tensor, shown: Tensor) -> Tensor:
    """The ids of the text: what is to be predicted, or where that is little, what is shown.

    What begins or ends a row says nothing of the language, and hidden words stand under one id.
    """
    if len(targets) >= _FEWEST or text.is_floating_point():
        return targets
    ends: set[int] = set()
    for row, real in zip(text, shown, strict=True):
        if bool(real.any()):
            ends |= {int(row[real][0]), int(row[real][-1])}
    plain = text[shown]
    for each in ends:
        plain = plain[plain != each]
    return torch.cat([targets, plain])


def _tables(case: Case) -> list[str]:
    """The tables that the text is looked up in."""
    names = names_of(case)
    found = [
        names[id(e.table)] for e in text_lookups(case, case.small.read) if id(e.table) in names
    ]
    return list(dict.fromkeys(name.removesuffix(".weight") for name in found))

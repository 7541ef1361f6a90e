"""vocabulary-mismatch: tokenizer, table and configuration speak of one vocabulary."""

from typing import Any

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.positions.lookups import lookups_of_batch
from gnomon.doctor.finding import NotApplicable, Outcome, Skip, failure, passed, warning
from gnomon.doctor.inputs import config_of, vocabulary

_FAULTY = """
    import torch
    from torch import nn

    class Letters:
        def __len__(self):
            return 60  # ten tokens were added after the model was built

        def encode(self, text):
            return [ord(letter) % 60 for letter in text]

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(50, 16)
            self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)

        def forward(self, ids):
            return self.layer(self.embed(ids))

    def patient():
        torch.manual_seed(0)
        batch = {"ids": torch.randint(1, 50, (2, 8))}
        return {"module": Model(), "batch": batch, "tokenizer": Letters()}
"""
_MENDED = _FAULTY.replace("nn.Embedding(50, 16)", "nn.Embedding(60, 16)")
_SPECIAL = ("pad", "eos", "bos", "unk")


@check(
    code="vocabulary-mismatch",
    title="Tokenizer and model have one vocabulary",
    fault="Tokenizer and model differ in their vocabulary",
    cost="probe",
    cause="Tokens were added to the tokenizer, or it is that of another model.",
    mend="Use the tokenizer that was saved with the model, or resize the embedding "
    "(resize_token_embeddings) and train the new rows.",
    reference="XLM #48, bert-nmt #17: index out of range, on a GPU a device assert",
    symptoms=("gibberish", "deployed", "nan"),
    example=_FAULTY,
    mended=_MENDED,
)
def vocabulary_mismatch(case: Case) -> Outcome:
    """Ids beyond the table end with an error, on a GPU without a usable message; special ids that
    mean other tokens to the model than to the tokenizer are read and written without one.

    A table larger than the vocabulary is usual (sizes are rounded up) and no finding.
    """
    tokenizer = case.patient.tokenizer
    if case.patient.module is not None and case.reads_vectors:
        raise NotApplicable("the model reads vectors: it has no table of tokens")
    if tokenizer is None:
        raise Skip("no tokenizer was handed over")
    size = _rows(case)
    if size is None:
        raise NotApplicable("the model has no table of tokens")
    count = len(tokenizer) if hasattr(tokenizer, "__len__") else 0
    largest = _largest(case)
    if max(count - 1, largest) >= size:
        return failure(
            f"the tokenizer has {count} entries and gave ids up to {largest}; the model has "
            f"{size} rows",
            tokenizer=count,
            rows=size,
            largest=largest,
        )
    others = dict(_other_special_ids(case, tokenizer))
    if others:
        told = "; ".join(f"{name}: tokenizer {a}, model {b}" for name, (a, b) in others.items())
        return warning(
            f"special ids differ: {told}",
            where=list(others),
            cause="The configuration is of another tokenizer.",
            mend="Set the ids in the model's (and generation's) configuration to the tokenizer's.",
            ids={name: list(both) for name, both in others.items()},
        )
    return passed(f"{count} entries of the tokenizer, {size} rows of the model", rows=size)


def _rows(case: Case) -> int | None:
    """Of the table (the smallest of them) that texts' ids are looked up in, as is seen in a run."""
    try:
        seen = [each.rows for each in lookups_of_batch(case).made if each.is_text]
    except Skip:
        seen = []
    return min(seen) if seen else vocabulary(case.patient, "source")


def _largest(case: Case) -> int:
    """The largest id that the tokenizer gives for the texts at hand, -1 without any."""
    largest = -1
    for text in case.patient.texts[:50]:
        ids = case.patient.tokenizer.encode(text)
        largest = max(largest, *map(int, ids), -1)
    return largest


def _other_special_ids(case: Case, tokenizer: Any) -> Any:
    """Special ids that both sides name, and name differently."""
    config = config_of(case.patient)
    for name in _SPECIAL:
        theirs = getattr(tokenizer, f"{name}_token_id", None)
        ours = getattr(config, f"{name}_token_id", None)
        if isinstance(ours, list):
            if theirs is not None and theirs not in ours:
                yield name, (theirs, ours[0])
        elif isinstance(ours, int) and isinstance(theirs, int) and ours != theirs:
            yield name, (theirs, ours)

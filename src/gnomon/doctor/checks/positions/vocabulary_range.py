"""vocabulary-range: every id that can come has a row in the table."""

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.positions.lookups import lookups_of_batch
from gnomon.doctor.finding import NotApplicable, Outcome, Skip, failure, passed
from gnomon.doctor.inputs import config_of, known_pad_id

_FAULTY = """
    import torch
    from torch import nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(50, 16)  # the tokenizer has 52 tokens
            self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)

        def forward(self, ids):
            return self.layer(self.embed(ids))

    class Tokenizer:
        def __len__(self):
            return 52

    def patient():
        ids = torch.randint(1, 50, (2, 8))
        return {"module": Model(), "batch": {"ids": ids}, "tokenizer": Tokenizer()}
"""
_MENDED = _FAULTY.replace(
    "nn.Embedding(50, 16)  # the tokenizer has 52 tokens", "nn.Embedding(52, 16)"
)


@check(
    code="vocabulary-range",
    title="Every id has a row in the token table",
    fault="Ids have no row in the token table",
    cost="probe",
    cause="The table was made for another vocabulary than the tokenizer's.",
    mend="Make the table as large as the tokenizer (resize_token_embeddings(len(tokenizer)) after "
    "tokens were added), and load the tokenizer that the model was trained with.",
    reference="XLM #48, bert-nmt #17: index out of range asserts on a GPU",
    symptoms=("gibberish", "nan"),
    example=_FAULTY,
    mended=_MENDED,
)
def vocabulary_range(case: Case) -> Outcome:
    """An id past the table is an IndexError on a CPU and a dead process on a GPU.

    Looked at are the batch's ids, the special ids, and the tokenizer's size. The table may have
    more rows than there are tokens.
    """
    seen = lookups_of_batch(case)
    texts = [each for each in seen.made if each.is_text]
    wrong = seen.wrong
    if wrong is not None and wrong.is_text:
        odd = wrong.lowest if wrong.lowest < 0 else wrong.highest
        return failure(
            f"the batch has id {odd}, and {wrong.module} has rows for 0 to {wrong.rows - 1}",
            where=wrong.module,
            cause="Labels or another filling stand among the inputs." if odd < 0 else "",
            id=odd,
            rows=wrong.rows,
        )
    if not texts:
        if case.reads_vectors:
            raise NotApplicable("the model reads vectors: it has no table of tokens")
        raise Skip("no table is looked up by the text's ids as they are given")
    table = min(texts, key=lambda each: each.rows)
    pad_id = known_pad_id(case.patient)
    if pad_id is not None and pad_id >= table.rows:
        return failure(
            f"padding has id {pad_id}, and {table.module} has rows for 0 to {table.rows - 1}",
            where=table.module,
            cause="A padding token was added and the table was not made larger, or the id that was "
            "handed over is not that of padding."
            if pad_id == case.patient.pad_id
            else "A padding token was added and the table was not made larger.",
            id=pad_id,
            rows=table.rows,
        )
    tokenizer = case.patient.tokenizer
    size = len(tokenizer) if hasattr(tokenizer, "__len__") else None
    if size is not None and size > table.rows:
        return failure(
            f"the tokenizer has {size} tokens, and {table.module} {table.rows} rows",
            where=table.module,
            tokens=size,
            rows=table.rows,
        )
    claimed = getattr(config_of(case.patient), "vocab_size", None)
    if isinstance(claimed, int) and claimed > max(each.rows for each in texts):
        return failure(
            f"vocab_size is {claimed} by configuration, and {table.module} has {table.rows} rows",
            where=table.module,
            cause="The table was made smaller than its configuration says.",
            tokens=claimed,
            rows=table.rows,
        )
    return passed(
        f"ids up to {max(each.highest for each in texts)}"
        + (f", a tokenizer of {size} tokens" if size is not None else "")
        + f" and {table.rows} rows",
        rows=table.rows,
    )

"""position-range: the longest text has a position for each token."""

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.positions.lookups import lookups, lookups_of_batch
from gnomon.doctor.finding import NotApplicable, Outcome, Skip, failure, passed

_FAULTY = """
    import torch
    from torch import nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.places = nn.Embedding(50, 16), nn.Embedding(16, 16)
            self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)

        def forward(self, ids):
            return self.layer(self.embed(ids) + self.places(torch.arange(ids.size(1))))

    def patient():
        torch.manual_seed(0)
        ids = torch.randint(1, 50, (2, 8))
        return {"module": Model(), "batch": {"ids": ids}, "max_length": 20}  # 16 rows
"""
_MENDED = _FAULTY.replace("nn.Embedding(16, 16)", "nn.Embedding(20, 16)")
_LONGEST = 2048  # tokens that are tried
_SHORT = 5


@check(
    code="position-range",
    title="The longest text has a position for each token",
    fault="The longest text has more tokens than there are positions",
    cost="probe",
    cause="The table of positions is shorter than the texts, or positions begin past its first "
    "row.",
    mend="Make the table as long as the longest text plus its reserved rows, cut texts to what it "
    "holds, and refuse longer ones with a message.",
    reference="transformers #97, #14384; fairseq #757",
    symptoms=("long-input",),
    example=_FAULTY,
    mended=_MENDED,
)
def position_range(case: Case) -> Outcome:
    """Past the table's end it is a bare IndexError on a CPU and a dead process on a GPU.

    Clamped or wrapped, late tokens share positions without an error. The batch is run, then a text
    as long as the tokenizer or the caller says texts may be; look-ups are stopped before they go
    out of range.
    """
    seen = lookups_of_batch(case)
    wrong = seen.wrong
    if wrong is not None and not wrong.is_text:
        return failure(
            f"the batch reads row {wrong.highest if wrong.lowest >= 0 else wrong.lowest} of "
            f"{wrong.module}, which has rows 0 to {wrong.rows - 1}",
            where=wrong.module,
            row=wrong.highest,
            rows=wrong.rows,
        )
    if wrong is not None:
        raise Skip(f"the batch's ids are out of range in {wrong.module}")
    if seen.error is not None:
        return _too_long(case, seen.error)
    longest, said = _longest(case)
    places = _places(case)
    call = case.small.rows([0])
    for stream in call.streams:
        call = call.longer(stream, longest).one_document(stream)
    tried = lookups(case, call)
    wrong = tried.wrong
    if wrong is not None and not wrong.is_text:
        return failure(
            f"a text of {longest} tokens ({said}) reads row {wrong.highest} of {wrong.module}, "
            f"which has rows 0 to {wrong.rows - 1}",
            where=wrong.module,
            row=wrong.highest,
            rows=wrong.rows,
        )
    if tried.error is not None and (alone := lookups(case, case.small.rows([0])).error) is not None:
        raise Skip(f"one text alone is refused, however short it is: {type(alone).__name__}")
    if tried.error is not None:
        return failure(
            f"a text of {longest} tokens ({said}) ends in {type(tried.error).__name__}: "
            f"{str(tried.error)[:150]}",
            cause="The positions end before the longest text does.",
        )
    for each in tried.made:
        read = each.highest - each.lowest + 1
        if each.module in places and read < longest:
            return failure(
                f"a text of {longest} tokens ({said}) reads only {read} rows of {each.module}: "
                "positions are clamped or begin again",
                where=each.module,
                cause="Late tokens share positions with others.",
                rows=each.rows,
            )
    return passed(f"texts of {longest} tokens ({said}) have a position for each")


def _too_long(case: Case, error: Exception) -> Outcome:
    """The batch is refused: is it for its length?"""
    call = case.call
    for stream in call.streams:
        length = call.length(stream)
        short = length // 2
        while short > _SHORT:
            tried = lookups(case, call.cut(stream, 0, short))
            if tried.error is None and tried.wrong is None:
                return failure(
                    f"the batch has {length} tokens in its {stream} and ends in "
                    f"{type(error).__name__}: {str(error)[:150]}; cut to {short} it runs",
                    cause="The positions end before the longest text does.",
                    length=length,
                    runs=short,
                )
            short //= 2
    raise Skip(f"the model does not run on the batch: {type(error).__name__}")


def _longest(case: Case) -> tuple[int, str]:
    if case.reads_vectors:
        raise NotApplicable("the model reads vectors: whoever makes them adds the positions")
    tokenizer = case.patient.tokenizer
    claims = [(case.patient.max_length, "as declared")]
    claims.append((getattr(tokenizer, "model_max_length", None), "the tokenizer's limit"))
    found = [(n, said) for n, said in claims if isinstance(n, int) and 0 < n < 10**6]
    if not found:
        raise Skip("nothing says how long texts may be: max_length, or the tokenizer's limit")
    longest, said = max(found)
    if longest > _LONGEST:
        raise Skip(f"{longest} tokens ({said}) are too many to be tried")
    return longest, said


def _places(case: Case) -> set[str]:
    """Tables of which a short text reads a row for each token (and one for padding)."""
    call = case.small.rows([0])
    for stream in call.streams:
        call = call.cut(stream, 0, min(_SHORT, call.length(stream)))
        call = call.one_document(stream)
    lengths = {call.length(stream) for stream in call.streams}
    allowed = lengths | {length + 1 for length in lengths}
    return {
        each.module
        for each in lookups(case, call).made
        if not each.is_text and each.count in lengths and each.highest - each.lowest + 1 in allowed
    }

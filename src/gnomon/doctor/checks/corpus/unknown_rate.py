"""unknown-rate: the vocabulary can write the text."""

from collections import Counter
from collections.abc import Iterator
from itertools import islice

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.corpus.texts import first_pairs
from gnomon.doctor.finding import NotApplicable, Outcome, Skip, failure, passed, warning

_FAULTY = """
    class Letters:
        unk_token_id = 0
        letters = "abcdefghijklmnopqrstuvwxyz ."

        def __len__(self):
            return 1 + len(self.letters)

        def encode(self, text):
            return [1 + self.letters.find(letter) for letter in text]

    def patient():
        texts = ["Der Zug fährt um acht Uhr.", "Heute ist Markt in Köln."] * 5
        return {"tokenizer": Letters(), "texts": texts}
"""
_MENDED = _FAULTY.replace('vwxyz ."', 'vwxyz .ABCDEFGHIJKLMNOPQRSTUVWXYZäöü"')
_NUM_LINES = 20_000
_SOME, _MANY = 0.001, 0.03


@check(
    code="unknown-rate",
    title="The vocabulary can write the text",
    fault="The vocabulary cannot write part of the text",
    cost="static",
    cause="The vocabulary was learned from other text (another script, case or spelling), and has "
    "no bytes to fall back on.",
    mend="Learn it from this text, with byte fallback (gnomon: tokenizer.byte_fallback = true).",
    reference="OpenNMT-py #1731, marian #249, fairseq #222",
    symptoms=("gibberish", "stuck"),
    example=_FAULTY,
    mended=_MENDED,
)
def unknown_rate(case: Case) -> Outcome:
    """What becomes the unknown token cannot be learned, read or written.

    The first lines of the text are encoded and unknown ids counted.
    """
    tokenizer = case.patient.tokenizer
    if tokenizer is None:
        raise Skip("no tokenizer was handed over")
    unknown = getattr(tokenizer, "unk_token_id", None)
    if unknown is None:
        raise NotApplicable("the tokenizer has no unknown token: it writes any text")
    num_tokens = num_unknown = num_lines = 0
    characters: Counter[str] = Counter()
    for text in islice(_texts(case), _NUM_LINES):
        ids = list(tokenizer.encode(text))
        count = sum(int(index) == unknown for index in ids)
        num_lines, num_tokens, num_unknown = (
            num_lines + 1,
            num_tokens + len(ids),
            (num_unknown + count),
        )
        if count:
            characters.update(_unknown_characters(tokenizer, text, unknown))
    if not num_tokens:
        raise Skip("there is no text to encode")
    rate = num_unknown / num_tokens
    evidence = f"{num_unknown:,} of {num_tokens:,} tokens in {num_lines:,} lines are unknown"
    if rate < _SOME:
        return passed(evidence, rate=rate)
    most = " ".join(char for char, _ in characters.most_common(8))
    return (failure if rate >= _MANY else warning)(
        f"{evidence} ({rate:.1%})" + (f", above all {most}" if most else ""),
        where=[char for char, _ in characters.most_common(8)],
        rate=rate,
    )


def _texts(case: Case) -> Iterator[str]:
    yield from case.patient.texts
    if not case.patient.texts:
        yield from (pair.source for pair in first_pairs(case))


def _unknown_characters(tokenizer: object, text: str, unknown: int) -> list[str]:
    encode = tokenizer.encode  # type: ignore[attr-defined]
    return [c for c in set(text) if not c.isspace() and unknown in map(int, encode(c))]

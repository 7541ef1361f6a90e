"""tokenisation-mismatch: training and use cut text in the same way."""

from itertools import islice

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.corpus.surface import shares
from gnomon.doctor.facts.corpus.texts import first_pairs
from gnomon.doctor.finding import NotApplicable, Outcome, Skip, failure, passed
from gnomon.doctor.inputs import special_ids
from gnomon.recipes import TranslationRecipe
from gnomon.text.sources import Split

_FAULTY = """
    import torch
    from torch import nn

    class Letters:
        pad_token_id, all_special_ids = 0, [0, 1]

        def encode(self, text):
            return [ord(letter) for letter in text] + [1]

        def decode(self, ids, skip_special_tokens=True):
            return "".join(chr(i) for i in ids if i > 1)

    def patient():
        texts = ["Der Zug kommt.", "Ein Hund!", "Ja."]
        rows = [[ord(letter) for letter in text] for text in texts]  # without the end, 1
        ids = torch.zeros(3, 20, dtype=torch.long)
        for row, own in enumerate(rows):
            ids[row, : len(own)] = torch.tensor(own)
        return {"module": nn.Sequential(nn.Embedding(256, 8)), "batch": (ids,), "pad_id": 0,
                "tokenizer": Letters(), "texts": texts}
"""
_MENDED = _FAULTY.replace(
    "rows = [[ord(letter) for letter in text] for text in texts]  # without the end, 1",
    "rows = [Letters().encode(text) for text in texts]",
)
_SPLITS: tuple[Split, ...] = ("train", "valid", "test")
_NUM_LINES, _FEWEST = 2000, 20
_HARDLY, _MOSTLY = 0.02, 0.5  # shares of lines that show a habit


@check(
    code="tokenisation-mismatch",
    title="Training and use cut text in one way",
    fault="Training and use cut text in different ways",
    cost="static",
    cause="The batches of training were made with another tokenizer, or other settings of it, than "
    "the one that is handed over for use.",
    mend="Encode in one function for both; save the tokenizer with the model and load it from "
    "there.",
    reference="mozilla/translations #469; tensor2tensor #61: another tokenizer lowered BLEU unseen",
    symptoms=("gibberish", "deployed"),
    example=_FAULTY,
    mended=_MENDED,
)
def tokenisation_mismatch(case: Case) -> Outcome:
    """A model reads at its best what it was trained on: the same pieces, the same special ids.

    How the lines of training, validation and test text are written is compared (capitals, blanks
    before punctuation, marks of subwords, escaped characters, accents); the rows of the training
    batch are decoded and encoded again, and must come back.
    """
    found = _between_splits(case)
    try:
        rows = _of_batch(case)
    except Skip:
        if found is None:
            raise
        return found
    return found if found is not None and found.verdict == "fail" else rows


def _between_splits(case: Case) -> Outcome | None:
    """Validation and test text against training text; None where there are no two of them."""
    seen: dict[str, dict[str, dict[str, float]]] = {}
    for split in _SPLITS:
        try:
            pairs = list(islice(first_pairs(case, split), _NUM_LINES))
        except Skip:
            continue
        if len(pairs) >= _FEWEST:
            sides = ("source", [p.source for p in pairs]), ("target", [p.target for p in pairs])
            seen[split] = {side: shares(lines)[1] for side, lines in sides}
    if "train" not in seen or len(seen) < 2:
        return None
    told = [
        f"{habit}: in {train:.0%} of the {side} lines of training, in {other:.0%} of {split}"
        for split in list(seen)[1:]
        for side in ("source", "target")
        for habit, train in seen["train"][side].items()
        for other in (seen[split][side][habit],)
        if min(train, other) <= _HARDLY and max(train, other) >= _MOSTLY
    ]
    if not told:
        return passed(f"{' and '.join(seen)} text are written alike", shares=seen)
    return failure(
        "; ".join(told[:4]),
        cause="One text went through a step (lower-casing, tokenisation, escaping, another Unicode "
        "form) that the other did not.",
        mend="Do the same steps to all text, in training and in use; best none, and leave it to "
        "the model's own tokenizer.",
        shares=seen,
    )


def _of_batch(case: Case) -> Outcome:
    patient = case.patient
    tokenizer, batch = patient.tokenizer, patient.batch
    if tokenizer is None or not hasattr(tokenizer, "decode"):
        raise Skip("no tokenizer that decodes was handed over")
    if batch is None:
        raise Skip("no batch of training was handed over")
    if isinstance(patient.recipe, TranslationRecipe) and patient.recipe.tokenizer.bpe_dropout:
        raise Skip("BPE-dropout cuts training text otherwise on purpose")
    call = case.call
    if call.entry("source").role != "ids":
        raise NotApplicable("the batch holds no ids")
    rows = _rows(case)
    special = set(special_ids(patient)) | _marks(rows)
    mask = getattr(tokenizer, "mask_token_id", None)
    if (mask is not None and any(mask in row for row in rows)) or _is_masked(case):
        raise Skip("tokens of the batch are masked, so its text cannot be read back")
    longest = max(map(len, rows))
    if all(len(row) == longest for row in rows) and len(rows) > 1:
        raise Skip("all rows are of one length: pieces cut out of a longer text, it seems")
    ends = _ends_compared(case)
    counts = {"text": 0, "pieces": 0, "ends": 0}
    example = ""
    for row in rows:
        text = tokenizer.decode([i for i in row if i not in special])
        again = [int(i) for i in tokenizer.encode(text)]
        kind = _differs(row, again, special, tokenizer.decode(again) == tokenizer.decode(row))
        if kind == "ends" and len(row) == longest:
            continue  # it may have been cut off there
        if kind == "ends" and not (ends and special.intersection(again) - set(row)):
            continue  # whoever made the batch adds the marks, not the tokenizer
        if kind:
            counts[kind] += 1
            example = example or f"{row[:8]} … became {again[:8]} …"
    wrong = sum(counts.values())
    if wrong * 2 <= len(rows) - 1:
        return passed(
            f"{len(rows) - wrong} of {len(rows)} rows come back from decoding and encoding"
        )
    most = max(counts, key=lambda kind: counts[kind])
    evidence = f"{wrong} of {len(rows)} rows do not come back from decoding and encoding: {example}"
    return failure(evidence, cause=_CAUSES[most], rows=len(rows), differing=wrong, kind=most)


_CAUSES = {
    "ends": "The pieces are the same, the special ids around them are not (end of sentence, begin, "
    "language code): a model that learned without them has to read with them, or the reverse.",
    "pieces": "The same text is cut into other pieces: another vocabulary, other merges, or "
    "sampling that was left on.",
    "text": "The text itself changes: another normalisation, case, or a vocabulary that cannot "
    "write it.",
}


def _rows(case: Case) -> list[list[int]]:
    """The batch's own ids, padding taken off both ends."""
    ids, keep = case.call.text("source"), case.call.keep("source")
    return [row[mask].tolist() for row, mask in zip(ids, keep, strict=True) if bool(mask.any())]


def _marks(rows: list[list[int]]) -> set[int]:
    """An id that begins every row, or ends every row, and stands nowhere else in it."""
    found: set[int] = set()
    for place in (0, -1):
        marks = {row[place] for row in rows}
        if len(rows) > 1 and len(marks) == 1 and all(row.count(*marks) == 1 for row in rows):
            found |= marks
    return found


def _is_masked(case: Case) -> bool:
    """Whether an encoder's loss asks for other tokens than stand in their places."""
    try:
        asked = case.objective
        if case.intent.family != "encoder" or asked.text.is_floating_point():
            return False
        return bool((asked.counts & (asked.target != asked.text)).any())
    except Skip:
        return False


def _ends_compared(case: Case) -> bool:
    """Whether a row must have the tokenizer's marks: a prompt has no end, text to be read has."""
    try:
        return case.intent.family != "decoder"
    except Skip:
        return True


def _differs(row: list[int], again: list[int], special: set[int], same_text: bool) -> str:
    """How a row and its second encoding differ; "" where they do not.

    The last two pieces may: a text that was cut off there is cut into pieces otherwise.
    """
    plain = [i for i in row if i not in special]
    other = [i for i in again if i not in special]
    same = next((n for n, (a, b) in enumerate(zip(plain, other, strict=False)) if a != b), None)
    if same is None:
        same = min(len(plain), len(other))
    if len(plain) - same <= 2 and len(other) - same <= 3:
        ends = [i for i in row if i in special], [i for i in again if i in special]
        return "" if ends[0] == ends[1] else "ends"
    return "pieces" if same_text else "text"

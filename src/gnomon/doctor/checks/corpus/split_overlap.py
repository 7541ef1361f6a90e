"""split-overlap: what a model is judged on is not what it was trained on."""

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.corpus.texts import split_of
from gnomon.doctor.finding import Outcome, Skip, failure, passed, warning
from gnomon.text.occurrences import Occurrences
from gnomon.text.overlap import find_overlap
from gnomon.text.sources import Split

_FAULTY = """
    import tempfile
    from pathlib import Path

    def patient():
        folder = Path(tempfile.mkdtemp())
        train = [f"sentence number {n}\\tSatz Nummer {n}" for n in range(100)]
        test = train[:20] + [f"unseen sentence {n}\\tneuer Satz {n}" for n in range(20)]
        (folder / "train.tsv").write_text(chr(10).join(train) + chr(10))
        (folder / "test.tsv").write_text(chr(10).join(test) + chr(10))
        return {"corpus": {"pairs": folder / "train.tsv", "test_pairs": folder / "test.tsv"}}
"""
_MENDED = _FAULTY.replace("train[:20] + ", "")
_JUDGED: tuple[Split, ...] = ("valid", "test")
_FEW, _MANY = 0.01, 0.1  # shares of the pairs: greetings and the like recur in any text


@check(
    code="split-overlap",
    title="Training text holds nothing of the test",
    fault="Training text holds lines of the test or validation text",
    cost="run",
    cause="Pairs were drawn for the splits before duplicates were taken out, or a corpus holds the "
    "test set.",
    mend="Take the shared sources out of the training text (gnomon holds out pairs by the hash of "
    "their source), and judge on text that was made apart.",
    reference="Kreutzer et al. 2022, quality at a glance; gnomon `[data] holdout`",
    symptoms=("too-good",),
    example=_FAULTY,
    mended=_MENDED,
)
def split_overlap(case: Case) -> Outcome:
    """A score on text that was trained on says nothing of other text.

    A source counts as the same up to case and blanks. Hashes lie on the disk meanwhile, so memory
    does not grow with the training text.
    """
    train = split_of(case)
    others = {}
    for split in _JUDGED:
        try:
            others[split] = split_of(case, split)
        except Skip:
            continue
    if not others:
        raise Skip("there is no validation and no test text beside the training text")
    found = find_overlap(train, list(others.values()), 0, Occurrences())
    shares, told, places = {}, [], []
    for (split, corpus), seen in zip(others.items(), found.others, strict=True):
        shares[split] = seen.count / max(1, len(corpus))
        lines = f": {corpus.places(seen.first_lines, seen.count)}" if seen.count else ""
        told.append(f"{seen.count:,} of {len(corpus):,} {split} sources are trained on{lines}")
        places += [corpus.place(line) for line in seen.first_lines]
    worst = max(shares.values())
    evidence = "; ".join(told)
    if worst < _FEW:
        return passed(evidence, shares=shares)
    return (failure if worst >= _MANY else warning)(evidence, where=places[:5], shares=shares)

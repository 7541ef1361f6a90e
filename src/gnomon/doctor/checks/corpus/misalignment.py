"""misalignment: line i of the target translates line i of the source."""

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.corpus.texts import split_of
from gnomon.doctor.finding import Outcome, Skip, failure, passed
from gnomon.text.corpus import ParallelCorpus
from gnomon.text.shifts import MIN_PAIRS, Shifted, find_shifts

_FAULTY = """
    import random
    import tempfile
    from pathlib import Path

    def patient():
        rng = random.Random(0)
        source, target = [], []
        for number in range(400):
            length = rng.randint(1, 12)
            source.append("the dog " * length + f"runs {number}.")
            target.append("der Hund " * length + f"rennt {number}.")
        del target[250]  # one line is lost on one side only,
        target.append("")  # and the number of lines made up for
        folder = Path(tempfile.mkdtemp())
        (folder / "train.en").write_text("".join(line + chr(10) for line in source))
        (folder / "train.de").write_text("".join(line + chr(10) for line in target))
        return {"corpus": {"source": folder / "train.en", "target": folder / "train.de"}}
"""
_MENDED = _FAULTY.replace(
    "        del target[250]  # one line is lost on one side only,\n", ""
).replace('        target.append("")  # and the number of lines made up for\n', "")
_NAMED = 5


@check(
    code="misalignment",
    title="Line i translates line i",
    fault="Lines of source and target do not belong together",
    cost="run",
    cause="A line was lost, doubled or split on one side, and the line counts were made to agree "
    "later; or the two files were sorted or shuffled apart.",
    mend="Look at the named line in both files, put the lost line back (or take its partner out), "
    "and run this check again.",
    reference="OpenNMT-py #1966, modernmt #245, NTREX #3: a corpus one line off trains without a "
    "word",
    symptoms=("gibberish", "stuck"),
    example=_FAULTY,
    mended=_MENDED,
)
def misalignment(case: Case) -> Outcome:
    """From a lost line on every pair is wrong, and training goes on all the same.

    Lines that belong together are of like length, hold the same numbers and names and end in like
    punctuation. Where that holds for lines some places apart and not for the pairs, they are
    shifted; where it holds nowhere, the sides are not of each other.
    """
    corpus = split_of(case)
    if len(corpus) < MIN_PAIRS:
        raise Skip(f"{len(corpus)} pairs do not tell; {MIN_PAIRS} do")
    fit = find_shifts(corpus.pairs())
    wrong = sum(run.num_lines for run in fit.runs)
    if fit.runs:
        told = "; ".join(_told(run, corpus) for run in fit.runs[:_NAMED])
        is_shifted = any(run.shift for run in fit.runs)
        return failure(
            f"{wrong:,} of {fit.num_pairs:,} pairs do not belong together: {told}",
            cause="" if is_shifted else "Lines of that part stand in another order on one side.",
            where=[corpus.place(run.first) for run in fit.runs[:_NAMED]],
            wrong=wrong,
            pairs=fit.num_pairs,
            runs=[[run.first, run.last, run.shift] for run in fit.runs],
        )
    evidence = (
        f"over {fit.num_pairs:,} pairs the sides agree by {fit.agreement:.2f}, lines far apart by "
        f"{fit.chance:.2f} (± {fit.error:.2g})"
    )
    if fit.unrelated:
        return failure(
            evidence,
            where=[corpus.place(1)],
            cause="The sides fit no better than by chance: they were shuffled or sorted apart, "
            "are of different texts, or shifted by more than can be seen.",
            mend="Go back to the files as they were before the last step that changed one of them.",
            agreement=fit.agreement,
            chance=fit.chance,
        )
    return passed(evidence, agreement=fit.agreement, chance=fit.chance, pairs=fit.num_pairs)


def _told(run: Shifted, corpus: ParallelCorpus) -> str:
    lines = f"lines {corpus.spot(run.first)} to {corpus.spot(run.last)}"
    if run.shift == 0:
        return f"in {lines} the numbers of one side stand in other lines of the other"
    which = "later" if run.shift > 0 else "earlier"
    count = abs(run.shift)
    return f"in {lines} the translation stands {count} line{'s' if count > 1 else ''} {which}"

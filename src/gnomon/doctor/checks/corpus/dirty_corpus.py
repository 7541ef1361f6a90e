"""dirty-corpus: what is learned from is translation, not rubbish."""

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.corpus.texts import split_of
from gnomon.doctor.finding import Outcome, passed, warning
from gnomon.recipes import TranslationRecipe
from gnomon.text import REASONS, CleaningConfig, look

_FAULTY = """
    import tempfile
    from pathlib import Path

    def patient():
        folder = Path(tempfile.mkdtemp())
        lines = [f"sentence number {n}\\tSatz Nummer {n}" for n in range(95)]
        lines += [f"copied text {n}\\tcopied text {n}" for n in range(5)]
        (folder / "train.tsv").write_text(chr(10).join(lines) + chr(10))
        return {"corpus": {"pairs": folder / "train.tsv"}}
"""
_MENDED = _FAULTY.replace("copied text {n}\\tcopied", "other text {n}\\tanderer")
_SHARE = 0.01
# What recurs in sound corpora is told of from a larger share on.
_SHARES = {
    "length_ratio": 0.02, "numbers_differ": 0.1, "few_letters": 0.05, "duplicate_pair": 0.2,
    "duplicate_source": 0.3, "duplicate_target": 0.3,
}  # fmt: skip


@check(
    code="dirty-corpus",
    title="The text is clean enough to learn from",
    fault="The text holds many pairs that do harm",
    cost="run",
    cause="Crawled text with copies, damaged encoding, foreign languages or very uneven pairs.",
    mend="Set the action of these reasons to drop in the recipe's [cleaning] table; "
    "`gnomon prepare --dry-run` shows every line.",
    reference="Khayrallah & Koehn 2018: copied and misaligned pairs hurt most",
    symptoms=("gibberish", "stuck"),
    example=_FAULTY,
    mended=_MENDED,
)
def dirty_corpus(case: Case) -> Outcome:
    """A model learns to copy, to loop or to mix languages from the pairs that do.

    Every pair of the training text is judged by the rules of `[cleaning]`; what a recipe leaves out
    or repairs by itself is not counted.
    """
    corpus = split_of(case)
    recipe = case.patient.recipe
    config = recipe.cleaning if isinstance(recipe, TranslationRecipe) else CleaningConfig()
    report = look(corpus, config)
    shares = {
        reason: finding.count / max(1, report.num_pairs)
        for reason, finding in report.in_order()
        if finding.action == "keep"
    }
    much = {r: share for r, share in shares.items() if share >= _SHARES.get(r, _SHARE)}
    if not much:
        listed = ", ".join(f"{REASONS[r]} {share:.2%}" for r, share in shares.items())
        return passed(f"{report.num_pairs:,} pairs: {listed or 'nothing to see'}", shares=shares)
    told = "; ".join(
        f"{REASONS[reason]}: {share:.1%} of the pairs "
        f"({corpus.places(report.findings[reason].lines[:3], report.findings[reason].count)})"
        for reason, share in much.items()
    )
    places = [corpus.place(report.findings[reason].lines[0]) for reason in much]
    return warning(f"of {report.num_pairs:,} pairs: {told}", where=places, shares=shares)

"""What cleaning would find in the text of a recipe, without building anything."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from gnomon.errors import excerpt
from gnomon.files import atomic_file
from gnomon.recipes import Recipe
from gnomon.recipes.tasks import translation
from gnomon.text import FINDINGS, CleaningReport, ParallelCorpus, judge, open_corpora

_SHOWN = 60  # characters of a side


@dataclass(frozen=True)
class Look:
    """What was found in each split that has text.

    Attributes:
        reports: by split ("train", "valid", "test"); only training text is ever left out.
        excerpts: by split, source and target of the lines that a report names.
        spots: by split, where these lines stand; see `ParallelCorpus.spot`.
    """

    reports: dict[str, CleaningReport]
    excerpts: dict[str, dict[int, tuple[str, str]]]
    spots: dict[str, dict[int, str]]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            split: {
                **report.to_dict(),
                "num_kept": report.num_kept if split == "train" else report.num_pairs,
                "excerpts": {str(line): texts for line, texts in self.excerpts[split].items()},
                "spots": {str(line): spot for line, spot in self.spots[split].items()},
            }
            for split, report in self.reports.items()
        }


def dry_run(recipe: Recipe, *, findings: str | Path | None = None) -> Look:
    """Read all text of a recipe and judge every pair; writes nothing but `findings`.

    Args:
        recipe: its `[data]`, `[cleaning]` and `augmentation.terms`; nothing else is looked at, so
            the limit of `data.max_length` tokens, which needs a vocabulary, is not applied.
        findings: a TSV to write, with every line of the training text that shows a reason.

    Raises:
        DataError: the text cannot be used; see `gnomon.text`.
    """
    recipe = translation(recipe)
    corpora = open_corpora(recipe.data)
    if (terms := recipe.augmentation.terms) is not None:
        corpora = corpora.with_terms(terms, recipe.augmentation.single_words)
    splits = {"train": corpora.train, "valid": corpora.valid, "test": corpora.test}
    reports, excerpts, spots = {}, {}, {}
    for split, corpus in splits.items():
        if corpus is None:
            continue
        with TemporaryDirectory(prefix="gnomon-dry-run-") as folder:
            report = reports[split] = judge(corpus, recipe.cleaning, Path(folder))
            if split == "train" and findings is not None:
                with atomic_file(Path(findings)) as file, (Path(folder) / FINDINGS).open("rb") as f:
                    shutil.copyfileobj(f, file)
        named = {line for finding in report.findings.values() for line in finding.lines}
        excerpts[split] = _texts(corpus, named)
        spots[split] = {line: corpus.spot(line) for line in sorted(named)}
    return Look(reports, excerpts, spots)


def _texts(corpus: ParallelCorpus, lines: set[int]) -> dict[int, tuple[str, str]]:
    found: dict[int, tuple[str, str]] = {}
    if not lines:
        return found
    last = max(lines)
    for pair in corpus.pairs():
        if pair.line in lines:
            found[pair.line] = (excerpt(pair.source, _SHOWN), excerpt(pair.target, _SHOWN))
        if pair.line >= last:
            break
    return found

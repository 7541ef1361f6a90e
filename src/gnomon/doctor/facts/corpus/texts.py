"""The parallel text of a patient, whichever way it was handed over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gnomon.doctor.case import Case
from gnomon.doctor.finding import Skip
from gnomon.doctor.remembering import remembered
from gnomon.errors import GnomonError
from gnomon.recipes import TranslationRecipe
from gnomon.text import DataConfig, Pair, ParallelCorpus, open_split
from gnomon.text.sources import Split
from gnomon.text.text_source import TextSource


def data_of(case: Case) -> DataConfig:
    """Which files hold the text, of a corpus that was handed over or a recipe.

    Raises:
        Skip: neither was.
    """
    corpus = case.patient.corpus
    if corpus:
        files: dict[str, Any] = {name: str(path) for name, path in corpus.items()}
        return DataConfig(**files)
    recipe = case.patient.recipe
    if isinstance(recipe, TranslationRecipe) and recipe.data.split("train"):
        return recipe.data
    raise Skip("no parallel text was handed over")


@remembered
def split_of(case: Case, split: Split = "train") -> ParallelCorpus:
    """One split.

    Raises:
        Skip: there is none, or its files cannot be read.
    """
    try:
        corpus = open_split(data_of(case), split)
    except GnomonError as error:
        raise Skip(" ".join(str(error).split())) from None
    if corpus is None:
        raise Skip(f"there is no {split} text")
    return corpus


def first_pairs(case: Case, split: Split = "train") -> Iterator[Pair]:
    """The pairs of a split from its beginning, without reading on to count them.

    Raises:
        Skip: there is none, or its files cannot be read.
    """
    config = data_of(case)
    try:
        for source in config.split(split):
            for line, (text, other) in enumerate(TextSource(source).rows(), start=1):
                yield Pair(line, text, other, source.tags)
    except GnomonError as error:
        raise Skip(" ".join(str(error).split())) from None

"""Which job trains which recipe."""

from __future__ import annotations

from gnomon.api.jobs.classification import ClassificationJob
from gnomon.api.jobs.job import Job, Say
from gnomon.api.jobs.language_model import LanguageModelJob
from gnomon.api.jobs.masked_lm import MaskedLanguageModelJob
from gnomon.api.jobs.replaced_tokens import ReplacedTokenJob
from gnomon.api.jobs.translation import TranslationJob
from gnomon.errors import RecipeError
from gnomon.recipes import (
    ClassificationRecipe,
    LanguageModelRecipe,
    MaskedLanguageModelRecipe,
    Recipe,
    ReplacedTokenRecipe,
    TranslationRecipe,
)


def job_of(recipe: Recipe, say: Say) -> Job:
    """The job that trains a recipe.

    Args:
        say: is told what is being done before the first step.
    """
    if isinstance(recipe, TranslationRecipe):
        return TranslationJob(recipe, say)
    if isinstance(recipe, ClassificationRecipe):
        return ClassificationJob(recipe, say)
    if isinstance(recipe, LanguageModelRecipe):
        return LanguageModelJob(recipe, say)
    if isinstance(recipe, MaskedLanguageModelRecipe):
        return MaskedLanguageModelJob(recipe, say)
    if isinstance(recipe, ReplacedTokenRecipe):
        return ReplacedTokenJob(recipe, say)
    raise RecipeError("a recipe must be of a task that gnomon trains", seen=type(recipe).__name__)

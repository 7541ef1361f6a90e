"""Which recipe belongs to which task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gnomon.errors import RecipeError
from gnomon.recipes.classification import ClassificationRecipe
from gnomon.recipes.language_model import LanguageModelRecipe
from gnomon.recipes.masked_lm import MaskedLanguageModelRecipe
from gnomon.recipes.recipe import Recipe
from gnomon.recipes.replaced_tokens import ReplacedTokenRecipe
from gnomon.recipes.translation import TranslationRecipe

RECIPES: dict[str, type[Recipe]] = {
    "translation": TranslationRecipe,
    "classification": ClassificationRecipe,
    "language_model": LanguageModelRecipe,
    "masked_lm": MaskedLanguageModelRecipe,
    "replaced_tokens": ReplacedTokenRecipe,
}
DEFAULT = "translation"


def recipe_class(tree: Mapping[str, Any]) -> type[Recipe]:
    """The class of the recipe that a tree of plain values describes.

    Raises:
        RecipeError: there is no such task.
    """
    task = tree.get("task", DEFAULT)
    if not isinstance(task, str) or task not in RECIPES:
        raise RecipeError(
            "a recipe's task must be one that gnomon trains",
            seen=repr(task),
            mend=f"task = one of {', '.join(map(repr, RECIPES))}",
        )
    return RECIPES[task]


_PRETRAINED = (
    "what it was measured by while it trained is in `gnomon runs RUN`; `gnomon train finetune "
    "--from RUN` makes a classifier of it"
)
_INSTEAD = {"masked_lm": _PRETRAINED, "replaced_tokens": _PRETRAINED}


def translation(recipe: Recipe) -> TranslationRecipe:
    """The recipe as that of a translator.

    Raises:
        RecipeError: it is of another task.
    """
    if not isinstance(recipe, TranslationRecipe):
        raise RecipeError(
            "this can be done with a translator's recipe",
            seen=f"task = {recipe.task!r}",
            mend=_INSTEAD.get(recipe.task),
        )
    return recipe

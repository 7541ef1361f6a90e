"""What to run: the typed recipe, its TOML form, shipped presets, overrides and JSON schema.

This room only describes runs; it starts none.
"""

from gnomon.recipes.classification import ClassificationRecipe
from gnomon.recipes.curve import (
    CurvePoint,
    ExpectedCurve,
    Verdict,
    binding_keys,
    curve_of_runs,
    hold_against,
    parse_curve,
    read_curve,
    shipped_curve,
)
from gnomon.recipes.documents import DocumentRecipe
from gnomon.recipes.language_model import LanguageModelRecipe
from gnomon.recipes.load import load_recipe, recipe_from_tree, recipe_kind, recipe_text
from gnomon.recipes.masked_lm import MaskedLanguageModelRecipe
from gnomon.recipes.presets import preset_names, preset_text
from gnomon.recipes.recipe import Recipe
from gnomon.recipes.replaced_tokens import ReplacedTokenRecipe
from gnomon.recipes.show import difference, flatten, json_schema, keys_unknown_to, to_toml
from gnomon.recipes.translation import TranslationRecipe

__all__ = [
    "ClassificationRecipe",
    "CurvePoint",
    "DocumentRecipe",
    "ExpectedCurve",
    "LanguageModelRecipe",
    "MaskedLanguageModelRecipe",
    "Recipe",
    "ReplacedTokenRecipe",
    "TranslationRecipe",
    "Verdict",
    "binding_keys",
    "curve_of_runs",
    "difference",
    "flatten",
    "hold_against",
    "json_schema",
    "keys_unknown_to",
    "load_recipe",
    "parse_curve",
    "preset_names",
    "preset_text",
    "read_curve",
    "recipe_from_tree",
    "recipe_kind",
    "recipe_text",
    "shipped_curve",
    "to_toml",
]

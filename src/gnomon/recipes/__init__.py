"""What to run: the typed recipe, its TOML form, shipped presets, overrides and JSON schema.

This room only describes runs; it starts none.
"""

from gnomon.recipes.load import load_recipe, recipe_from_tree
from gnomon.recipes.presets import preset_names, preset_text
from gnomon.recipes.recipe import Recipe
from gnomon.recipes.show import difference, flatten, json_schema, to_toml

__all__ = [
    "Recipe",
    "difference",
    "flatten",
    "json_schema",
    "load_recipe",
    "preset_names",
    "preset_text",
    "recipe_from_tree",
    "to_toml",
]

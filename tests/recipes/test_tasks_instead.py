"""What can be done with a translator alone says what to do with an encoder instead."""

from __future__ import annotations

import pytest

from gnomon.errors import RecipeError
from gnomon.recipes import MaskedLanguageModelRecipe
from gnomon.recipes.tasks import translation


def test_an_encoder_is_told_where_its_measures_are() -> None:
    with pytest.raises(RecipeError, match=r"gnomon runs RUN[\s\S]*finetune"):
        translation(MaskedLanguageModelRecipe())

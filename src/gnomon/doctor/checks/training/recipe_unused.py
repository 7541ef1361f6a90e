"""recipe-unused: every key that was set has an effect."""

from typing import Any

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.training.described import recipe_of
from gnomon.doctor.finding import Outcome, passed, warning
from gnomon.doctor.inputs import config_of
from gnomon.recipes.load import keys_without_effect

_FAULTY = """
    from gnomon.recipes import TranslationRecipe
    from gnomon.training import ScheduleConfig

    def patient():
        return {"recipe": TranslationRecipe(schedule=ScheduleConfig(kind="noam", peak=1e-3))}
"""
_MENDED = _FAULTY.replace('kind="noam"', 'kind="inverse_sqrt"')


@check(
    code="recipe-unused",
    title="Every key that was set has an effect",
    fault="Keys that were set have no effect",
    cost="static",
    cause="A key belongs to another kind of schedule, position or norm than the recipe chooses.",
    mend="Remove the key, or choose the kind that reads it.",
    reference="fairseq #4675: an option that was passed over built another model than asked for",
    symptoms=("stuck",),
    example=_FAULTY,
    mended=_MENDED,
)
def recipe_unused(case: Case) -> Outcome:
    """A key without effect means that something else is trained than its writer thinks."""
    recipe = recipe_of(case)
    found = [each for each in keys_without_effect(recipe) if not _is_so(each, recipe, case)]
    if found:
        return warning("; ".join(found), where=[text.split(" ")[0] for text in found])
    return passed("every key that differs from its default has an effect")


def _is_so(sentence: str, recipe: Any, case: Case) -> bool:
    """Whether it is of a vocabulary's size, and the model has it.

    A run that began with another model notes that model's sizes in its recipe.
    """
    table, _, key = sentence.split(" ")[0].partition(".")
    if table != "model" or key not in ("vocab_size", "target_vocab_size"):
        return False
    return bool(getattr(recipe.model, key) == getattr(config_of(case.patient), key, None))

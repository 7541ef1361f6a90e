"""The recipe that describes a patient."""

from __future__ import annotations

from gnomon.doctor.case import Case
from gnomon.doctor.finding import NotApplicable, Skip
from gnomon.recipes import Recipe


def recipe_of(case: Case) -> Recipe:
    """The gnomon recipe that the patient is trained by.

    Raises:
        Skip: none was handed over; `NotApplicable` where the model is not gnomon's.
    """
    recipe = case.patient.recipe
    if isinstance(recipe, Recipe):
        return recipe
    if case.patient.module is not None and case.kind != "gnomon":
        raise NotApplicable("the model is not gnomon's: no recipe describes its training")
    raise Skip("no gnomon recipe was handed over")

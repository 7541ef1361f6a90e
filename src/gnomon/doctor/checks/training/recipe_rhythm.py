"""recipe-rhythm: a training is validated and saved before it ends."""

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.training.described import recipe_of
from gnomon.doctor.finding import Outcome, passed, warning

_FAULTY = """
    from gnomon.recipes import TranslationRecipe
    from gnomon.training import TrainingConfig

    def patient():
        training = TrainingConfig(max_steps=800)  # validates every 1,000
        return {"recipe": TranslationRecipe(training=training)}
"""
_MENDED = _FAULTY.replace(
    "max_steps=800)  # validates every 1,000",
    "max_steps=800, validate_every=100, checkpoint_every=100)",
)


@check(
    code="recipe-rhythm",
    title="Training is validated and saved on its way",
    fault="Training is not validated or saved on its way",
    cost="static",
    cause="training.validate_every or training.checkpoint_every is longer than the training, or "
    "patience waits for more validations than there are.",
    mend="Set both to a tenth of training.max_steps or less; patience to a few validations.",
    reference="gnomon `[training]` table",
    symptoms=("stuck",),
    example=_FAULTY,
    mended=_MENDED,
)
def recipe_rhythm(case: Case) -> Outcome:
    """Without a validation on the way there is no best checkpoint and no early stop; without a
    checkpoint a crash costs the whole training.
    """
    recipe = recipe_of(case)
    training, found = recipe.training, {}
    for key, what in (
        ("validate_every", "it is validated at its end alone"),
        ("checkpoint_every", "a crash costs all of it"),
    ):
        if (value := getattr(training, key)) >= training.max_steps:
            found[key] = f"{key} {value:,} of {training.max_steps:,} steps: {what}"
    validations = training.max_steps // training.validate_every
    if training.patience is not None and training.patience >= max(1, validations):
        found["patience"] = (
            f"patience {training.patience} of {validations} validations: it cannot stop early"
        )
    if found:
        return warning("; ".join(found.values()), where=[f"training.{key}" for key in found])
    return passed(
        f"{validations} validations and {training.max_steps // training.checkpoint_every} "
        f"checkpoints in {training.max_steps:,} steps"
    )

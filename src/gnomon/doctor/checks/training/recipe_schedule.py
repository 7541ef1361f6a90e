"""recipe-schedule: the learning rate gets to its peak, and leaves it."""

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.described import recipe_of
from gnomon.doctor.finding import Outcome, failure, passed, warning

_FAULTY = """
    from gnomon.recipes import TranslationRecipe
    from gnomon.training import ScheduleConfig, TrainingConfig

    def patient():
        schedule = ScheduleConfig(kind="noam", warmup_steps=4000)
        training = TrainingConfig(max_steps=1000)
        return {"recipe": TranslationRecipe(schedule=schedule, training=training)}
"""
_MENDED = _FAULTY.replace("warmup_steps=4000", "warmup_steps=200")
_LARGEST_SHARE = 0.5


@check(
    code="recipe-schedule",
    title="Warm-up ends well before training does",
    fault="Warm-up takes much of the training",
    cost="static",
    cause="schedule.warmup_steps was left at a value for a much longer training.",
    mend="Set schedule.warmup_steps to some 5 to 20 % of training.max_steps.",
    reference="Vaswani et al. 2017, section 5.3: 4,000 of 100,000 steps",
    symptoms=("stuck",),
    example=_FAULTY,
    mended=_MENDED,
)
def recipe_schedule(case: Case) -> Outcome:
    """A warm-up as long as the training never reaches its learning rate: the loss falls slowly, and
    nothing says why.
    """
    recipe = recipe_of(case)
    warmup, steps = recipe.schedule.warmup_steps, recipe.training.max_steps
    share = warmup / steps
    told = f"warm-up takes {warmup:,} of {steps:,} steps ({share:.0%})"
    if share >= 1:
        return failure(told, where=["schedule.warmup_steps"], share=share)
    if share > _LARGEST_SHARE:
        return warning(told, where=["schedule.warmup_steps"], share=share)
    return passed(told, share=share)

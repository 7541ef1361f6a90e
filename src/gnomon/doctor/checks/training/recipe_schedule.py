"""recipe-schedule: the learning rate gets to its peak, and leaves it."""

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.checks.blocks.post_norm_warmup import FEW, FINE_TUNING
from gnomon.doctor.facts.training.described import recipe_of
from gnomon.doctor.facts.training.schedules import learning_rates
from gnomon.doctor.finding import Outcome, failure, passed, warning
from gnomon.doctor.patient import Patient
from gnomon.recipes import ClassificationRecipe, Recipe

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
    title="Warm-up is long enough for the model and short beside the training",
    fault="Warm-up does not fit the model or the training",
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
    rates = learning_rates(_planned(recipe))
    is_lstm = isinstance(recipe, ClassificationRecipe) and recipe.network == "bilstm"
    post_norm = recipe.model.norm.placement == "post" and not is_lstm
    if post_norm and rates.warmup < FEW and rates.peak > FINE_TUNING:
        return warning(
            f"the norms are post-norm, and the rate is at half of its peak {rates.peak:.2g} after "
            f"{rates.warmup} steps",
            where=["schedule.warmup_steps"],
            cause="Post-norm models have large gradients in their last layers at first (Xiong et "
            "al. 2020), and the schedule starts at its peak.",
            mend="Raise the rate over some thousand steps (schedule.warmup_steps), or set "
            "model.norm.placement = 'pre', which trains without.",
            share=share,
            warmup=rates.warmup,
        )
    return passed(told, share=share)


def _planned(recipe: Recipe) -> Patient:
    """The training that the recipe describes, as far as the rate goes."""
    schedule = recipe.schedule.build(
        d_model=recipe.model.d_model, max_steps=recipe.training.max_steps
    )
    return Patient(
        schedule=lambda past: schedule(past + 1), planned_steps=recipe.training.max_steps
    )

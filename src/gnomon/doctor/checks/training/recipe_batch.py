"""recipe-batch: a batch holds more than one long pair."""

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.training.described import recipe_of
from gnomon.doctor.finding import Outcome, passed, warning

_FAULTY = """
    from gnomon.recipes import TranslationRecipe
    from gnomon.text import DataConfig
    from gnomon.training import TrainingConfig

    def patient():
        data, training = DataConfig(max_length=256), TrainingConfig(tokens_per_batch=400)
        return {"recipe": TranslationRecipe(data=data, training=training)}
"""
_MENDED = _FAULTY.replace("tokens_per_batch=400", "tokens_per_batch=4096")


@check(
    code="recipe-batch",
    title="A batch holds more than one long pair",
    fault="A batch holds no more than one long pair",
    cost="static",
    cause="training.tokens_per_batch is small beside data.max_length.",
    mend="Raise training.tokens_per_batch, or lower data.max_length; where memory is short, "
    "a small batch with training.accumulate above 1 gives the same steps.",
    reference="fairseq #257, #349: sizes that do not fit each other are told after an epoch",
    symptoms=("stuck", "slow"),
    example=_FAULTY,
    mended=_MENDED,
)
def recipe_batch(case: Case) -> Outcome:
    """Where the longest pair alone exceeds the budget, steps over long pairs are made of one
    sentence: noisy gradients, and more memory than was reckoned with.
    """
    recipe = recipe_of(case)
    budget, longest = recipe.training.tokens_per_batch, recipe.longest_example()
    step = budget * recipe.training.accumulate
    told = (
        f"a step takes {step:,} tokens in batches of {budget:,}; the longest example may have "
        f"{longest:,}"
    )
    if step < longest:
        return warning(told, where=["training.tokens_per_batch", "data.max_length"])
    return passed(told)

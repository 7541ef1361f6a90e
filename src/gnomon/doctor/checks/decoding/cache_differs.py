"""cache-differs: step by step with the cache gives what one full pass gives."""

from torch import Tensor

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.checks.decoding.example import CACHED_MODEL
from gnomon.doctor.finding import Outcome, failure, passed
from gnomon.doctor.generation import Generated, continued, ends, first, until_end
from gnomon.doctor.run import difference

_FAULTY = CACHED_MODEL.replace(
    "self.position(torch.arange(past, past + T))", "self.position(torch.arange(T))"
)


@check(
    code="cache-differs",
    title="Generation with the cache equals a full pass",
    cost="probe",
    cause="Positions, mask or contents of the cache are not those of the full text.",
    mend="Compare module(text) with module(text[:, :n]), then token by token with the cache: the "
    "first layer whose keys differ is at fault.",
    reference="executorch #21749; transformers #25104, #37574; vllm #3488",
    symptoms=("gibberish", "deployed"),
    example=_FAULTY,
    mended=CACHED_MODEL,
)
def cache_differs(case: Case) -> Outcome:
    """What is trained is the full pass; what is used is the cache, and nothing compares them.

    A few tokens are generated as in use; then the same text is read at once. The scores of each
    token, or where they are not seen the tokens themselves, must agree.
    """
    made = first(case)
    full = continued(case, made.call, made.tokens)
    over = ends(case)
    worst, at, steps = 0.0, -1, 0
    for row, tokens in enumerate(made.tokens):
        for step in range(until_end(tokens, over)):
            steps += 1
            moved = _apart(case, made, full[row, step], row, step)
            if moved > worst:
                worst, at = moved, step
            if moved > case.tolerance:
                break
    what = "scores" if made.steps else "chosen tokens' scores"
    if worst <= case.tolerance:
        return passed(
            f"over {steps} steps the {what} are within {worst:.1e} of a full pass's spread",
            moved=worst,
        )
    cause = ""
    if at == 0:
        cause = "The prompt itself is read otherwise than in a full pass."
    elif at == 1:
        cause = (
            "The first step that reads from the cache is wrong: its position, its mask, or what "
            "the cache keeps of the prompt."
        )
    elif at > 1:
        cause = f"The cache is right at first and wrong from step {at}: it is cut off, or moves."
    return failure(
        f"at step {at} the {what} differ from a full pass by {worst:.2g} of their spread "
        f"(rounding: {case.tolerance:.0e})",
        cause=cause,
        moved=worst,
        step=at,
    )


def _apart(case: Case, made: Generated, full: Tensor, row: int, step: int) -> float:
    if made.steps:
        return difference(made.logits(step, row)[None], full[None])
    # The token was chosen as the best one: by how much is another better here?
    spread = float(full.double().std()) or 1.0
    return float(full.max() - full[made.tokens[row, step]]) / spread

"""cache-differs: step by step with the cache gives what one full pass gives."""

from gnomon.doctor.call import Call
from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.checks.decoding.example import CACHED_MODEL
from gnomon.doctor.facts.decoding.beside_full import Compared, compared
from gnomon.doctor.facts.decoding.generation import (
    first,
    generate,
    long_request,
    num_new,
    prompts,
    with_tokens,
)
from gnomon.doctor.facts.decoding.step_trace import Broken, broken_at, parted_at
from gnomon.doctor.finding import Outcome, Skip, failure, passed

_FAULTY = CACHED_MODEL.replace(
    "self.position(torch.arange(past, past + T))", "self.position(torch.arange(T))"
)


@check(
    code="cache-differs",
    title="Generation with the cache equals a full pass",
    fault="Generation with the cache differs from a full pass",
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

    A few tokens are generated as in use, of short prompts and then of prompts as long as the batch
    has; then the same text is read at once. The scores of each token, or where they are not seen
    the tokens themselves, must agree.
    """
    short = num_new(case)
    found = _tried(case, prompts(case, short), short, None)
    if isinstance(found, Outcome):
        return found
    told = f"over {found.steps} steps"
    if found.moved <= case.tolerance:
        longer = _longer(case)
        if isinstance(longer, Outcome):
            return longer
        if longer is not None:
            told += f" and {longer.steps} of prompts of {longer.prompt} tokens"
            found = max(found, longer, key=lambda each: each.moved)
    if found.moved > case.tolerance:
        return _differs(case, found)
    return passed(
        f"{told} the {found.what} are within {found.moved:.1e} of a full pass's spread",
        moved=found.moved,
    )


def _longer(case: Case) -> Compared | Outcome | None:
    try:
        of, num_tokens = long_request(case)
        return _tried(case, prompts(case, num_tokens, of), num_tokens, of)
    except Exception:  # a loop need not take other requests than its batch's
        return None


def _tried(case: Case, call: Call, num_tokens: int, of: Call | None) -> Compared | Outcome:
    try:
        made = first(case) if of is None else generate(case, call, num_tokens)
    except Skip:
        raise
    except Exception:  # the model's code may raise anything
        broken = broken_at(case, call, num_tokens)
        if broken is None:
            raise
        return _breaks(broken)
    return compared(case, made, of)


def _breaks(broken: Broken) -> Outcome:
    said = " ".join(str(broken.error).split())[:160]
    return failure(
        f"step {broken.step} of generating raises {type(broken.error).__name__} in "
        f"{broken.module or 'the model'} ({said}); texts of that length are read without error",
        where=broken.module or (),
        cause="The mask, the positions and what the layers keep in the cache do not fit one "
        "another.",
        step=broken.step,
    )


def _differs(case: Case, found: Compared) -> Outcome:
    call, tokens, step = found.made.call, found.made.tokens, found.step
    full = with_tokens(case, call, tokens, found.of)
    where = parted_at(case, found.made, full, step, found.row)
    if step == 0:
        cause = "The prompt itself is read otherwise than in a full pass."
    elif found.of is not None:
        cause = f"Shorter texts are continued right, one of {found.prompt + step} tokens is not: "
        cause += "the cache is cut off."
    elif step == 1:
        cause = (
            "The first step that reads from the cache is wrong: its position, its mask, or what "
            "the cache keeps of the prompt."
        )
    else:
        cause = f"The cache is right at first and wrong from step {step}: it is cut off, or moves."
    return failure(
        f"at step {step} after a prompt of {found.prompt} tokens the {found.what} differ from a "
        f"full pass by {found.moved:.2g} of their spread (rounding: {case.tolerance:.0e})"
        f"{f'; first in {where}' if where else ''}",
        where=where or (),
        cause=cause,
        moved=found.moved,
        step=step,
        prompt=found.prompt,
    )

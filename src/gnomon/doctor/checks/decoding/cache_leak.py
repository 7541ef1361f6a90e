"""cache-leak: a request leaves nothing behind for the next one."""

import torch

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.checks.decoding.example import CACHED_MODEL
from gnomon.doctor.facts.decoding.beside_full import compared
from gnomon.doctor.facts.decoding.generation import Generated, first, generate
from gnomon.doctor.finding import Outcome, Skip, failure, passed
from gnomon.doctor.run import difference

_FAULTY = CACHED_MODEL.replace(
    "def generate(module", "KEPT = {}\n\n    def generate(module"
).replace("cache, ids, made = {}, batch", "cache, ids, made = KEPT, batch")


@check(
    code="cache-leak",
    title="A request leaves nothing behind",
    fault="A request leaves something behind for the next",
    cost="probe",
    cause="The cache of one request is still there in the next.",
    mend="Make the cache anew with each request; keep it out of the module.",
    reference="transformers #25104: state that a long prompt leaves behind; CTranslate2 #426",
    symptoms=("gibberish", "deployed"),
    example=_FAULTY,
    mended=CACHED_MODEL,
)
def cache_leak(case: Case) -> Outcome:
    """The answer to a request must not depend on the request before it.

    The same request is made twice, with other texts in between, which must be answered as a full
    pass over them says; and a plain forward pass is made before and after generating.
    """
    made = first(case)
    num_tokens = made.tokens.size(1)
    other = made.call
    for name in other.streams:
        where = other.keep(name).cpu().clone()
        if other.read == "target" and name == "target":
            continue
        other = other.perturbed(name, where)
    try:
        second = generate(case, other, num_tokens)
        again = generate(case, made.call, num_tokens)
    except (RuntimeError, IndexError, ValueError) as error:
        return failure(
            f"a second request raises {type(error).__name__}: {str(error)[:200]}",
            cause="What the first request left behind does not fit the second.",
        )
    after = case.run(case.small)
    plain = difference(after.main, case.base.main)
    if plain > case.tolerance:
        return failure(
            f"a forward pass after generating differs from one before by {plain:.2g} of its spread",
            cause="Generating leaves a state in the module that a plain forward pass reads.",
            moved=plain,
        )
    apart = _apart(made, again)
    if apart > case.tolerance:
        return failure(
            f"the same request, with another in between, differs by {apart:.2g} of its spread "
            f"(rounding: {case.tolerance:.0e})",
            moved=apart,
        )
    beside = _beside_full(case, made, second)
    if beside > case.tolerance:
        return failure(
            f"a second request of the same shape is answered otherwise than by a full pass, "
            f"by {beside:.2g} of its spread (rounding: {case.tolerance:.0e}); the first is not",
            cause="What was computed for one request is used again for another: kept in the module "
            "or under its shape, a row's number or an object's id.",
            mend="Compute it anew with each request, or keep it under all that it depends on.",
            moved=beside,
        )
    return passed(
        f"the same request after another one differs by {apart:.1e} of its spread", moved=apart
    )


def _beside_full(case: Case, made: Generated, second: Generated) -> float:
    """How much farther the second request's answer is from a full pass than the first's.

    Without scores a loop may have its reasons to take other tokens than the best. The first
    request's answer again, row by row, is none.
    """
    if not second.steps and not torch.equal(second.tokens, made.tokens):
        return 0.0
    try:
        if compared(case, made, None).moved > case.tolerance:
            return 0.0  # cache-differs tells
        return compared(case, second, None).moved
    except Skip:
        return 0.0


def _apart(one: Generated, two: Generated) -> float:
    if not one.steps or len(one.steps) != len(two.steps):  # what is kept need not be read again
        return 0.0 if torch.equal(one.tokens, two.tokens) else float("inf")
    return max(difference(a[:, -1:], b[:, -1:]) for a, b in zip(one.steps, two.steps, strict=True))

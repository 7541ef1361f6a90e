"""cached-mask-alignment: with a cache, new queries see all earlier keys and themselves."""

import torch
from torch import Tensor

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.checks.decoding.example import CACHED_MODEL
from gnomon.doctor.facts.attention.sights import SEEN
from gnomon.doctor.facts.decoding.generation import first
from gnomon.doctor.finding import NotApplicable, Outcome, failure, passed
from gnomon.probe import Record

_FAULTY = CACHED_MODEL.replace(".tril(past)", ".tril()  # aligned at the first key")


@check(
    code="cached-mask-alignment",
    title="With a cache the look-ahead mask ends at the last key",
    fault="With a cache the look-ahead mask ends at the wrong key",
    cost="probe",
    cause="The mask of few queries against many keys is aligned at the top left: the new query "
    "sees the first key alone.",
    mend="torch.ones(T, S, dtype=torch.bool).tril(S - T), or causal_lower_right; is_causal=True "
    "of PyTorch's kernel is aligned at the top left.",
    reference="executorch #21749, onnx #8068, mlx #2967, #2836, pytorch #103082",
    symptoms=("gibberish", "deployed"),
    example=_FAULTY,
    mended=CACHED_MODEL,
)
def cached_mask_alignment(case: Case) -> Outcome:
    """A query that is generated with a cache stands at the end of the keys, not at their beginning.

    Training never shows it, because there as many queries as keys are given. Seen in the weights
    of the steps after the first.
    """
    later = _later_steps(first(case).record)
    if not later:
        raise NotApplicable(
            "generation was seen to attend to no cache: each step reads the whole text anew"
        )
    wrong = [(name, weights) for name, weights in later if _top_left(weights)]
    if not wrong:
        return passed(f"in {len(later)} attention calls on a cache, new queries see earlier keys")
    keys = max(weights.size(-1) for _, weights in wrong)
    return failure(
        f"in {len(wrong)} of {len(later)} attention calls on a cache of up to {keys} keys, query i "
        "sees only keys up to i, counted from the first",
        where=list(dict.fromkeys(name for name, _ in wrong)),
        calls=len(wrong),
    )


def _later_steps(record: Record) -> list[tuple[str, Tensor]]:
    """Module and weights of calls on more keys than queries, whose keys grow from step to step."""
    steps: dict[tuple[str, int], list[tuple[str, Tensor]]] = {}
    for each in record.attention:
        weights = each.weights if each.applied_weights is None else each.applied_weights
        if weights is not None and weights.size(-1) > weights.size(-2):
            steps.setdefault((each.module, weights.size(0)), []).append((each.module, weights))
    # Keys of a source stay as they are: their number tells nothing.
    grown = [calls for calls in steps.values() if len({w.size(-1) for _, w in calls}) > 1]
    return [each for calls in grown for each in calls]


def _top_left(weights: Tensor) -> bool:
    weights = weights.nan_to_num(0.0)
    corner = torch.ones(weights.shape[-2:], dtype=torch.bool, device=weights.device).tril()
    return bool((weights[..., ~corner] <= SEEN).all()) and bool((weights > SEEN).any())

"""Why a step gave NaN or infinity: where it began, the scores before softmax, cause and mend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gnomon.doctor.finding import Finding, Outcome, failure
from gnomon.doctor.monitors.causes import cause_of
from gnomon.doctor.monitors.score_size import ScoreSize, guilty_scores, measure, name_of
from gnomon.probe import observe
from gnomon.training.guard import NonFinite, find_non_finite

TITLE = "Loss, outputs and gradients are finite"
FAULT = "Loss, outputs or gradients are not finite"
REFERENCE = "Micikevicius et al. 2018, Mixed Precision Training; pytorch #103749"


@dataclass(frozen=True)
class Autopsy:
    """What two more runs of the failed pass showed.

    Attributes:
        first: where the first NaN or infinity arose; None: this time everything was finite.
        scores: of every attention call up to it, in order.
    """

    first: NonFinite | None
    scores: tuple[ScoreSize, ...]


def look_into(
    model: nn.Module,
    run: Callable[[], Tensor | None],
    *,
    before_each: Callable[[], object] = lambda: None,
) -> Autopsy:
    """Run the pass again, once under watch and once under the probe.

    Args:
        run: forward, and where a loss is to be had backward; returns the loss.
        before_each: puts generators (and whatever else) back to where they were.

    The gradients are overwritten: keep them with `gnomon.doctor.restore.untouched` where they
    matter.
    """
    before_each()
    first = find_non_finite(model, lambda: _loss(run()))
    before_each()
    with observe(model) as record:
        run()
    sizes = []
    for call in record.attention:
        size = measure(call)
        if size is not None:
            sizes.append(size)
            if not size.finite_weights and not size.empty_rows:
                break  # what comes after it has only inherited
    model.zero_grad(set_to_none=True)
    return Autopsy(first, tuple(sizes))


def _loss(loss: Tensor | None) -> Tensor:
    return torch.zeros(()) if loss is None else loss


def finding_of(outcome: Outcome) -> Finding:
    """An outcome as the finding of a monitor."""
    return Finding(
        code="non-finite",
        group="training",
        title=FAULT,
        verdict=outcome.verdict,
        evidence=outcome.evidence,
        numbers=outcome.numbers,
        where=outcome.where,
        cause=outcome.cause,
        mend=outcome.mend,
        reference=REFERENCE,
    )


def explain(autopsy: Autopsy, evidence: str = "", where: Sequence[str] = ()) -> Outcome:
    """What to say of it: where it arose first, how large the scores were, why, and the mend.

    Args:
        evidence: what was seen from outside ("step 812: loss nan"), for the sentence's beginning.
        where: more places (lines of text).
    """
    first, scores = autopsy.first, autopsy.scores
    numbers: dict[str, Any] = {
        "scores": {f"{n} {each.module}": each.largest for n, each in enumerate(scores)}
    }
    parts = [evidence] if evidence else []
    if first is None:
        parts.append("run again, everything is finite")
        cause = "It does not come back: a fault of the machine, or numbers that depend on order."
        mend = "Run the memory test of the machine; train with deterministic algorithms."
        return failure("; ".join(parts), where=where, cause=cause, mend=mend, **numbers)
    parts.append(f"first: {first}")
    made = first.origin
    largest = first.largest_input if made is None else made.largest_input
    if largest is not None:
        parts.append(f"that operation read finite values of up to {largest:,.5g}")
    guilty = guilty_scores(first, scores)
    places = [first.place] if first.place else []
    if guilty is not None:
        head = f"head {guilty.head} of {guilty.module or 'the model'}"
        scale = "unknown" if guilty.scale is None else format(guilty.scale, ".4g")
        parts.append(
            f"the scores q·k before its softmax reach {guilty.formed or guilty.largest:,.4g} "
            f"({head}; {name_of(guilty.dtype)} ends at {guilty.limit:,.5g}), scale {scale} for "
            f"d_k = {guilty.width}"
        )
        places += [head] if guilty.overflows else []
    cause, mend = cause_of(first, guilty)
    numbers |= {"largest_input": largest, "dtype": first.dtype}
    if made is not None:
        numbers |= {"operator": made.operator, "line": made.line}
    return failure("; ".join(parts), where=[*places, *where], cause=cause, mend=mend, **numbers)

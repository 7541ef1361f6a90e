"""accumulation: k micro-batches give the gradient of one big batch."""

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.finding import Outcome, Skip, failure, passed

_FAULTY = """
    import torch
    from torch import nn

    def patient():
        torch.manual_seed(0)
        module = nn.Sequential(
            nn.Embedding(50, 16, padding_idx=0),
            nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True),
            nn.Linear(16, 50),
        )
        optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)
        ids = torch.randint(1, 50, (4, 12))
        ids[2:, 3:] = 0

        def step(batches):
            optimizer.zero_grad()
            for (ids,) in batches:  # each mean weighs the same, however many tokens it is of
                loss = nn.functional.cross_entropy(
                    module(ids).flatten(0, 1), ids.flatten(), ignore_index=0
                )
                (loss / len(batches)).backward()
            optimizer.step()

        return {
            "module": module, "optimizer": optimizer, "step": step, "batch": (ids,), "pad_id": 0,
        }
"""
_MENDED = _FAULTY.replace(
    "for (ids,) in batches:  # each mean weighs the same, however many tokens it is of",
    "count = sum(int((ids != 0).sum()) for (ids,) in batches)\n            for (ids,) in batches:",
).replace(
    "ignore_index=0\n                )\n                (loss / len(batches))",
    'ignore_index=0, reduction="sum"\n                )\n                (loss / count)',
)
_EQUAL = 1e-3


@check(
    code="accumulation",
    title="Micro-batches add up to the big batch",
    fault="Micro-batches do not add up to the big batch",
    cost="step",
    cause="Each micro-batch's loss is averaged by itself and the means are averaged.",
    mend="Sum the loss over tokens and divide by the number of target tokens of all micro-batches "
    "(and processes).",
    reference="transformers #34191, OpenNMT-py #2209",
    symptoms=("stuck", "padding"),
    example=_FAULTY,
    mended=_MENDED,
)
def accumulation(case: Case) -> Outcome:
    """A step over k micro-batches must be the step over one batch k times as large.

    A mean of means gives short texts more weight than long ones, and makes the result depend on
    how a batch was cut. The user's own step is run on two micro-batches of different size, on both
    as one batch, and twice on the same; weights do not move meanwhile.
    """
    seen = {name: each.gradients for name, each in case.stepped.items()}
    one, two, first, second = (seen[each] for each in ("one", "two", "first", "second"))
    if not one or _size(one) == 0:
        raise Skip("the step gives no gradient")
    clip = case.patient.clip_norm
    clipped = clip is not None and any(each.norm > 0.98 * clip for each in case.stepped.values())
    kept = _distance(seen["again"], first, clipped)
    if kept > 0.01:
        return failure(
            "what was left in the gradients before a step is in them at its end: they differ by "
            f"{kept:.2g} of their size from those of a step that began without",
            cause="The gradients of the last step are still there: they are not set to zero.",
            mend="optimizer.zero_grad() before the first backward pass of a step.",
            off=kept,
        )
    if case.stepped["two"].updates > 1:
        return failure(
            f"one step over 2 micro-batches made {case.stepped['two'].updates} optimizer steps",
            cause="The optimizer steps after every micro-batch: nothing is accumulated.",
            mend="Step once after the last micro-batch.",
            updates=case.stepped["two"].updates,
        )
    off = _distance(two, one, clipped)
    direction = " (direction alone: both are clipped)" if clipped else ""
    evidence = (
        f"the gradient of two micro-batches differs from that of one batch by {off:.2g} of its "
        f"size{direction}"
    )
    if off <= _EQUAL:
        return passed(evidence, off=off)
    return failure(evidence, cause=_cause(two, first, second, clipped), off=off)


def _cause(
    two: Mapping[str, Tensor], first: Mapping[str, Tensor], second: Mapping[str, Tensor],
    clipped: bool,
) -> str:  # fmt: skip
    """The mistake whose gradient the step's comes nearest; "" for a mean of means."""
    guesses = {
        "": _distance(two, _mix(first, second, 0.5, 0.5), clipped),
        "The micro-batches' mean losses are summed, not averaged: the gradient grows with their "
        "number.": _distance(two, _mix(first, second, 1.0, 1.0), clipped),
        "Only the last micro-batch's gradient is used: the gradients are set to zero in between.":
            _distance(two, second, direction_alone=True),
        "Only the first micro-batch's gradient is used.":
            _distance(two, first, direction_alone=True),
    }  # fmt: skip
    cause = min(guesses, key=guesses.__getitem__)
    if guesses[cause] <= 0.02:
        return cause
    return (
        "The two do not add up, nor are they a mean of means: something else in the step depends "
        "on how the batch is cut."
    )


def _mix(a: Mapping[str, Tensor], b: Mapping[str, Tensor], x: float, y: float) -> dict[str, Tensor]:
    zero = torch.zeros(())
    return {n: x * a.get(n, zero) + y * b.get(n, zero) for n in {*a, *b}}


def _size(gradients: Mapping[str, Tensor]) -> float:
    return math.sqrt(sum(float(each.square().sum()) for each in gradients.values()))


def _distance(a: Mapping[str, Tensor], b: Mapping[str, Tensor], direction_alone: bool) -> float:
    """‖a - b‖ as a share of ‖b‖."""
    share = _size(b) / max(_size(a), 1e-30) if direction_alone else 1.0
    return _size(_mix(a, b, share, -1.0)) / max(_size(b), 1e-30)

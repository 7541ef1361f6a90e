"""Why a step gave NaN or infinity: the first module, the scores before softmax, cause and mend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gnomon.doctor.finding import Finding, Outcome, failure
from gnomon.probe import AttentionCall, observe
from gnomon.training.guard import NonFinite, find_non_finite

TITLE = "Loss, outputs and gradients are finite"
REFERENCE = "Micikevicius et al. 2018, Mixed Precision Training; pytorch #103749"


@dataclass(frozen=True)
class ScoreSize:
    """The scores of one attention call, as they stand before softmax.

    Attributes:
        largest: largest magnitude of q·k times its scale (mask left out); infinite where it passed
            the range of `dtype`.
        head: the head where it is.
        scale: the factor applied; None where it is not one number.
        width: d_k.
        empty_rows: queries that may attend to no key.
        constants: values that hide keys.
    """

    module: str
    dtype: torch.dtype
    largest: float
    head: int
    scale: float | None
    width: int
    empty_rows: int
    constants: tuple[float, ...]
    finite_weights: bool

    @property
    def limit(self) -> float:
        """Where the number format of the scores ends."""
        return torch.finfo(self.dtype).max

    @property
    def unscaled(self) -> bool:
        """Whether q·k is left as large as √d_k (and more) makes it."""
        return self.scale is not None and self.width >= 4 and self.scale > 2 * self.width**-0.5


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


def measure(call: AttentionCall) -> ScoreSize | None:
    """Sizes of one call's scores; None where they do not show."""
    query, keep, weights = call.query, call.keep, call.weights
    raw = call.raw_scores
    if raw is None or query is None:
        return None
    scores = raw * (call.scale if call.scale is not None else 1.0)
    finite = scores.nan_to_num(nan=0.0, posinf=torch.inf, neginf=torch.inf).abs()
    if keep is not None:
        finite = finite.masked_fill(~keep, 0.0)
    by_head = finite.amax((0, 2, 3))
    # q·k is formed before it is scaled where the code says so; then that is what must fit.
    empty = 0 if keep is None else int((~keep.any(-1)).sum())
    return ScoreSize(
        module=call.module,
        dtype=call.dtype,
        largest=float(by_head.max()),
        head=int(by_head.argmax()),
        scale=call.scale,
        width=query.size(-1),
        empty_rows=empty,
        constants=call.mask_constants,
        finite_weights=bool(weights is not None and weights.isfinite().all()),
    )


def finding_of(outcome: Outcome) -> Finding:
    """An outcome as the finding of a monitor."""
    return Finding(
        code="non-finite",
        group="training",
        title=TITLE,
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
    if first.largest_input is not None:
        parts.append(f"it read values up to {first.largest_input:,.4g}")
    guilty = _guilty_scores(first, scores)
    if guilty is not None:
        parts.append(
            f"the scores before its softmax reach {guilty.largest:,.4g} (head {guilty.head}; "
            f"{_name(guilty.dtype)} ends at {guilty.limit:,.5g}), scale "
            f"{'unknown' if guilty.scale is None else format(guilty.scale, '.4g')} for d_k = "
            f"{guilty.width}"
        )
    cause, mend = _cause(first, guilty)
    places = [first.name] if first.name else []
    if guilty is not None:
        places.append(f"head {guilty.head} of {guilty.module or 'the model'}")
    numbers |= {"largest_input": first.largest_input, "dtype": first.dtype}
    where = [*places, *where]
    return failure("; ".join(parts), where=where, cause=cause, mend=mend, **numbers)


def _guilty_scores(first: NonFinite, scores: Sequence[ScoreSize]) -> ScoreSize | None:
    """The attention call in which it arose: its weights are the first not to be finite, or its
    module is the first to give a value that is not."""
    if first.what not in ("output", "gradient"):
        return None
    for each in scores:
        inside = bool(first.name) and (each.module + ".").startswith(first.name + ".")
        if (each.module == first.name or inside) and (
            not each.finite_weights or each.empty_rows or each.largest > each.limit
        ):
            return each
    return None


def _cause(first: NonFinite, scores: ScoreSize | None) -> tuple[str, str]:
    if first.what == "weights":
        return (
            f"An earlier update wrote it into {first.name}: that step's gradient or learning rate "
            "was out of bounds.",
            "Go back to the last checkpoint with finite weights; clip gradients at norm 1 and "
            "lower the peak learning rate, or skip steps whose gradient is not finite.",
        )
    if scores is not None:
        found = _cause_in_scores(scores)
        if found is not None:
            return found
    if first.what == "loss":
        return (
            "Every output is finite and the loss is not: a logarithm of 0, a division by a count "
            "of 0 (a batch without labels), or a sum in too small a format.",
            "Compute the loss in fp32 from logits (cross_entropy, not log of softmax); divide by "
            "max(1, tokens); leave out batches without labels.",
        )
    limit, small = _limit(first.dtype), first.dtype in ("float16", "bfloat16")
    if first.what in ("gradient", "weight gradient"):
        if first.dtype == "float16":
            return (
                "The gradient passed fp16's range (65,504) on its way back, or the loss scale is "
                "too high.",
                "Use bf16, or a gradient scaler that skips such steps and lowers its scale; clip.",
            )
        return (
            "The forward pass is finite, its gradient is not: a division by or a root of 0, or "
            "softmax over a row with nothing but −inf.",
            "Look at the operation behind this output: add an eps under roots and divisions, give "
            "every query at least one key, use masks with where on both sides.",
        )
    if first.largest_input is not None and first.largest_input > limit / 1000:
        return (
            f"What it read had grown to {first.largest_input:,.4g}, near where {first.dtype} ends "
            f"({limit:,.5g}): its own sum passed it.",
            "Use bf16, which has fp32's range, or keep the residual stream and this layer in fp32; "
            "a norm before it, and a lower learning rate, keep the stream small.",
        )
    if first.largest_weight is not None and first.largest_weight > limit / 1000:
        return (
            f"Its weights have grown to {first.largest_weight:,.4g}: an update went too far.",
            "Go back to an earlier checkpoint; lower the peak learning rate and clip gradients.",
        )
    if small:
        return (
            f"An intermediate value passed the range of {first.dtype} (ends at {limit:,.5g}) in "
            f"{first.module_kind or 'this module'}: a square or a sum inside a norm, an "
            "exponential, or a constant that the format does not hold.",
            "Compute this module in fp32 (norms and softmax always), or use bf16; constants such "
            "as −1e9 must be torch.finfo(dtype).min or a boolean mask.",
        )
    return (
        f"{first.module_kind or 'This module'} made it of finite inputs: a division by 0, a root "
        "or logarithm of a negative number, or 0 · infinity.",
        "Look at its forward for divisions, roots and logarithms, and add an eps.",
    )


def _cause_in_scores(scores: ScoreSize) -> tuple[str, str] | None:
    name = _name(scores.dtype)
    if scores.largest > scores.limit:
        if scores.unscaled:
            return (
                f"The scores pass {name}'s range: the scale 1/√d_k = {scores.width**-0.5:.4g} is "
                "missing.",
                "Divide q by √d_k before the product; measure the scores again.",
            )
        return (
            f"The scores pass {name}'s range though they are scaled: queries and keys have grown.",
            "Scale q before the product and compute scores in fp32 or bf16; norm queries and keys "
            "(QK-norm), or lower the learning rate.",
        )
    overflowing = [each for each in scores.constants if abs(each) > scores.limit]
    if scores.empty_rows:
        constant = ", ".join(f"{each:g}" for each in scores.constants[:3]) or "−inf"
        return (
            f"{scores.empty_rows} queries may attend to no key at all: softmax over nothing but "
            f"{constant} is 0/0.",
            "Use torch.finfo(scores.dtype).min in place of −inf and zero the rows afterwards, or "
            "let every query see at least one key (scaled_dot_product_attention gives 0 there).",
        )
    if overflowing:
        return (
            f"The mask constant {overflowing[0]:g} does not exist in {name}.",
            "Use torch.finfo(scores.dtype).min, or a boolean mask.",
        )
    if scores.unscaled and not scores.finite_weights:
        return (
            f"q·k passed {name}'s range before softmax; the scale 1/√d_k is not applied to q or k.",
            "Divide q by √d_k before the product.",
        )
    return None


def _limit(dtype: str) -> float:
    found = getattr(torch, dtype, torch.float32)
    return torch.finfo(found).max if isinstance(found, torch.dtype) else 3.4e38


def _name(dtype: torch.dtype) -> str:
    names = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32"}
    plain = str(dtype).removeprefix("torch.")
    return names.get(plain, plain)

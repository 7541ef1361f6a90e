"""Cause and mend of a NaN or infinity, by what was seen of where it began."""

from __future__ import annotations

import torch

from gnomon.doctor.monitors.score_size import ScoreSize, name_of
from gnomon.probe import Origin
from gnomon.training.guard import NonFinite

_BF16 = "bf16, which has fp32's range (up to 3.4e38)"


def cause_of(first: NonFinite, scores: ScoreSize | None) -> tuple[str, str]:
    """Cause and mend.

    Args:
        scores: of the attention call in which it began, if it began in one.
    """
    if first.what == "weights":
        return (
            f"An earlier update wrote it into {first.name}: that step's gradient or learning rate "
            "was out of bounds.",
            "Go back to the last checkpoint with finite weights; clip gradients at norm 1 and "
            "lower the peak learning rate, or skip steps whose gradient is not finite.",
        )
    if scores is not None and scores.overflows:
        return _scores_overflow(scores)
    if scores is not None:
        return _empty_rows(scores)
    if first.origin is None:
        return (
            f"{first.module_kind or 'What computes it'} made it of finite inputs; the operation "
            "could not be followed.",
            "Look at its forward for divisions, roots and logarithms, and for values beyond the "
            f"{first.dtype or 'number'} format's range.",
        )
    return _by_operation(first, first.origin)


def _scores_overflow(scores: ScoreSize) -> tuple[str, str]:
    name, root = name_of(scores.dtype), scores.width**-0.5
    ends = f"{name}, which ends at {scores.limit:,.5g}"
    half = scores.dtype == torch.float16
    wide = f"compute in {_BF16}" if half else "lower the learning rate"
    norm = f"norm queries and keys (QK-norm), or {wide}"
    if scores.unscaled and scores.scale is not None:
        scaled = scores.formed / scores.scale * root
        if scaled <= scores.limit:
            return (
                f"The scores q·k, up to {scores.formed:,.4g}, do not fit {ends}: the scale "
                f"1/√d_k = {root:.4g} is missing.",
                "Divide q by √d_k before the product; measure the scores again.",
            )
        return (
            f"The scores q·k, up to {scores.formed:,.4g}, do not fit {ends}. The scale 1/√d_k = "
            f"{root:.4g} is missing, and with it they would still be {scaled:,.4g}: queries and "
            "keys have grown.",
            f"Divide q by √d_k before the product; {norm}.",
        )
    if scores.largest <= scores.limit:
        return (
            f"The product q·k, up to {scores.formed:,.4g}, does not fit {ends}: it is scaled only "
            f"behind the product, to {scores.largest:,.4g}, which comes too late.",
            f"Divide q by √d_k before the product, or {wide}.",
        )
    return (
        f"The scores q·k, up to {scores.formed:,.4g}, do not fit {ends}, though they are scaled: "
        "queries and keys have grown.",
        f"Scale q before the product, not behind it; {norm}.",
    )


def _empty_rows(scores: ScoreSize) -> tuple[str, str]:
    beyond = [each for each in scores.constants if abs(each) > scores.limit]
    if beyond and torch.isfinite(torch.tensor(beyond[0])):
        return (
            f"The mask constant {beyond[0]:g} does not exist in {name_of(scores.dtype)}.",
            "Use torch.finfo(scores.dtype).min, or a boolean mask.",
        )
    constant = ", ".join(f"{each:g}" for each in scores.constants[:3]) or "−inf"
    return (
        f"{scores.empty_rows} queries may attend to no key at all: softmax over nothing but "
        f"{constant} is 0/0.",
        "Use torch.finfo(scores.dtype).min in place of −inf and zero the rows afterwards, or "
        "let every query see at least one key (scaled_dot_product_attention gives 0 there).",
    )


def _by_operation(first: NonFinite, made: Origin) -> tuple[str, str]:
    plain, inside = made.operator.rstrip("_"), made.module is not None
    if not plain:
        return _handed_in(made)
    if made.detail:
        return _outside_its_domain(made, plain, inside)
    size = made.largest_input
    if _passes_the_range(made, plain):
        return _overflow(first, made, plain)
    if "softmax" in plain:
        return (
            "Softmax over a row that holds nothing but −inf is 0/0.",
            "Leave at least one value of each row, or use torch.finfo(dtype).min in place of −inf "
            "and set such rows to 0 afterwards.",
        )
    if plain.startswith("nll_loss") and not made.backward:
        return (
            "No label counts: the loss is a sum over nothing, divided by a count of 0."
            if made.num_nan
            else "A label's own log-probability is −inf: its logit is hidden, or its softmax "
            "underflows before the logarithm.",
            "Leave out batches without labels, or divide by max(1, tokens); compute the loss "
            "from logits in fp32.",
        )
    if "norm" in plain:
        return (
            "A norm divides by a spread of 0: its input is the same in all features, and its eps "
            "is 0 or vanishes in this format.",
            "Give the norm an eps (1e-5; not below 1e-6 in fp16), and compute it in fp32.",
        )
    if plain in ("div", "pow", "exp", "mul", "add", "sub", "rsub", "sum", "mean"):
        cause = f"Finite numbers{_up_to(size)} give {_what(made)}"
        return (
            f"{cause}: infinity less infinity, 0 times infinity, 0/0, or a power outside of its "
            "domain.",
            "Look at this operation's operands; add an eps, or leave out what is not to count.",
        )
    return (
        f"The operation {made.operator} gives {_what(made)} of finite numbers{_up_to(size)}.",
        "Look at what it is given there.",
    )


def _handed_in(made: Origin) -> tuple[str, str]:
    if made.name:
        return (
            f"The buffer {made.name} holds it: it was made or loaded so.",
            "Look at where it is filled; torch.empty leaves whatever was in memory.",
        )
    return (
        "It comes in from outside: an input of the model or of the loss holds it.",
        "Check the batch before the step, and skip what is not finite.",
    )


def _outside_its_domain(made: Origin, plain: str, inside: bool) -> tuple[str, str]:
    place = "" if inside else " It is in the loss function, behind the model."
    if made.backward:
        return (
            f"The forward pass is finite, its gradient is not: {made.detail} on the way back, as "
            f"at a root of 0, a norm of 0 or a division by 0.{place}",
            "Add an eps under the root or the divisor, in the forward; where it is hidden by "
            "`where`, put a harmless operand in before the operation, not after it.",
        )
    if plain == "div" and not inside:
        return (
            f"A division by a count of 0: {made.detail}.{place}",
            "Divide by max(1, tokens); leave out batches without labels.",
        )
    if plain in ("div", "reciprocal"):
        return (
            f"A division by 0: {made.detail}, as where a vector of zeros is normalised by its own "
            f"length or spread.{place}",
            "Add an eps to the divisor (or clamp it from below).",
        )
    if plain.startswith("log"):
        return (
            f"A logarithm outside of its domain: {made.detail}.{place}",
            "Compute it from logits (log_softmax, cross_entropy, logsumexp) in fp32, or clamp its "
            "operand from below.",
        )
    return (
        f"A root outside of its domain: {made.detail}.{place}",
        "Add an eps under the root, and clamp its operand at 0.",
    )


def _passes_the_range(made: Origin, plain: str) -> bool:
    """Whether finite operands gave an infinity (or then a NaN) because the format ends."""
    if "softmax" in plain or plain.startswith("nll_loss"):
        return False
    small = made.dtype in (torch.float16, torch.bfloat16)
    large = made.largest_input is not None and made.largest_input**2 > made.limit / 1e4
    return made.num_inf > 0 or (large and (small or made.num_nan > 0))


def _overflow(first: NonFinite, made: Origin, plain: str) -> tuple[str, str]:
    name, size = name_of(made.dtype), made.largest_input
    ends = f"{name}, which ends at {made.limit:,.5g}"
    half = made.dtype == torch.float16
    if made.backward:
        return (
            f"The gradient does not fit {ends}, on its way back: the loss, or the loss scale, is "
            "too large for it.",
            f"Use {_BF16}, or a gradient scaler that skips such steps and lowers its scale; clip."
            if half
            else "Lower the learning rate and clip gradients; look for a division by a small "
            "number there.",
        )
    if plain == "_to_copy":
        grown = first.largest_weight is not None and size is not None
        grown = grown and first.largest_weight >= size  # type: ignore[operator]
        whose = "Its weights have grown: values" if grown else "Values"
        return (
            f"{whose}{_up_to(size)} do not fit {ends}.",
            f"Use {_BF16}; or bring them down: go back to an earlier checkpoint, lower the peak "
            "learning rate and clip gradients, and keep this part in fp32."
            if half
            else "Use a format with a larger range.",
        )
    return (
        f"Its result does not fit {ends}: finite numbers{_up_to(size)} give infinity.",
        (
            f"Use {_BF16}, or keep this part and the residual stream in fp32; "
            if half
            else "Look at what has grown so far: "
        )
        + "a norm before it, a lower learning rate and clipped gradients keep numbers small.",
    )


def _up_to(size: float | None) -> str:
    return "" if size is None else f" of up to {size:,.5g}"


def _what(made: Origin) -> str:
    return "NaN" if made.num_nan else "infinity"

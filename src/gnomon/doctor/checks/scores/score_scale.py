"""score-scale: scores are scaled by 1/√d_k, or by what the model's design has in its place."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.beside.stock import stock_run
from gnomon.doctor.finding import Outcome, Skip, failure, passed, warning
from gnomon.probe import AttentionCall

_FAULTY = """
    import torch
    from torch import nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(50, 32)
            self.query, self.key, self.value = (nn.Linear(32, 32) for _ in range(3))

        def forward(self, ids):
            x = self.embed(ids)
            q, k, v = (
                f(x).view(*ids.shape, 4, 8).transpose(1, 2)
                for f in (self.query, self.key, self.value)
            )
            scores = q @ k.transpose(-1, -2)  # as long as the heads are wide
            return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)

    def patient():
        torch.manual_seed(0)
        return {"module": Model(), "batch": {"ids": torch.randint(1, 50, (2, 8))}}
"""
_MENDED = _FAULTY.replace(
    "q @ k.transpose(-1, -2)  # as long as the heads are wide", "q @ k.transpose(-1, -2) * 8**-0.5"
)
_NEAR = 0.02  # relative
_FLAT, _LARGE = 1.5, 2.0  # spreads of scores: about 1 at the start of a sound training
_SATURATED = 8.0  # of trained ones, which are several times as large in sound models


@dataclass(frozen=True)
class Scale:
    """One call's factor on q · k.

    Attributes:
        ratio: of the factor to 1/√d_k.
        spread: standard deviation of the scaled scores q · k.
        absorbed: the queries are about as much smaller than the keys as the factor is larger.
    """

    call: AttentionCall
    ratio: float
    spread: float
    absorbed: bool


@check(
    code="score-scale",
    title="Scores are scaled by 1/√d_k",
    fault="Scores are not scaled by 1/√d_k",
    cost="probe",
    cause="The factor 1/√d_k on q · k is missing, applied twice, or made of another width.",
    mend="Multiply q · k by 1/√d_k once, d_k being the width of one head; scaled_dot_product_"
    "attention does so by itself, so neither scale q before it nor pass another scale.",
    reference="Vaswani et al. 2017, section 3.2.1; Raffel et al. 2020 (T5 scales its init instead)",
    symptoms=("nan", "stuck"),
    example=_FAULTY,
    mended=_MENDED,
)
def score_scale(case: Case) -> Outcome:
    """Without it scores grow with the width of the heads, softmax saturates, gradients vanish.

    Twice, attention stays almost uniform. Measured is the factor between q · k and softmax,
    wherever it is applied; what the model's class does by design (T5: none) is taken from the
    class itself where it is a stock one, else from how large queries, keys and scores are.
    """
    scales = [each for each in map(_scale, case.record.attention) if each is not None]
    if not scales:
        raise Skip("no attention call shows queries, keys and one factor on their product")
    designed = _designed(case)
    off = [s for s in scales if abs(s.ratio / designed.get(s.call.module, 1.0) - 1) > _NEAR]
    if not off:
        return passed(
            f"{_sizes(scales)} times 1/√d_k in all {len(scales)} calls; the scores' standard "
            f"deviation is at most {max(s.spread for s in scales):.2g}",
            ratios=[s.ratio for s in scales],
        )
    where = list(dict.fromkeys(s.call.module for s in off))
    evidence = (
        f"q · k is multiplied by {_sizes(off)} times 1/√d_k in {len(off)} of {len(scales)} calls "
        f"(d_k = {_width(off[0])}); the scores' standard deviation there is up to "
        f"{max(s.spread for s in off):.2g}"
    )
    numbers: dict[str, Any] = {
        "ratios": [s.ratio for s in scales],
        "spreads": [s.spread for s in scales],
    }
    cause = _cause(off)
    if designed:
        right = sorted({round(designed.get(s.call.module, 1.0), 3) for s in off})
        evidence += f"; its class has {', '.join(map(str, right))}"
        return failure(evidence, where=where, cause=cause, **numbers)
    if _by_layer(scales):
        return passed(f"{evidence}: 1/√d_k divided by the layer's number, in every layer")
    if len(off) < len(scales) and _same_kind(off, scales):
        return failure(evidence, where=where, cause=f"{cause} Other calls are right.", **numbers)
    if all(_unit_length(s.call) for s in off):
        return passed(f"{evidence}; queries and keys have one length: they are normalised")
    spread = max(s.spread for s in off)
    if min(s.ratio for s in off) > 1:
        biased = all(s.call.bias is not None and s.call.scale == 1.0 for s in off)
        if spread < _FLAT and (biased or all(s.absorbed for s in off)):
            return passed(f"{evidence}: the weights make up for it, as in T5", **numbers)
        if spread > (_LARGE if case.is_fresh is not False else _SATURATED):
            return failure(evidence, where=where, cause=cause, **numbers)
    return warning(f"{evidence}. {_why_no_failure(case, off)}", where=where, cause=cause, **numbers)


def _why_no_failure(case: Case, off: Sequence[Scale]) -> str:
    """What speaks against it, or is not known."""
    if min(s.ratio for s in off) <= 1:
        return "No failure: it flattens attention, which training may make up for, and muP means so"
    slopes = [slope for s in off if (slope := _slope(s.call)) is not None]
    width = _width(off[0])
    passes = f"softmax passes {min(slopes):.2g} of a gradient (0.25 at best)" if slopes else ""
    why = f"No failure yet: {passes}" if passes else "No failure yet"
    if case.is_fresh:
        return (
            f"{why}, as these weights are fresh and small; queries and keys of size 1 would give "
            f"a standard deviation of √d_k = {width**0.5:.3g}"
        )
    which = "trained weights" if case.is_fresh is False else "the weights"
    return f"{why}, and {which} may have made up for the factor"


def _slope(call: AttentionCall) -> float | None:
    """Of each query the largest w(1 - w), on average; None where weights do not show."""
    if call.weights is None or call.weights.size(-1) < 2:
        return None
    weights = call.weights.float().nan_to_num(0.0)
    several = (weights > 0).sum(-1) > 1
    slope = (weights * (1 - weights)).amax(-1)[several]
    return float(slope.mean()) if slope.numel() else None


def _scale(call: AttentionCall) -> Scale | None:
    query, key, factor = call.query, call.key, call.scale
    if query is None or key is None or not factor or call.raw_scores is None:
        return None
    ratio = abs(factor) * query.size(-1) ** 0.5
    spread = float((call.raw_scores * factor).std(-1, correction=0).mean())
    sizes = [float(each.float().square().mean().sqrt()) for each in (query, key)]
    absorbed = sizes[0] / max(sizes[1], 1e-30) < ratio**-0.5
    return Scale(call, ratio, spread, absorbed)


def _designed(case: Case) -> Mapping[str, float]:
    """What the model's own class multiplies with, by module, as a ratio to 1/√d_k."""
    try:
        record = stock_run(case).record
    except Skip:
        return {}
    found = [each for each in map(_scale, record.attention) if each is not None]
    return {each.call.module: each.ratio for each in found}


def _sizes(scales: Sequence[Scale]) -> str:
    low, high = min(s.ratio for s in scales), max(s.ratio for s in scales)
    return f"{low:.3g}" if high / low < 1 + _NEAR else f"{low:.3g} to {high:.3g}"


def _width(scale: Scale) -> int:
    assert scale.call.query is not None
    return scale.call.query.size(-1)


def _cause(off: Sequence[Scale]) -> str:
    width, ratio = _width(off[0]), off[0].ratio
    heads = off[0].call.num_heads or 1
    if abs(ratio / width**0.5 - 1) < _NEAR:
        return "Nothing scales the scores: the factor is 1."
    if abs(ratio * width**0.5 - 1) < _NEAR:
        return "The factor is 1/d_k: 1/√d_k was applied twice (or it is meant so, as in muP)."
    if heads > 1 and abs(ratio * heads**0.5 - 1) < _NEAR:
        return "The factor is 1/√d_model: of the whole width in place of one head's."
    if abs(ratio / width - 1) < _NEAR:
        return "The factor is √d_k: scores were multiplied where they have to be divided."
    return "The factor is neither 1/√d_k nor a known variant of it."


def _by_layer(scales: Sequence[Scale]) -> bool:
    """GPT-2's option to divide by the layer's number, counted from 1."""
    return len(scales) > 1 and all(
        abs(s.ratio * (number + 1) - 1) < _NEAR for number, s in enumerate(scales)
    )


def _same_kind(off: Sequence[Scale], scales: Sequence[Scale]) -> bool:
    """Whether calls of the same kind, self or cross, differ among themselves."""
    rest = [s for s in scales if s not in off]
    return any(a.call.is_cross == b.call.is_cross for a in off for b in rest)


def _unit_length(call: AttentionCall) -> bool:
    """Queries and keys all have the same length."""
    for each in (call.query, call.key):
        assert each is not None
        length = each.float().norm(dim=-1)
        if float(length.std() / length.mean().clamp_min(1e-30)) > 1e-2:
            return False
    return True

"""mask-constant: what hides keys exists in half precision."""

from dataclasses import replace

import torch

from gnomon.doctor.call import Call
from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.beside.converted import converted
from gnomon.doctor.facts.beside.stock import LARGEST
from gnomon.doctor.facts.training.optimizing import listed
from gnomon.doctor.finding import Outcome, Skip, passed, warning
from gnomon.doctor.run import run
from gnomon.doctor.what_if import HIGHEST_FP16, follows_dtype, judged, runs_in
from gnomon.probe import AttentionCall, Origin, Record, origins

_FAULTY = """
    import torch
    from torch import nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.query, self.key, self.value = (nn.Linear(32, 32) for _ in range(3))

        def forward(self, x):
            scores = self.query(x) @ self.key(x).transpose(-2, -1) / 32**0.5
            later = torch.ones(x.size(1), x.size(1), dtype=torch.bool).triu(1)
            return scores.masked_fill(later, -1e9).softmax(-1) @ self.value(x)

    def patient():
        torch.manual_seed(0)
        return {"module": Model(), "batch": {"x": torch.randn(2, 6, 32)}, "precision": "fp16"}
"""
_MENDED = _FAULTY.replace("-1e9", "torch.finfo(scores.dtype).min")
_NEAR = 0.25  # of the constant: a score of either sign, beside keys of the other


_SUMS = ("add", "sub", "rsub", "mul")
_ONTO = (
    "Something is added to the dtype's smallest number: a second mask, a bias or a score. Beyond "
    "the dtype's range that is -∞."
)
_TWO = "Two additive masks are summed, so keys that both hide get twice the constant."
_AND = "Combine the masks as booleans by logical and, then apply one constant."


@check(
    code="mask-constant",
    title="Mask constants exist in half precision",
    fault="Mask constants do not exist in half precision",
    cost="probe",
    cause="A literal such as -1e9 stands where the dtype's own smallest number should.",
    mend="Boolean masks (`masked_fill(~keep, torch.finfo(scores.dtype).min)`, or handed to "
    "scaled_dot_product_attention), combined by logical and before they are applied once.",
    reference="apex #1052, fairseq #3575; PyTorch documentation, torch.finfo",
    symptoms=("nan",),
    example=_FAULTY,
    mended=_MENDED,
)
def mask_constant(case: Case) -> Outcome:
    """fp16 ends at 65,504: -1e9 is an error there, or -∞, and (1 - keep) · -∞ is NaN.

    Two masks added, each of the smallest finite number, are -∞ in every precision: a row with
    nothing to attend to becomes NaN. `finfo(dtype).min` and boolean masks follow the dtype; whether
    fp32's smallest number does is tried on a copy in fp16.
    """
    literal: dict[str, float] = {}
    lowest: list[str] = []
    added: dict[str, tuple[float, ...]] = {}
    masked = 0
    padded, record = _seen(case)
    for call in record.attention:
        constants = tuple(c for c in call.mask_constants if c == c)
        masked += call.keep is not None
        name = call.module or "(the root)"
        if constants and follows_dtype(min(constants), torch.float32):
            lowest.append(name)
        for constant in constants:
            if -float("inf") < constant < -HIGHEST_FP16 and not follows_dtype(constant):
                literal.setdefault(name, constant)
        if _two_added(call):
            added.setdefault(name, constants)
    if not masked:
        raise Skip("no attention call hides a key")
    with origins(case.module) as trail:
        case.run(padded, record=True)  # watched: no fused fast path
    beyond = [each for each in trail.origins if _of_a_constant(each)]
    if beyond:
        first, where = beyond[0], list(dict.fromkeys(each.module or "" for each in beyond))
        dtype = str(first.dtype).removeprefix("torch.")
        return warning(
            f"{first.operator} of finite numbers gives infinity in "
            f"{listed([w or 'the root' for w in where])}: it reads ±{first.largest_input:.4g}, and "
            f"{dtype} ends at {first.limit:.4g}",
            where=where,
            cause=_ONTO if _ends(first) else "",
            mend=_AND if _ends(first) else "",
            line=first.line,
        )
    if added:
        name, constants = next(iter(added.items()))
        values = " and ".join(f"{each:.4g}" for each in constants)
        evidence = (
            f"{len(added)} attention calls hide keys with a number and its double: {values} in "
            f"{name}, as two masks do that are added"
        )
        if not literal or runs_in(case, "fp16") or runs_in(case, "bf16"):
            return judged(
                case, "fp16", evidence, where=list(added), certain=False,
                cause=_TWO, mend=_AND, constants=list(constants),
            )  # fmt: skip
    if literal:
        name, constant = next(iter(literal.items()))
        return judged(
            case,
            "fp16",
            f"{len(literal)} attention calls hide keys with {constant:.4g}, which fp16 does not "
            f"have; the first is {name}",
            where=list(literal),
            constants=sorted(set(literal.values())),
        )
    weak = _reached(case)
    if weak is not None:
        return weak
    if lowest:
        refused = _refused_in_fp16(case)
        if refused is not None:
            return judged(
                case,
                "fp16",
                f"{len(lowest)} attention calls hide keys with the smallest number of fp32, "
                f"whatever the scores' dtype: a copy in fp16 ends in {refused}; the first is "
                f"{lowest[0]}",
                where=lowest,
                cause="The smallest number of another dtype stands where the scores' own should.",
            )
    return passed(f"the masks of {masked} attention calls follow the dtype", masked=masked)


def _of_a_constant(origin: Origin) -> bool:
    """Whether a sum overflows for a number at the end of the dtype's range, or beyond it.

    Of numbers well within it any sum may grow too large; that is no mask's doing.
    """
    if origin.operator.rstrip("_") not in _SUMS or origin.largest_input is None:
        return False
    return _ends(origin) or origin.largest_input > origin.limit


def _ends(origin: Origin) -> bool:
    return origin.largest_input is not None and follows_dtype(-origin.largest_input, origin.dtype)


def _reached(case: Case) -> Outcome | None:
    """Whether scores come so near to what hides keys that it may not hide them."""
    for call in case.record.attention:
        finite = [c for c in call.mask_constants if -float("inf") < c < 0]
        if not finite or call.raw_scores is None or not call.scale or call.keep is None:
            continue
        scores = (call.raw_scores.float() * call.scale).abs()
        reach = float(scores.masked_fill(~call.keep.expand(scores.shape), 0.0).max())
        if reach > -max(finite) * _NEAR:
            return warning(
                f"scores reach ±{reach:.4g} in {call.module or 'the root'}, and what hides keys "
                f"there is {max(finite):.4g}: a hidden key may stand above the others",
                where=call.module,
                cause="The constant was chosen for smaller scores than these are.",
                reach=reach,
                constant=max(finite),
            )
    return None


def _refused_in_fp16(case: Case) -> str | None:
    """What a copy in half precision raises for a constant that fp16 does not have, if it does."""
    if case.dtype != torch.float32 or case.patient.precision == "bf16":
        return None
    if sum(p.numel() for p in case.module.parameters()) > LARGEST:
        return None
    try:
        low, call = converted(case.module, torch.float16), case.small
        halves = {
            key: value.half() if isinstance(value, torch.Tensor) and value.dtype.is_floating_point
            else value
            for key, value in call.values.items()
        }  # fmt: skip
        with torch.no_grad():
            run(low.eval(), replace(call, values=halves))
    except Exception as error:  # whatever a model raises that cannot run in half precision
        said = f"{type(error).__name__}: {error}"
        return said[:150] if "without overflow" in said else None
    return None


def _seen(case: Case) -> tuple[Call, Record]:
    """A call with padding to hide, where the model is told of it, and what the probe saw of it."""
    try:
        return case.padded, case.padded_seen.record
    except Skip:
        return case.small, case.record


def _two_added(call: AttentionCall) -> bool:
    """A constant and its double (or -∞ beside the smallest finite number) in one additive mask."""
    constants = [c for c in call.mask_constants if c == c]
    if call.mask_dtype is None or not call.mask_dtype.is_floating_point:
        return False
    finite = [c for c in constants if c > -float("inf")]
    doubled = any(abs(a / (2 * b) - 1) < 1e-3 for a in finite for b in finite if b < -100)
    endless = len(finite) < len(constants) and any(follows_dtype(c) for c in finite)
    return doubled or endless

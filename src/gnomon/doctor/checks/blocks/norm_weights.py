"""norm-weights: gains and shifts of norms are of usual size."""

import math
from statistics import median
from typing import Any

import torch
from torch import Tensor

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.layers.norms import Norm, gains, norms
from gnomon.doctor.facts.training.optimizing import listed
from gnomon.doctor.finding import Outcome, Skip, failure, passed, warning

_FAULTY = """
    import torch
    from torch import nn

    def patient():
        torch.manual_seed(0)
        module = nn.TransformerEncoderLayer(32, 2, 64, batch_first=True)
        with torch.no_grad():
            module.norm1.weight.zero_()  # an init for matrices, applied to every parameter
        return {"module": module, "batch": {"src": torch.randn(2, 6, 32)}}
"""
_MENDED = _FAULTY.replace(
    "module.norm1.weight.zero_()  # an init for matrices, applied to every parameter",
    "module.norm1.weight.fill_(1.0)",
)
_ZERO, _MOST = 1e-3, 0.5  # a gain of nothing, and the share of features with it
_FAR = 30.0  # times the other norms of the model
_LEAST, _LARGEST = 0.03, 30.0  # of the median of all norms
_ALIKE, _MOST_NORMS = 1.15, 0.8  # norms that agree with each other so closely, and their share
_OFF = 1.3  # from 1
_SPREAD = 6.0  # how far they are off together, in units of how far a norm's features are apart
_COMMON = 3.0  # the mean of a shift over its features, in units of its spread


@check(
    code="norm-weights",
    title="Gains and shifts of norms are usual",
    fault="Gains or shifts of norms are unusual",
    cost="probe",
    cause="The norm's parameters were overwritten: by an init meant for matrices, by weight decay, "
    "or by a file whose keys did not fit.",
    mend="Gains of 1 and shifts of 0 at the start (0 where the gain is stored as gain - 1), no "
    "decay on them.",
    reference="Ba et al. 2016; transformers #35927 (decay on norms)",
    symptoms=("stuck", "gibberish", "nan"),
    example=_FAULTY,
    mended=_MENDED,
)
def norm_weights(case: Case) -> Outcome:
    """A gain of 0 closes a sublayer, one far off drowns it or everything else.

    The gain is measured, not read: each norm is called with random input, and the factor on each
    normalised feature counts, however it is stored.
    """
    found = norms(case)
    measured: dict[str, Tensor] = {}
    infinite, blown = [], []
    for norm in found:
        for parameter in (norm.call.weight, norm.call.bias):
            if parameter is not None and not bool(parameter.isfinite().all()):
                infinite.append(norm.name)
        if (gain := gains(norm)) is not None:
            measured[norm.name] = gain.abs()
            shift = norm.call.bias
            if shift is not None and float(shift.detach().abs().median()) > 20 * max(
                float(gain.abs().median()), 1.0
            ):
                blown.append(norm.name)
    if infinite:
        return failure(
            f"the parameters of {len(infinite)} norms are not finite: {listed(infinite)}",
            where=list(dict.fromkeys(infinite)),
            cause="A step with a non-finite gradient, or a damaged file.",
            mend="Go back to the last checkpoint before it.",
        )
    if not measured:
        raise Skip("no norm was seen whose gain could be measured")
    sizes = {name: float(each.median()) for name, each in measured.items()}
    usual = median(sizes.values())
    numbers: dict[str, Any] = {"gains": sizes}
    zero = {n: float((g < _ZERO).float().mean()) for n, g in measured.items()}
    closed = [name for name, share in zero.items() if share > _MOST]
    if closed:
        return failure(
            f"{zero[closed[0]]:.0%} of the gains of {closed[0]} are 0 ({len(closed)} norms)",
            where=closed,
            **numbers,
        )
    odd = [n for n, size in sizes.items() if not usual / _FAR <= size <= usual * _FAR]
    if odd:
        return warning(
            f"the median gain of {odd[0]} is {sizes[odd[0]]:.2g}, that of all norms {usual:.2g}",
            where=odd,
            **numbers,
        )
    if blown:
        size = _shift(found, blown[0])
        return warning(
            f"the shift of {blown[0]} is {size:.2g} in the median, many times its gain",
            where=blown,
            **numbers,
        )
    together = [n for n, size in sizes.items() if usual / _ALIKE <= size <= usual * _ALIKE]
    # Training that takes gains far from 1 takes the features of each norm apart as well.
    spread = median(float(g.std(correction=0)) for g in measured.values()) / max(usual, 1e-30)
    off = abs(math.log(max(usual, 1e-30))) > max(math.log(_OFF), _SPREAD * spread)
    if len(together) > max(2.0, _MOST_NORMS * len(sizes)) and off:
        return warning(
            f"the gains of {len(together)} of {len(sizes)} norms are all near {usual:.2g}, those "
            f"of one norm {spread:.0%} apart: training would have moved them further from "
            "one another",
            where=together,
            cause="They were rescaled or overwritten as a whole (a factor of another convention, "
            "or an init function), or all start at another value than 1.",
            **numbers,
        )
    offset = _common_shift(found)
    if len(offset) > max(2.0, _MOST_NORMS * len(found)):
        first = next(iter(offset))
        return warning(
            f"the shifts of {len(offset)} of {len(found)} norms are nearly one number for all "
            f"features ({offset[first]:.2g} in {first})",
            where=list(offset),
            cause="Something was added to them, or they hold what belongs to the gains. Nothing in "
            "training prefers one number for all features.",
            **numbers,
        )
    # Training moves gains, but not all of them that far; drawn ones are 1.
    if not _LEAST <= usual <= _LARGEST:
        return warning(
            f"the median gain of all {len(sizes)} norms is {usual:.2g}, far from 1",
            where=list(sizes),
            **numbers,
        )
    return passed(f"the median gain of {len(sizes)} norms is {usual:.2g}", **numbers)


def _common_shift(found: list[Norm]) -> dict[str, float]:
    """The mean of each shift that is one number with little variation, by the norm's name."""
    means = {}
    for norm in found:
        shift = norm.call.bias
        if shift is not None and shift.numel() > 1:
            shift = shift.detach().float()
            mean, spread = float(shift.mean()), float(shift.std())
            if abs(mean) > max(_COMMON * spread, 1e-3):
                means[norm.name] = mean
    return means


def _shift(found: list[Norm], name: str) -> float:
    bias = next(norm.call.bias for norm in found if norm.name == name)
    return float(torch.as_tensor(bias).detach().abs().median())

"""initial-weights: a fresh model's weights are drawn as its class draws them."""

import math

from torch import Tensor

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.beside.stock import stock
from gnomon.doctor.facts.layers.kinds import by_kind
from gnomon.doctor.facts.training.optimizing import listed
from gnomon.doctor.finding import Outcome, Skip, passed, warning

_FAULTY = """
    import torch
    from gnomon.model import Transformer, TransformerConfig

    def patient():
        torch.manual_seed(0)
        model = Transformer(
            TransformerConfig(family="decoder", vocab_size=50, d_model=32, num_decoder_layers=2)
        )
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if "feedforward" in name:
                    parameter.mul_(5.0)  # an own init function, run on top of the model's
        return {"module": model}
"""
_MENDED = _FAULTY.replace("mul_(5.0)", "mul_(1.0)")
_FACTOR = 1.4  # between the spreads: drawing twice differs by 1/√(2n)
_CERTAIN = 8.0  # standard errors
_SHIFT = 0.2  # between means, in units of the larger of 1 and the spread


@check(
    code="initial-weights",
    title="Fresh weights are drawn as their class draws them",
    fault="Fresh weights are not drawn as their class draws them",
    cost="probe",
    cause="An initialisation ran on top of the model's own, twice, or on parameters it was not "
    "meant for.",
    mend="Keep the class's own initialisation, or give the scale by its configuration "
    "(initializer_range).",
    reference="Glorot and Bengio 2010; Zhang et al. 2019, Fixup (what the scale at the start does)",
    symptoms=("stuck", "nan"),
    example=_FAULTY,
    mended=_MENDED,
)
def initial_weights(case: Case) -> Outcome:
    """Depth and rate were tuned with one scale of the weights; another one trains worse, or not at
    all, without any sign but that.

    Where the class is known (gnomon, transformers), a second model is drawn from the configuration,
    and mean and spread of each kind of parameter are compared.
    """
    case.must_be_fresh()
    model = stock(case)
    theirs = dict(model.named_parameters())
    ours = {n: p.detach() for n, p in case.module.named_parameters() if n in theirs}
    odd: dict[str, str] = {}
    for names in by_kind(ours).values():
        told = _differs([ours[n] for n in names], [theirs[n].detach() for n in names])
        if told:
            odd |= dict.fromkeys(names, told)
    if not ours:
        raise Skip("the model has no parameter of its class's names")
    if odd:
        first = next(iter(odd))
        return warning(
            f"{len(odd)} of {len(ours)} parameters are not drawn as {type(model).__name__} "
            f"draws them: {listed(list(odd))}; {first} {odd[first]}",
            where=list(odd),
        )
    return passed(f"{len(ours)} parameters have the mean and spread that their class draws")


def _differs(ours: list[Tensor], theirs: list[Tensor]) -> str:
    """In words, "" where they are the same."""
    count = sum(each.numel() for each in ours)
    mean, spread = _moments(ours)
    usual, width = _moments(theirs)
    if abs(mean - usual) > _SHIFT * max(1.0, width) and abs(mean - usual) > _CERTAIN * (
        width / math.sqrt(count)
    ):
        return f"has a mean of {mean:.3g} instead of {usual:.3g}"
    if width == 0 or spread == 0:
        return "" if width == spread else f"has a spread of {spread:.3g} instead of {width:.3g}"
    certain = max(_FACTOR, math.exp(_CERTAIN / math.sqrt(2 * count)))
    if not 1 / certain <= spread / width <= certain:
        return f"has a spread of {spread:.3g} instead of {width:.3g}"
    return ""


def _moments(parts: list[Tensor]) -> tuple[float, float]:
    """Mean and standard deviation over all elements; of equal ones exactly 0, free of rounding."""
    total = sum(each.numel() for each in parts)
    mean = sum(float(each.double().sum()) for each in parts) / total
    if all(bool((each == parts[0].flatten()[0]).all()) for each in parts):
        return mean, 0.0
    square = sum(float((each.double() - mean).square().sum()) for each in parts) / total
    return mean, math.sqrt(square)

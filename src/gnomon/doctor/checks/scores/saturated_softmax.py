"""saturated-softmax: scores are small enough that a gradient comes back through softmax."""

from typing import Any

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.attention.heads import Heads, heads
from gnomon.doctor.finding import Outcome, Skip, failure, passed, warning

_FAULTY = """
    import torch
    from torch import nn

    def patient():
        torch.manual_seed(0)
        module = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
        with torch.no_grad():
            module.self_attn.in_proj_weight[:64] *= 12  # queries and keys far too large
        return {"module": module, "batch": {"src": torch.randn(2, 12, 32)}}
"""
_MENDED = _FAULTY.replace("*= 12  # queries and keys far too large", "*= 1")
_MOST = 0.5  # of the queries of a layer, and 0.2 of those of each head
_SPREAD = 8.0  # of the scores; e^8 = 3000 between keys one deviation apart
_NO_GRADIENT = 0.02  # w (1 - w); at most 0.25


@check(
    code="saturated-softmax",
    title="Softmax is not saturated",
    fault="Softmax is saturated",
    cost="probe",
    cause="The scores before softmax are far too large: weights of queries and keys have grown, or "
    "the scale 1/√d_k is missing.",
    mend="Scale by 1/√d_k; lower the learning rate or warm up longer; normalise queries and keys "
    "(QK-norm) where they keep growing.",
    reference="Vaswani et al. 2017, section 3.2.1; Henry et al. 2020 (QK-norm)",
    symptoms=("stuck", "nan"),
    example=_FAULTY,
    mended=_MENDED,
)
def saturated_softmax(case: Case) -> Outcome:
    """Where one weight is 1 and the others 0, softmax passes no gradient: the layer is frozen.

    What the text's sink gets (the one key that draws most queries, normal in trained models) is
    left out: a head that looks at its sink still tells the other keys apart.
    """
    found = [each for each in heads(case) if each.queries]
    if not found:
        raise Skip("the texts are too short: no query sees four keys")
    layers = [each for each in found if _saturated(each)]
    largest = max(float(each.score_std.max()) for each in found)
    shares = [float(each.one_hot.mean()) for each in found]
    if not layers:
        return passed(
            f"at most {max(shares):.0%} of a layer's queries give all to one key; the scores' "
            f"standard deviation is at most {largest:.2g}",
            one_hot=shares,
            score_std=largest,
        )
    slope = max(float(each.slope.max()) for each in layers)
    least = min(float(each.one_hot.mean()) for each in layers)
    evidence = (
        f"in {len(layers)} of {len(found)} attention calls {least:.0%} of the queries or more give "
        f"over 0.99 to one key beside the sink; the scores' standard deviation is up to "
        f"{largest:.2g}, and at most {slope:.1g} of a gradient passes softmax (0.25 at best)"
    )
    numbers: dict[str, Any] = {"one_hot": shares, "score_std": largest, "slope": slope}
    where = [each.module for each in layers]
    judge = failure if slope < _NO_GRADIENT and largest > 2 * _SPREAD else warning
    return judge(evidence, where=where, **numbers)


def _saturated(layer: Heads) -> bool:
    most = float(layer.one_hot.mean()) > _MOST and float(layer.one_hot.min()) > 0.2
    return most and float(layer.score_std.min()) > _SPREAD

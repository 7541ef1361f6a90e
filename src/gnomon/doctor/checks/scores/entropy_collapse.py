"""entropy-collapse: the heads of a layer do not all look at single keys."""

import torch

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.attention.heads import Heads, heads, measured
from gnomon.doctor.facts.beside.stock import stock_run
from gnomon.doctor.finding import Outcome, Skip, failure, passed, warning

_FAULTY = """
    import torch
    from torch import nn

    def patient():
        torch.manual_seed(0)
        module = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
        with torch.no_grad():
            module.self_attn.in_proj_weight[:64] *= 9  # as after a training that ran away
        return {"module": module, "batch": {"src": torch.randn(2, 12, 32)}}
"""
_MENDED = _FAULTY.replace("*= 9  # as after a training that ran away", "*= 1")
_FLOOR = 0.15  # of the largest possible entropy, the sink left out
_MOST = 0.75  # of a layer's heads
_SPREAD = 3.0  # of the scores; about 1 or less at the start


@check(
    code="entropy-collapse",
    title="Attention has not collapsed onto single keys",
    fault="Attention has collapsed onto single keys",
    cost="probe",
    cause="Queries and keys have grown until nearly every query sees one key alone.",
    mend="Go back to a checkpoint before the collapse; lower the learning rate, warm up longer, or "
    "normalise queries and keys (QK-norm, σReparam).",
    reference="Zhai et al. 2023, Stabilizing Transformer Training by Preventing Attention Entropy "
    "Collapse",
    symptoms=("stuck", "nan"),
    example=_FAULTY,
    mended=_MENDED,
)
def entropy_collapse(case: Case) -> Outcome:
    """Low entropy in most heads of a layer goes with training that hangs or blows up.

    Single sharp heads and attention sinks are normal in good models: entropy is measured without
    the key that draws most queries, and only a layer of which most heads are below the floor, with
    scores far larger than at the start of a training, is told.
    """
    found = [each for each in heads(case) if each.queries]
    if not found:
        raise Skip("the texts are too short: no query sees four keys")
    lowest = [float(each.entropy_beside_sink.min()) for each in found]
    fallen = [each for each in found if _collapsed(each)]
    if not fallen:
        return passed(
            f"the lowest entropy of a head, its sink left out, is {min(lowest):.0%} of the largest "
            f"possible; no layer has most of its heads below {_FLOOR:.0%}",
            entropy=[each.entropy.tolist() for each in found],
        )
    spread = max(float(each.score_std.max()) for each in fallen)
    evidence = (
        f"in {len(fallen)} of {len(found)} attention calls most heads have an entropy below "
        f"{_FLOOR:.0%} of the largest possible (mean "
        f"{float(torch.cat([each.entropy_beside_sink for each in fallen]).mean()):.1%}); their "
        f"scores' standard deviation is up to {spread:.2g}{_at_start(case)}"
    )
    judge = failure if len(fallen) == len(found) and spread > 3 * _SPREAD else warning
    return judge(
        evidence,
        where=[each.module for each in fallen],
        entropy=[each.entropy.tolist() for each in found],
        score_std=spread,
    )


def _collapsed(layer: Heads) -> bool:
    low = (layer.entropy_beside_sink < _FLOOR) & (layer.score_std > _SPREAD)
    return float(low.float().mean()) >= _MOST


def _at_start(case: Case) -> str:
    """What the scores are like in a model of the same configuration with fresh weights."""
    try:
        record = stock_run(case).record
        fresh = [float(each.score_std.max()) for each in measured(record, case) if each.queries]
    except Skip:
        return ""
    return f", with fresh weights {max(fresh):.2g}" if fresh else ""

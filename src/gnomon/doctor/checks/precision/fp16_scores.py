"""fp16-scores: attention scores fit into fp16."""

import torch

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.finding import Outcome, Skip, passed
from gnomon.doctor.what_if import HIGHEST_FP16, judged, runs_in
from gnomon.probe import AttentionCall

_FAULTY = """
    import torch
    from torch import nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.query, self.key, self.value = (nn.Linear(32, 32, bias=False) for _ in range(3))
            with torch.no_grad():
                self.query.weight.mul_(200.0)
                self.key.weight.mul_(200.0)

        def forward(self, x):
            scores = self.query(x) @ self.key(x).transpose(-2, -1) / 32**0.5
            return scores.softmax(-1) @ self.value(x)

    def patient():
        torch.manual_seed(0)
        return {"module": Model(), "batch": {"x": torch.randn(2, 6, 32)}, "precision": "fp16"}
"""
_MENDED = _FAULTY.replace("mul_(200.0)", "mul_(1.0)")
_COARSE = 256.0  # from here on bf16 tells scores apart in steps of 2, softmax e² = 7 times
_CLOSE = 0.25


@check(
    code="fp16-scores",
    title="Scores fit into fp16 and bf16",
    fault="Scores would not fit into half precision",
    cost="probe",
    cause="q · k is computed in half precision without its scale, or queries and keys have grown.",
    mend="Scale the queries before the product, compute scores and softmax in fp32 (or with "
    "scaled_dot_product_attention, which does), normalise queries and keys. bf16 has fp32's range "
    "(to 3.4e38), where fp16 ends at 65,504, but tells large scores apart coarsely.",
    reference="Vaswani et al. 2017, section 3.2.1; Henry et al. 2020 (query-key normalisation)",
    symptoms=("nan",),
    example=_FAULTY,
    mended=_MENDED,
)
def fp16_scores(case: Case) -> Outcome:
    """A score beyond 65,504 is infinite in fp16, and softmax over two infinities is NaN.

    In bf16 large scores are told apart in coarse steps. What fused kernels compute stays in fp32
    inside; for attention written by hand the product is looked at before and after its scale.
    """
    found: list[tuple[float, AttentionCall, str]] = []
    fused: list[tuple[float, AttentionCall]] = []
    inside = 0
    for call in case.record.attention:
        if call.path != "softmax":
            inside += 1
            if call.scores is not None:
                fused.append((_largest(_visible(call, call.scores)), call))
            continue
        raw, scores = call.raw_scores, call.scores
        scale = abs(call.scale) if call.scale else 1.0
        # Scaled queries keep the product small, a scale behind it comes too late.
        if raw is not None and not _scaled_before(call):
            found.append((_largest(raw), call, "before its scale"))
        if raw is not None:
            found.append((scale * _largest(raw), call, "scaled"))
        elif scores is not None:
            found.append((_largest(_visible(call, scores)), call, "scaled"))
    if not found:
        if fused:
            largest, call = max(fused, key=lambda each: each[0])
            over_all = [each.module for size, each in fused if size > HIGHEST_FP16]
            if over_all:
                return judged(
                    case, "fp16",
                    f"scores reach {largest:.3g} in {call.module or 'the root'}; only a fused "
                    "kernel, which keeps them in fp32, stands between them and fp16's 65,504",
                    where=list(dict.fromkeys(over_all)), certain=False, largest=largest,
                    cause="Queries and keys have grown; softmax over such scores is a choice of "
                    "one key.",
                )  # fmt: skip
            return passed(
                f"{inside} attention calls are fused: their scores, up to {largest:.3g}, are fp32 "
                "inside",
                largest=largest,
            )
        raise Skip("no attention call shows its scores")
    largest, call, when = max(found, key=lambda each: each[0])
    over = [(size, each, how) for size, each, how in found if size > HIGHEST_FP16]
    evidence = f"the largest q · k is {largest:.3g} ({when}), in {call.module or 'the root'}"
    if over:
        size, first, how = over[0]
        return judged(
            case,
            "fp16",
            f"q · k reaches {size:.3g} {how} in {first.module or 'the root'}; fp16 ends at 65,504",
            where=list(dict.fromkeys(each.module for _, each, _ in over)),
            largest=largest,
        )
    scaled = max((s, c.module) for s, c, how in found if how == "scaled")
    if runs_in(case, "bf16") and scaled[0] > _COARSE:
        return judged(
            case,
            "bf16",
            f"scores reach {scaled[0]:.3g} in {scaled[1]}, where bf16 has steps of "
            f"{2.0 ** (torch.tensor(scaled[0]).log2().floor().item() - 7):.0f}",
            where=[scaled[1]],
            certain=False,
            largest=scaled[0],
        )
    if largest > _CLOSE * HIGHEST_FP16 and runs_in(case, "fp16"):
        return judged(case, "fp16", evidence, where=[call.module], certain=False, largest=largest)
    return passed(evidence, largest=largest)


def _largest(values: torch.Tensor) -> float:
    return float(values.abs().max()) if values.numel() else 0.0


def _visible(call: AttentionCall, scores: torch.Tensor) -> torch.Tensor:
    """Those of keys that are not hidden."""
    shown = scores if call.keep is None else scores[call.keep.expand_as(scores)]
    return shown[shown > -9_000]


def _scaled_before(call: AttentionCall) -> bool:
    """Whether no scaling stands between the product and softmax."""
    return not {"mul", "div"} & set(call.transforms_before) and call.scale not in (None, 1.0)

"""loss-scale: gradients can be brought into fp16's range by one scale."""

import math
from collections.abc import Iterator
from typing import Any

import torch

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.finding import Outcome, Skip, passed
from gnomon.doctor.what_if import HIGHEST_FP16, LOWEST_FP16, judged, runs_in

_FAULTY = """
    import torch
    from torch import nn

    def patient():
        torch.manual_seed(0)
        module = nn.TransformerEncoderLayer(32, 2, 64, dropout=0.0, batch_first=True)

        def loss(module, batch):
            return 1e-12 * (module(**batch) - 1).abs().mean()

        return {
            "module": module, "batch": {"src": torch.randn(2, 6, 32)}, "loss": loss,
            "precision": "fp16",
        }
"""
_MENDED = _FAULTY.replace("1e-12 * ", "")
_LARGEST_SCALE = 2.0**24  # a scaler that starts at 2^16 rarely gets beyond
_LOST = 0.1
_SMALLEST_NORMAL = 2.0**-14


@check(
    code="loss-scale",
    title="One loss scale fits all gradients",
    fault="No single loss scale fits all gradients",
    cost="probe",
    cause="Gradients of this loss span more than fp16 has, or lie far from where a scaler starts.",
    mend="Train in bf16; or average the loss over tokens, mend the layer with the outlying "
    "gradient, and use a dynamic GradScaler.",
    reference="Micikevicius et al. 2018, section 3.2; apex #318, fairseq #512",
    symptoms=("nan", "stuck"),
    example=_FAULTY,
    mended=_MENDED,
)
def loss_scale(case: Case) -> Outcome:
    """fp16 has nothing between 0 and 6e-8, and gradients are often that small.

    A loss scale moves them up, as far as the largest one allows. From fp32 gradients it is computed
    which scale that is, and how many gradients are lost without it and in spite of it.
    """
    case.loss_gives_gradients  # noqa: B018 - skips where no training loss is known
    gradients = {n: g for n, g in case.gradients.items() if g is not None}
    sizes = [(each.numel(), float(each.max())) for each in _sizes(gradients) if each.numel()]
    count = sum(number for number, _ in sizes)
    if not count:
        raise Skip("no gradient to look at")
    largest = max(most for _, most in sizes)
    if not math.isfinite(largest):
        raise Skip("gradients are not finite in fp32 already")
    # The scaler doubles until something overflows: half of fp16's range is what it keeps to.
    room = min(HIGHEST_FP16 / 2 / largest, _LARGEST_SCALE)
    scale = 2.0 ** math.floor(math.log2(room))
    bare, scaled = (_lost(gradients, count, each) for each in (1.0, scale))
    first = max(gradients, key=lambda n: float(gradients[n].detach().to_dense().abs().max()))
    numbers: dict[str, Any] = {
        "largest": largest, "scale": scale, "lost_without": bare, "lost_with": scaled,
    }  # fmt: skip
    evidence = (
        f"gradients reach {largest:.2g} ({first}); {bare:.1%} vanish in fp16 without a loss scale, "
        f"{scaled:.1%} with {scale:g}, the largest that fits"
    )
    if scale < 1:
        return judged(
            case, "fp16", evidence, where=[first],
            cause="The gradient itself is beyond fp16: a scaler would have to go below 1.",
            **numbers,
        )  # fmt: skip
    if scaled > _LOST:
        return judged(case, "fp16", evidence, where=_smallest(gradients, scale), **numbers)
    if largest < _SMALLEST_NORMAL and bare > 0.5:
        return judged(
            case, "fp16", evidence, where=_smallest(gradients, 1.0), certain=False,
            cause="Even the largest gradient is below fp16's normal numbers: the loss is divided "
            "by something that is not multiplied back.",
            mend="Average the loss over its target tokens, by nothing else, and use a dynamic "
            "GradScaler (or bf16).",
            **numbers,
        )  # fmt: skip
    if bare > _LOST and case.dtype == torch.float16 and runs_in(case, "fp16"):
        return judged(
            case, "fp16", evidence, certain=False,
            cause="The parameters are fp16 themselves, so a GradScaler (which wants fp32 "
            "parameters) cannot be what scales the loss.",
            mend="Keep parameters in fp32 and use autocast with a GradScaler.",
            **numbers,
        )  # fmt: skip
    return passed(evidence, **numbers)


def _sizes(gradients: dict[str, torch.Tensor]) -> Iterator[torch.Tensor]:
    """What is not 0 of each, one after another: together they take as much memory as the model."""
    for each in gradients.values():
        size = each.detach().to_dense().float().abs().flatten()
        yield size[size > 0]


def _lost(gradients: dict[str, torch.Tensor], count: int, scale: float) -> float:
    """The share that rounds to 0."""
    lost = (int((each * scale < LOWEST_FP16 / 2).sum()) for each in _sizes(gradients))
    return sum(lost) / count


def _smallest(gradients: dict[str, torch.Tensor], scale: float) -> list[str]:
    """Parameters whose gradients vanish for the most part."""
    medians = {
        name: float(each.detach().to_dense().float().abs().median())
        for name, each in gradients.items()
    }
    return [n for n in sorted(medians, key=medians.__getitem__) if medians[n] * scale < LOWEST_FP16]

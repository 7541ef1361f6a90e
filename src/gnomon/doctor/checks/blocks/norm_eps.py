"""norm-eps: a norm's eps is small beside the variance, and not 0."""

from typing import Any

import torch

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.layers.norms import Norm, amplified, effective_eps, norms, shrinkage
from gnomon.doctor.facts.training.optimizing import listed
from gnomon.doctor.finding import Outcome, Skip, failure, passed, warning

_FAULTY = """
    import torch
    from torch import nn

    def patient():
        torch.manual_seed(0)
        module = nn.TransformerEncoderLayer(32, 2, 64, batch_first=True, layer_norm_eps=10.0)
        return {"module": module, "batch": {"src": torch.randn(2, 6, 32)}}
"""
_MENDED = _FAULTY.replace("layer_norm_eps=10.0", "layer_norm_eps=1e-5")
_BROKEN, _SUSPECT = 0.5, 0.85
_NOISE = 1e-8  # rounding errors of activations of usual size
_LARGE = 1e-3  # a smaller one that matters says that the activations are small, not eps large


@check(
    code="norm-eps",
    title="A norm's eps is small, but not 0",
    fault="A norm's eps is too large or too small",
    cost="probe",
    cause="eps is about as large as the variance that it is added to: the output shrinks with the "
    "input instead of having unit size.",
    mend="eps = 1e-5 (1e-6 for RMSNorm) at activations of usual size; scale the embedding if it is "
    "they that are too small.",
    reference="Ba et al. 2016; PyTorch documentation, nn.LayerNorm",
    symptoms=("stuck", "nan"),
    example=_FAULTY,
    mended=_MENDED,
)
def norm_eps(case: Case) -> Outcome:
    """eps keeps a norm from dividing by 0 and must do nothing else.

    Too large, it switches the norm off; at 0 a constant input (a padded position) gives NaN. Each
    norm is called with its own input, a thousand times that, and a constant.
    """
    found = norms(case)
    sizes: dict[str, float] = {}
    infinite = []
    for norm in found:
        if (share := shrinkage(norm)) is not None and share == share:
            sizes[norm.name] = share if effective_eps(norm, share) > _LARGE else 1.0
        if norm.module is None or norm.call.kind in ("batch", "group"):
            continue
        try:
            constant = norm(torch.zeros_like(norm.call.input[:1]))
        except Exception:  # it insists on something else
            continue
        if not bool(constant.isfinite().all()):
            infinite.append(norm.name)
    if not sizes and not infinite:
        raise Skip("no normalisation was seen whose eps could be told")
    if infinite:
        return failure(
            f"{len(infinite)} norms give NaN or infinity for a constant input: {listed(infinite)}",
            where=infinite,
            cause="eps is 0, or vanishes in the dtype that the norm computes in.",
            mend="Add eps = 1e-5 to the variance before the root.",
            count=len(infinite),
        )
    noisy = [
        norm.name for norm in found if norm.name in sizes and (amplified(norm, _NOISE) or 0.0) > 0.5
    ]
    if noisy:
        return warning(
            f"{len(noisy)} norms bring an input of {_NOISE:g} to full size: {listed(noisy)}",
            where=noisy,
            cause="eps is so small that it does nothing: where an input has no variance, the norm "
            "makes full-sized values of rounding errors, and in half precision eps is 0.",
            mend="eps = 1e-5 (1e-12 is the smallest in use, for fp32 alone).",
            count=len(noisy),
        )
    worst = min(sizes, key=lambda each: sizes[each])
    share = sizes[worst]
    numbers: dict[str, Any] = {"share": share}
    evidence = f"the output of {worst} has {share:.0%} of the size it would have without eps"
    if share < _SUSPECT:
        where = [name for name, each in sizes.items() if each < _SUSPECT]
        evidence += f" (eps is about {_eps(found, worst, share):.2g})"
        verdict = failure if share < _BROKEN else warning
        return verdict(evidence, where=where, **numbers)
    return passed(evidence, **numbers)


def _eps(found: list[Norm], name: str, share: float) -> float:
    return next(effective_eps(norm, share) for norm in found if norm.name == name)

"""The normalisations of a model, to be called again by themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from gnomon.doctor.case import Case
    from gnomon.probe import NormCall

_UNEXPLAINED = 0.2  # of the output's variance, by a gain on each normalised feature


@dataclass(frozen=True)
class Norm:
    """A normalisation and its first call on `small`.

    Attributes:
        name: of the module that made the call.
        module: that module, where it is a norm and nothing else; None where a larger module
            called a function.
    """

    name: str
    module: nn.Module | None
    call: NormCall

    def __call__(self, x: Tensor, module: nn.Module | None = None) -> Tensor:
        """Its output for another input of the same last dimension."""
        with torch.no_grad():
            output: Tensor = (module or self.module)(x)  # type: ignore[misc]
        return output


def norms(case: Case) -> list[Norm]:
    """Every norm, by its first call."""
    record = case.seen.record
    found: dict[str, Norm] = {}
    for call in record.norms:
        module = case.module.get_submodule(call.module)
        alone = not any(True for _ in module.children())
        few = sum(p.numel() for p in module.parameters()) <= 2 * call.input.shape[-1]
        if call.module not in found and call.input.is_floating_point():
            found[call.module] = Norm(call.module, module if alone and few else None, call)
    return list(found.values())


def shrinkage(norm: Norm) -> float | None:
    """How far eps pulls the output towards 0: 1 where it does nothing; None: not to be had.

    The output of a norm does not depend on its input's size, but through eps. So it is compared
    with that for the same input a thousand times as large, the shift being taken off both.
    """
    x = norm.call.input.detach()
    if norm.module is None or norm.call.kind not in ("layer", "rms", None):
        return _by_formula(norm)
    try:
        zero, usual, large = (norm(k * x).double() for k in (0, 1, 1000))
    except Exception:  # it insists on something else
        return _by_formula(norm)
    zero = torch.where(zero.isfinite(), zero, 0.0)
    usual, large = usual - zero, large - zero
    along = (usual * large).sum(-1) / large.square().sum(-1).clamp_min(1e-30)
    return float(along.median())


def amplified(norm: Norm, size: float) -> float | None:
    """The share of its usual size that the output has for an input of this root mean square."""
    x = norm.call.input.detach()
    if norm.module is None or norm.call.kind not in ("layer", "rms", None):
        return None
    off = x - x.mean(-1, keepdim=True)
    scale = size / max(float(off.float().square().mean().sqrt()), 1e-30)
    try:
        zero, small, usual = (norm(k * off).double() for k in (0, scale, 1000))
    except Exception:  # it insists on something else
        return None
    zero = torch.where(zero.isfinite(), zero, 0.0)
    return float((small - zero).norm() / (usual - zero).norm().clamp_min(1e-30))


def effective_eps(norm: Norm, share: float) -> float:
    """The eps that would shrink the output to this share, were it added to the variance."""
    x = norm.call.input.detach().double()
    dims = norm.call.dims
    size = x.square().mean(dims) if norm.call.kind == "rms" else x.var(dims, correction=0)
    return float(size.median()) * max(1.0 / max(share, 1e-6) ** 2 - 1.0, 0.0)


def _by_formula(norm: Norm) -> float | None:
    x, eps, kind = norm.call.input.detach().double(), norm.call.eps, norm.call.kind
    if eps is None or kind not in ("layer", "rms"):
        return None
    dims = norm.call.dims
    size = x.var(dims, correction=0) if kind == "layer" else x.square().mean(dims)
    return float((size / (size + eps)).sqrt().median())


def gains(norm: Norm) -> Tensor | None:
    """The factor that each feature really gets `[D]`, whatever its parameter says (Gemma adds 1).

    None where it cannot be called, or what it does is no gain on normalised features.
    """
    if norm.module is None or norm.call.kind not in ("layer", "rms", None):
        return None
    size = norm.call.input.shape[-1]
    if norm.call.dims != (norm.call.input.dim() - 1,):
        return None
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(64, *(1 for _ in norm.call.input.shape[2:]), size, generator=generator)
    x = x.to(norm.call.input)
    try:
        y = norm(x).double().reshape(64, size)
    except Exception:  # it insists on its input's shape
        return None
    x = x.double().reshape(64, size)
    if norm.call.kind == "layer":
        x = x - x.mean(-1, keepdim=True)
    x = x / x.square().mean(-1, keepdim=True).sqrt()
    off, out = x - x.mean(0), y - y.mean(0)
    gain = (off * out).sum(0) / off.square().sum(0)
    rest = float((out - gain * off).square().mean())
    return gain if rest <= _UNEXPLAINED * float(out.square().mean()) else None

"""Normalisations: PyTorch's own functions, and modules that normalise with code of their own."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor

from gnomon.probe.calls import Call
from gnomon.probe.kept import Keeper
from gnomon.probe.owners import Frame, floats
from gnomon.probe.record import NormCall, Statistics

NORMS = frozenset(["layer_norm", "rms_norm", "batch_norm", "group_norm", "native_layer_norm"])

Kind = Literal["layer", "rms", "batch", "group"]

# how far normalised values may lie, on average, from what their input says they should be
_TOLERANCE = 0.02


def norm_call(call: Call, result: Any, module: str, keeper: Keeper) -> NormCall | None:
    """A call of one of PyTorch's norm functions."""
    given = call.args[0]
    if not isinstance(result, Tensor):
        return None
    last = given.dim()
    kind: Kind
    if call.name in ("layer_norm", "rms_norm"):
        shape = call.argument(1, "normalized_shape")
        kind = "layer" if call.name == "layer_norm" else "rms"
        dims = tuple(range(last - len(tuple(shape)), last))
        weight = call.argument(2, "weight")
        bias = call.argument(3, "bias") if kind == "layer" else None
        eps = call.argument(4 if kind == "layer" else 3, "eps", 1e-5 if kind == "layer" else None)
    elif call.name == "batch_norm":
        kind, dims = "batch", tuple(axis for axis in range(last) if axis != 1)
        weight, bias = call.argument(3, "weight"), call.argument(4, "bias")
        # torch.batch_norm and F.batch_norm differ in the place of eps alone
        eps = call.argument(7, "eps", 1e-5)
    elif call.name == "group_norm":
        kind, dims = "group", tuple(range(1, last))
        weight, bias = call.argument(2, "weight"), call.argument(3, "bias")
        eps = call.argument(4, "eps", 1e-5)
    else:
        return None
    return NormCall(
        module=module,
        kind=kind,
        dims=dims,
        eps=None if eps is None else float(eps),
        weight=weight,
        bias=bias,
        input_statistics=Statistics(given),
        output_statistics=Statistics(result),
        handwritten=False,
        _input=keeper.keep(given),
        _output=keeper.keep(result),
    )


def handwritten_norm(frame: Frame, output: Any, keeper: Keeper) -> NormCall | None:
    """A norm with code of its own, told by its build and by what it did.

    Built like one: no submodules, at most a gain and a shift as parameters, the output's shape is
    the input's, and a mean or the like was taken. Its kind is what the output shows.
    """
    if frame.has_norm or not frame.reduces or any(True for _ in frame.module.children()):
        return None
    inputs, outputs = frame.inputs[:1], tuple(floats(output))
    if len(frame.inputs) != 1 or len(outputs) != 1 or outputs[0].shape != inputs[0].shape:
        return None
    given, result = inputs[0], outputs[0]
    parameters = dict(frame.module.named_parameters(recurse=False))
    if not given.dim() or any(p.numel() != given.shape[-1] for p in parameters.values()):
        return None
    if len(parameters) > 2 or (not parameters and given.numel() == result.numel() == 0):
        return None
    weight, bias = _gain_and_shift(parameters)
    kind, dims = _what_it_did(given, result, weight, bias)
    if kind is None and not parameters:
        return None
    return NormCall(
        module=frame.name,
        kind=kind,
        dims=dims,
        eps=frame.small[0] if frame.small else None,
        weight=weight,
        bias=bias,
        input_statistics=Statistics(given),
        output_statistics=Statistics(result),
        handwritten=True,
        _input=keeper.keep(given),
        _output=keeper.keep(result),
    )


def _gain_and_shift(parameters: Mapping[str, Tensor]) -> tuple[Tensor | None, Tensor | None]:
    """Which parameter multiplies and which is added: by name, else by order."""
    shifts = [n for n in parameters if n.lower() in ("bias", "b", "beta", "b_2", "shift", "b2")]
    bias = shifts[0] if shifts else None
    rest = [name for name in parameters if name != bias]
    if len(rest) == 2:
        bias = rest.pop()
    return (parameters[rest[0]] if rest else None), (parameters[bias] if bias else None)


def _what_it_did(
    given: Tensor, result: Tensor, weight: Tensor | None, bias: Tensor | None
) -> tuple[Kind | None, tuple[int, ...]]:
    """The kind of normalisation the output shows, and over which axes."""
    x, y = given.detach().double(), result.detach().double()
    if bias is not None:
        y = y - bias.detach().double().view(-1)
    gains: list[Tensor | None] = [None] if weight is None else [weight.detach().double().view(-1)]
    if weight is not None:
        gains.append(1 + weight.detach().double().view(-1))  # Gemma's gain starts at 0
    last = x.dim() - 1
    candidates: list[tuple[int, ...]] = [(last,), *((axis,) for axis in range(last - 1, -1, -1))]
    if last >= 2:
        candidates += [(last - 1, last)]
    if x.dim() >= 2:
        candidates += [tuple(range(x.dim()))]
    for dims in candidates:
        if all(x.shape[axis] < 2 for axis in dims):
            continue
        for gain in gains:
            plain = y if gain is None else y / torch.where(gain == 0, torch.nan, gain)
            kind = _normalised(x, plain, dims)
            if kind is not None:
                return kind, dims
    return None, (last,)


def _normalised(x: Tensor, y: Tensor, dims: tuple[int, ...]) -> Kind | None:
    """Whether y is x, brought to unit size over `dims`: with the mean taken off, or without."""
    centred = x - x.mean(dims, keepdim=True)
    count = math.prod(x.shape[axis] for axis in dims)
    unbiased = math.sqrt(count / (count - 1))  # as `x.std()` divides, and the annotated paper does
    sources: tuple[tuple[Kind, Tensor, float], ...] = (
        ("layer", centred, 1.0),
        ("layer", centred, unbiased),
        ("rms", x, 1.0),
    )
    fits: list[tuple[float, Kind]] = []
    for kind, source, correction in sources:
        size = source.square().mean(dims, keepdim=True).sqrt() * correction
        # rows too small to be told from eps are not judged
        judged = (size > 0.05).expand_as(y) & torch.isfinite(y)
        if bool(judged.any()):
            distance = (y - source / size.clamp_min(1e-12)).abs()[judged].mean()
            fits.append((float(distance), kind))
    if not fits:
        return None
    off, kind = min(fits, key=lambda fit: fit[0])
    return kind if off < _TOLERANCE else None

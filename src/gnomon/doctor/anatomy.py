"""What a model is, part by part, beside the Transformer of 2017: choices, not faults."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from gnomon.doctor.case import Case
from gnomon.doctor.facts.layers.norms import Norm, norms
from gnomon.doctor.facts.positions.embedded import embedded, text_lookups
from gnomon.doctor.facts.positions.sinusoids import sinusoid_tables
from gnomon.doctor.what_if import HIGHEST_FP16, follows_dtype


@dataclass(frozen=True)
class Trait:
    """One choice of a model's maker.

    Attributes:
        part: "norm", "mask" …
        seen: what the model does, as measured.
        paper: what Vaswani et al. 2017 describe, "" where it is the same.
        means: what the difference brings with it.
    """

    part: str
    seen: str
    paper: str = ""
    means: str = ""

    def as_json(self) -> dict[str, str]:
        """Plain values."""
        return asdict(self)


def anatomy(case: Case) -> list[Trait]:
    """What can be told of this patient; a part that is not seen is left out."""
    found: list[Trait] = []
    for each in _PARTS:
        try:
            found += each(case)
        except (Exception, SystemExit):  # a fact is not to be had, or the model's code raised it
            continue
    return found


def _layers(case: Case) -> Iterator[Trait]:
    count = len(case.block_names)
    ends = [block.ends_with_norm for block in case.blocks]
    if all(ends):
        yield Trait("layers", f"{count}, each sublayer's sum is normalised (post-norm)")
    else:
        yield Trait(
            "layers",
            f"{count}, what a sublayer reads is normalised (pre-norm)",
            "the sum of input and output is (post-norm)",
            "It trains without warm-up and needs one more norm behind the last layer; trained "
            "weights do not go from one order to the other.",
        )


def _norm(case: Case) -> Iterator[Trait]:
    found = [n for n in norms(case) if n.call.kind in ("layer", "rms")]
    if not found:
        return
    if all(norm.call.kind == "rms" for norm in found):
        yield Trait(
            "norm",
            "by the root mean square, no mean taken off",
            "layer normalisation (Ba et al. 2016)",
            "One pass less; no shift.",
        )
        return
    first = found[0]
    width = first.call.input.shape[-1]
    size = _size_of_output(first)
    if size is not None and abs(size * math.sqrt(width / (width - 1)) - 1) < 0.2 / width:
        yield Trait(
            "norm",
            f"divides by the deviation over D - 1 = {width - 1} (unbiased)",
            "over D, as nn.LayerNorm does",
            f"Outputs are {1 - size:.1%} smaller; weights that move to nn.LayerNorm or an exported "
            "kernel compute something else.",
        )
    if (outside := _eps_outside(first)) is not None:
        yield Trait(
            "norm",
            f"eps = {outside:.1g} is added to the deviation, outside the root",
            "to the variance, inside it (Ba et al. 2016 name none; nn.LayerNorm)",
            "For inputs of little variance it acts otherwise than nn.LayerNorm's: as eps² = "
            f"{outside**2:.0e} in there.",
        )


def _size_of_output(norm: Norm) -> float | None:
    """Root mean square of the normalised features, gain and shift taken off; eps does nothing."""
    gain, shift, y = norm.call.weight, norm.call.bias, _of_large(norm, 1e3)
    if y is None:
        return None
    y = y if shift is None else y - shift.detach().double()
    y = y if gain is None else y / gain.detach().double()
    return float(y.square().mean(-1).sqrt().median())


def _of_large(norm: Norm, size: float) -> Tensor | None:
    if norm.module is None:
        return None
    x = norm.call.input.detach()
    off = (x - x.mean(-1, keepdim=True)).float()
    off = off / off.square().mean(-1, keepdim=True).sqrt().clamp_min(1e-30)
    kept = off.isfinite().all(-1) & (off.square().mean(-1) > 0.5)
    if not bool(kept.any()):
        return None
    return norm((size * off[kept]).to(x)).double()


def _eps_outside(norm: Norm) -> float | None:
    """eps, where it is added to the deviation.

    The share of its size that an input of deviation d keeps is d / (d + eps) then, and
    d / √(d² + eps) where it is added to the variance: at two sizes the two part.
    """
    full = _of_large(norm, 1e3)
    if full is None or norm.call.kind != "layer":
        return None
    shift = 0.0 if norm.call.bias is None else norm.call.bias.detach().double()
    sizes = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7)
    outside, inside = [], []  # the eps that either place would need
    for size in sizes:
        small = _of_large(norm, size)
        if small is None:
            return None
        along = ((small - shift) * (full - shift)).sum() / (full - shift).square().sum()
        share = float(along)
        if 0.05 < share < 0.95:
            outside.append(size * (1 / share - 1))
            inside.append(size**2 * (1 / share**2 - 1))
    if len(outside) < 2:
        return None
    spread = max(outside) / min(outside)
    return median(outside) if spread < max(inside) / max(min(inside), 1e-300) else None


def _mask(case: Case) -> Iterator[Trait]:
    calls = [call for call in case.record.attention if call.keep is not None]
    constants = {c for call in calls for c in call.mask_constants if c == c}
    literal = [c for c in constants if math.isfinite(c) and not follows_dtype(c)]
    if literal:
        beyond = max(literal) < -HIGHEST_FP16
        halves = "fp16 ends at -65,504 and bf16 rounds it" if beyond else "Scores near it are seen"
        yield Trait(
            "mask",
            f"hidden keys get {max(literal):.4g}",
            "-∞",
            f"{halves}; a row without any key becomes the mean of all values instead of NaN or 0.",
        )
    elif calls:
        yield Trait("mask", "hidden keys get no weight, whatever the dtype")


def _scale(case: Case) -> Iterator[Trait]:
    for call in case.record.attention:
        if call.query is None or call.scale is None:
            continue
        width = call.query.size(-1)
        heads = f"{call.num_heads} heads of {width}"
        if abs(call.scale * math.sqrt(width) - 1) < 0.01:
            yield Trait("attention", f"{heads}, scores times {call.scale:.4g} = 1/√{width}")
        else:
            yield Trait(
                "attention",
                f"{heads}, scores times {call.scale:.4g}",
                f"1/√{width} = {1 / math.sqrt(width):.4g}",
                "Right where the initialisation makes up for it (T5) or queries are normalised.",
            )
        return


def _tables(case: Case) -> Iterator[Trait]:
    own = {id(p): name for name, p in case.module.named_parameters(remove_duplicate=False)}
    tables = {id(each.table): each for each in text_lookups(case) if id(each.table) in own}
    if not tables:
        return
    shapes = {tuple(each.table.shape) for each in tables.values()}
    outputs = [
        (name, module.weight)
        for name, module in case.module.named_modules()
        if isinstance(module, nn.Linear) and tuple(module.weight.shape) in shapes
    ]
    apart = [name for name, weight in outputs if id(weight) not in tables]
    names = [own[key] for key in tables]
    if apart or len(tables) > 1:
        yield Trait(
            "tables",
            f"{', '.join([*names, *(f'{name}.weight' for name in apart)])}: each its own",
            "one matrix for both embeddings and the projection before softmax",
            f"{_size(case, tables, outputs):.0%} of the parameters are copies that the paper "
            "does not have; loading its weights needs a tie, or three copies.",
        )
    elif outputs:
        yield Trait("tables", f"{names[0]} is also the projection before softmax")
    for stream in case.small.streams:
        at = embedded(case, stream)
        root = math.sqrt(at.width)
        if abs(at.factor / root - 1) < 0.02:
            yield Trait("embedding", f"times {at.factor:.4g} = √{at.width}")
        else:
            yield Trait(
                "embedding", f"times {at.factor:.4g}", f"√{at.width} = {root:.4g}",
                "Right where the table is drawn larger or positions smaller.",
            )  # fmt: skip
        return


def _size(case: Case, tables: dict[int, Any], outputs: list[tuple[str, Any]]) -> float:
    each = {key: call.table.numel() for key, call in tables.items()}
    each |= {id(weight): weight.numel() for _, weight in outputs}
    whole = sum(parameter.numel() for parameter in case.module.parameters())
    return float(sum(each.values()) - max(each.values())) / whole


def _positions(case: Case) -> Iterator[Trait]:
    for name, angles in sinusoid_tables(case.module):
        yield Trait(
            "positions",
            f"sinusoids in a table, {name}, of {len(angles):,} positions",
            "sinusoids, of any position",
            f"A text of more than {len(angles):,} tokens is an error where the model is called.",
        )
        return


def _kept(case: Case) -> Iterator[Trait]:
    shapes = {tuple(c.weights.shape) for c in case.record.attention if c.weights is not None}
    kept = [
        f"{name}.{key}"
        for name, module in case.module.named_modules()
        for key, value in vars(module).items()
        if isinstance(value, Tensor) and tuple(value.shape) in shapes
    ]
    if kept:
        yield Trait(
            "memory",
            f"{len(kept)} modules keep the attention weights of their last call ({kept[0]})",
            "nothing is kept",
            "B·H·T·S numbers a layer stay until the next call, in training with their graph, and "
            "fused attention (which never makes them) cannot be used.",
        )


def _adam(case: Case) -> Iterator[Trait]:
    optimizer = case.patient.optimizer
    groups = optimizer.param_groups if optimizer else ()
    # Other rules have an eps, too: Adafactor two of them, Muon of another kind.
    eps = {group["eps"] for group in groups if "betas" in group and "eps" in group}
    for each in eps:
        # Where eps is kept it makes no difference which small number it is.
        vanishes = case.dtype == torch.float16 and each < 6e-8
        yield Trait(
            "Adam",
            f"eps = {each:g}",
            "1e-9, in fp32" if vanishes else "",
            "It is 0 in fp16 (the least is 6e-8): with states in half precision the update is 0/0."
            if vanishes
            else "",
        )


_PARTS: tuple[Callable[[Case], Iterator[Trait]], ...] = (
    _layers, _norm, _mask, _scale, _tables, _positions, _kept, _adam,
)  # fmt: skip

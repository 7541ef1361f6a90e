"""Which number format the arithmetic uses, why, and the autocast context that applies it.

bf16 and fp16 mean fp32 weights and optimizer states with matrix products in the shorter format
(autocast). bf16 has fp32's range and needs nothing else; under fp16 the loss is scaled
(`training/loss_scale.py`). Weights are cast once per forward pass. bf16-master means that within a
pass everything is in bf16, weights, norms and what passes from layer to layer, and only softmax,
sums and the loss count in fp32; the weights that the optimizer moves are fp32 all the same. fp8 is
bf16 whose projections multiply 8-bit numbers (`training/float8.py`).
"""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import nn

from gnomon.errors import RecipeError
from gnomon.training.float8 import float8_products, refuse_without_float8
from gnomon.training.short_weights import short_weights

PrecisionName = Literal["auto", "fp32", "bf16", "bf16-master", "fp16", "fp8"]
Format = Literal["fp32", "bf16", "bf16-master", "fp16", "fp8"]
FORMATS: tuple[Format, ...] = get_args(Format)

# Times that bf16 products must be faster to outweigh the casts around them.
_LEAST_GAIN = 1.5

# Compute capability of the first GPUs that multiply matrices in fp16 at once.
_TENSOR_CORES = (7, 0)


@dataclass(frozen=True)
class Precision:
    """A number format settled for one device."""

    name: Format
    device: torch.device
    reason: str  # one sentence for the log: why this one

    def weights(self, model: nn.Module) -> AbstractContextManager[object]:
        """A fresh context for one forward and backward pass: what autocast does not do."""
        if self.name == "bf16-master":
            return short_weights(model, torch.bfloat16)
        if self.name == "fp8":
            return float8_products(model)
        return nullcontext()

    def autocast(self) -> AbstractContextManager[object]:
        """A fresh context for one forward pass, without effect in fp32 and bf16-master."""
        dtype = torch.float16 if self.name == "fp16" else torch.bfloat16
        is_mixed = self.name in ("bf16", "fp16", "fp8")
        return torch.autocast(self.device.type, dtype=dtype, enabled=is_mixed)

    def wider(self) -> Precision | None:
        """The next format with more range or more digits; None after fp32."""
        if self.name == "fp32":
            return None
        name: Format = "fp32" if self.name == "bf16" else "bf16"
        return Precision(name, self.device, f"{name} after {self.name}")


def choose_precision(name: str, device: torch.device) -> Precision:
    """Settle `name` ("auto" or one of `FORMATS`) for `device`.

    On CPUs "auto" lets both multiply a matrix of a training's size and takes bf16 where it is
    clearly faster. Instruction sets do not tell: bf16 is 5 times faster with Intel's AMX tiles and
    2.5 times on AMD's Zen 4 without them, yet slower than fp32 on CPUs that emulate it. fp16 is
    for GPUs that have no bf16; on CPUs it is never chosen.

    Raises:
        RecipeError: for unknown names, and for fp8 where the device or torchao is missing.
    """
    if name == "auto":
        return _best(device)
    if name == "fp8":
        refuse_without_float8(device)
    for known in FORMATS:
        if name == known:
            return Precision(known, device, f"{name} as asked")
    raise RecipeError(
        f"training.precision must be one of auto, {', '.join(FORMATS)}",
        seen=name,
        mend='use "auto"',
    )


def products_in(name: PrecisionName) -> Literal["fp32", "bf16", "fp16"] | None:
    """The plain format nearest to that of matrix products; None: the device is asked first."""
    if name == "auto":
        return None
    return name if name in ("fp32", "bf16", "fp16") else "bf16"


def _best(device: torch.device) -> Precision:
    if device.type == "cpu":
        gain = _bf16_gain()
        if gain >= _LEAST_GAIN:
            reason = f"bf16: this CPU multiplies it {gain:.1f} times as fast as fp32"
            return Precision("bf16", device, reason)
        reason = f"fp32: this CPU multiplies bf16 only {gain:.1f} times as fast"
        return Precision("fp32", device, reason)
    if device.type == "cuda":
        if torch.cuda.is_bf16_supported(including_emulation=False):
            return Precision("bf16", device, "bf16: this GPU multiplies it natively")
        if torch.cuda.get_device_capability(device) >= _TENSOR_CORES:
            reason = "fp16: this GPU multiplies it natively, and bf16 not"
            return Precision("fp16", device, reason)
        return Precision("fp32", device, "fp32: this GPU multiplies neither bf16 nor fp16 natively")
    return Precision("fp32", device, f"fp32: bf16 is not known to pay on {device.type}")


def _bf16_gain() -> float:
    """Time of a matrix product in fp32 over that in bf16; takes a tenth of a second."""
    x, w = torch.ones(2048, 256), torch.ones(1024, 256)
    pairs = {dtype: (x.to(dtype), w.to(dtype)) for dtype in (torch.float32, torch.bfloat16)}
    best = dict.fromkeys(pairs, float("inf"))
    for _ in range(6):  # in turns, and the best of each, so that a busy moment decides nothing
        for dtype, (left, right) in pairs.items():
            started = time.perf_counter()
            torch.nn.functional.linear(left, right)
            best[dtype] = min(best[dtype], time.perf_counter() - started)
    return best[torch.float32] / best[torch.bfloat16]


def choose_device(name: str) -> torch.device:
    """The device called "auto", "cpu" or "cuda"; auto takes a GPU where there is one.

    Raises:
        RecipeError: for other names, and when a GPU is asked for and torch sees none.
    """
    if name not in ("auto", "cpu", "cuda"):
        raise RecipeError("a device is one of auto, cpu, cuda", seen=name, mend='use "auto"')
    has_gpu = torch.cuda.is_available()
    if name == "cuda" and not has_gpu:
        raise RecipeError(
            'device "cuda" needs a GPU that torch can use',
            seen=f"torch {torch.__version__} sees none",
            mend='use "auto" or "cpu", or install a torch built for your GPU',
        )
    return torch.device("cuda" if name != "cpu" and has_gpu else "cpu")

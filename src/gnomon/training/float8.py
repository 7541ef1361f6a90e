"""Matrix products of 8-bit floating-point numbers, by torchao, on GPUs that have them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

import torch
from torch import Tensor, nn

from gnomon.errors import RecipeError
from gnomon.model.linear import FusedLinear

# Compute capability of the first GPUs that multiply fp8, and what sizes their products want.
_FIRST = (8, 9)
_MULTIPLE = 16

Product = Callable[[Tensor, Tensor, Tensor | None], Tensor]


def refuse_without_float8(device: torch.device) -> None:
    """Say why fp8 cannot be had.

    Raises:
        RecipeError: the device does not multiply fp8, or torchao is missing.
    """
    seen = None
    if device.type != "cuda":
        seen = f"training on {device.type}"
    elif (capability := torch.cuda.get_device_capability(device)) < _FIRST:
        seen = f"a GPU of compute capability {capability[0]}.{capability[1]}"
    if seen is not None:
        raise RecipeError(
            "training.precision fp8 needs a GPU that multiplies it (compute capability 8.9)",
            seen=seen,
            mend='use "auto"',
        )
    float8_product()


@contextmanager
def float8_products(model: nn.Module, product: Product | None = None) -> Iterator[None]:
    """Within the block the projections of `model` multiply in fp8 and give bf16.

    Both factors are scaled as wholes, forwards and backwards. Tables, heads of odd sizes and
    attention's own products stay in bf16.

    Args:
        product: x, weight, bias → x · weightᵀ + bias, instead of torchao's.
    """
    product = product or float8_product()
    chosen = [
        module
        for module in model.modules()
        if isinstance(module, FusedLinear)
        and all(size % _MULTIPLE == 0 for size in module.weight.shape)
    ]
    for module in chosen:
        module.product = product
    try:
        yield
    finally:
        for module in chosen:
            del module.product


@cache
def float8_product(*, emulate: bool = False) -> Product:
    """A linear map whose product, and those of its gradient, are of fp8 numbers.

    Args:
        emulate: on any device, for tests: numbers are rounded to fp8 and multiplied in fp32.

    Raises:
        RecipeError: torchao is missing.
    """
    try:
        from torchao.float8 import Float8LinearConfig, convert_to_float8_training
    except ImportError as error:
        raise RecipeError(
            "training.precision fp8 is torchao's work",
            seen="no torchao",
            mend="pip install 'gnomon[torchao]'",
        ) from error
    # A module without weights: those of any projection are lent to it.
    linear = convert_to_float8_training(
        nn.Linear(_MULTIPLE, _MULTIPLE, bias=False, device="meta"),
        config=Float8LinearConfig(emulate=emulate),
    )

    def product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        factors = {"weight": weight.to(torch.bfloat16)}
        y: Tensor = torch.func.functional_call(linear, factors, (x.to(torch.bfloat16),))
        return y if bias is None else y + bias.to(y.dtype)

    return product

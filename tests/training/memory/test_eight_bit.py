"""Rounding to 8 bits is within half a step of each block's scale, whatever the numbers."""

from __future__ import annotations

import pytest
import torch

from gnomon.training.memory.eight_bit import BLOCK, eight_bit


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("numel", [1, 255, 256, 257, 200_000])
def test_within_half_a_step(numel: int, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    flat = torch.randn(numel) * torch.logspace(-3, 3, numel)
    flat = flat.to(dtype)
    small = eight_bit(flat)
    again = small.restored()
    assert (again.shape, again.dtype) == (flat.shape, dtype)
    step = small.scales.expand(-1, BLOCK).reshape(-1)[:numel]
    rounding = torch.finfo(dtype).eps * flat.float().abs()
    assert bool(((again.float() - flat.float()).abs() <= step * 0.5001 + rounding).all())
    assert small.nbytes <= 1.02 * numel + 2 * BLOCK


def test_the_error_is_told() -> None:
    torch.manual_seed(0)
    flat = torch.randn(100_000)
    small = eight_bit(flat)
    lost = float((small.restored() - flat).norm() / flat.norm())
    assert small.error == pytest.approx(lost, rel=0.02)
    flat[::BLOCK] = 1000.0  # one giant a block leaves little for the others
    assert eight_bit(flat).error > 0.02


def test_what_is_not_zero_does_not_become_zero_where_nothing_is_negative() -> None:
    torch.manual_seed(0)
    flat = torch.randn(10_000).relu()
    flat[1::BLOCK] = 1e-6
    again = eight_bit(flat).restored()
    assert torch.equal(again > 0, flat > 0)


def test_zeros_and_what_is_not_finite() -> None:
    assert torch.equal(eight_bit(torch.zeros(300)).restored(), torch.zeros(300))
    for value in (float("inf"), float("nan")):
        flat = torch.ones(300)
        flat[7] = value
        assert not eight_bit(flat).error <= 1.0

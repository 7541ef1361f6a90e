"""When two ways to compute one thing agree: the 2x rule (after flash-attention's tests)."""

from __future__ import annotations

import torch
from torch import Tensor


def assert_two_times(
    candidate: Tensor, plain: Tensor, exact: Tensor, what: str = "", scale: float = 0.0
) -> None:
    """The candidate's error is at most twice plain PyTorch's at the same precision.

    Args:
        candidate: result of the fast or converted path.
        plain: the same by plain PyTorch operations in the same dtype.
        exact: the same in float64 from the same inputs.
        what: named in the failure message.
        scale: size of the numbers that went in, for results that are zero but for rounding.
    """
    assert candidate.dtype == plain.dtype, f"{what}: {candidate.dtype} against {plain.dtype}"
    assert exact.dtype == torch.float64
    assert torch.isfinite(candidate).all(), f"{what}: not finite"
    error = (candidate.double() - exact).abs().max().item()
    allowed = 2 * (plain.double() - exact).abs().max().item()
    floor = 8 * torch.finfo(candidate.dtype).eps * max(exact.abs().max().item(), scale)
    assert error <= max(allowed, floor), (
        f"{what}: error {error:.2e} against {allowed / 2:.2e} of plain PyTorch "
        f"(largest value {exact.abs().max().item():.2e})"
    )

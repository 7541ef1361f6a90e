"""What the machine gives at most: the rate of one large matrix product."""

from __future__ import annotations

import time

import torch

SIDE = 2048


def matmul_rates(precisions: list[str], num_threads: int, clock: str) -> dict[str, float]:
    """FLOPs a second of a square product in each precision, the best of five."""
    torch.set_num_threads(num_threads)
    now = time.perf_counter if clock == "wall" else time.process_time
    rates = {}
    for precision in precisions:
        dtype = torch.float32 if precision == "fp32" else torch.bfloat16
        left, right = (torch.randn(SIDE, SIDE).to(dtype) for _ in range(2))
        best = float("inf")
        for _ in range(6):  # the first one prepares and is never the best
            started = now()
            left @ right
            best = min(best, now() - started)
        rates[precision] = 2 * SIDE**3 / best
    return rates

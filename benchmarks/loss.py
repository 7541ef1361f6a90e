"""Label-smoothed cross-entropy, forward and backward: gnomon's against PyTorch's formulations.

    OMP_NUM_THREADS=1 python benchmarks/loss.py

Prints the median CPU time of each and its ratio to `torch.nn.functional.cross_entropy`; the
candidates take turns, so a busy machine slows them alike. Then the same for the output projection
with its loss, all logits at once and some rows at a time (`training/projected_loss.py`).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from gnomon.model import Projection
from gnomon.training import Objective, ObjectiveConfig, projected_loss
from gnomon.training.allocator import keep_freed_memory
from gnomon.training.cross_entropy import smoothed_cross_entropy

ALPHA, VOCAB, REPEATS = 0.1, 8000, 9


def gnomon(logits: Tensor, labels: Tensor) -> Tensor:
    return smoothed_cross_entropy(logits, labels, ALPHA)[0]


def torch_fused(logits: Tensor, labels: Tensor) -> Tensor:
    return functional.cross_entropy(logits.float(), labels, label_smoothing=ALPHA, reduction="sum")


def one_log_softmax(logits: Tensor, labels: Tensor) -> Tensor:
    log_probs = logits.float().log_softmax(dim=-1)
    nll = -log_probs.gather(1, labels[:, None]).sum()
    return (1 - ALPHA) * nll - ALPHA * log_probs.mean(dim=-1).sum()


CANDIDATES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "torch cross_entropy": torch_fused,
    "one log_softmax": one_log_softmax,
    "gnomon": gnomon,
}


def main() -> None:
    print(f"{torch.get_num_threads()} thread(s), V = {VOCAB}, label smoothing {ALPHA}")
    for dtype in (torch.float32, torch.bfloat16):
        for num_rows in (2000, 4000):
            times = measure(num_rows, dtype)
            base = times["torch cross_entropy"]
            for name, seconds in times.items():
                print(
                    f"{str(dtype).removeprefix('torch.'):>9} M = {num_rows}  {name:<20}"
                    f"{seconds * 1e3:8.1f} ms  {base / seconds:4.1f}x"
                )
    keep_freed_memory()
    for vocab, width in ((8000, 256), (32000, 512)):
        for bf16 in (False, True):
            times = measure_projected(vocab, width, 3500, bf16=bf16)
            base = times["whole"]
            ratios = {name: round(seconds / base, 3) for name, seconds in times.items()}
            print(f"{'bf16' if bf16 else 'fp32'}, projection [3500, {width}, {vocab}]: {ratios}")


def measure_projected(vocab: int, width: int, num_rows: int, *, bf16: bool) -> dict[str, float]:
    """CPU seconds with all logits at once, and with 2^22 … of them at once."""
    torch.manual_seed(0)
    objective = Objective(ObjectiveConfig(), pad_id=0)
    hidden, table = torch.randn(num_rows, width), torch.randn(vocab, width) * width**-0.5
    target = torch.randint(4, vocab, (1, num_rows + 1))
    chunks = {"whole": num_rows * vocab} | {f"2^{n}": 2**n for n in (22, 23, 24)}
    times: dict[str, list[float]] = {name: [] for name in chunks}
    for _ in range(5):
        for name, chunk in chunks.items():
            projected_loss.CHUNK = chunk
            leaves = [each.clone().requires_grad_() for each in (hidden, table)]
            projection = Projection(*leaves, None)
            started = time.process_time()
            with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
                sums = objective(target, lambda *_, p=projection: p)
            (sums.loss / num_rows).backward()
            times[name].append(time.process_time() - started)
    return {name: statistics.median(values[1:]) for name, values in times.items()}


def measure(num_rows: int, dtype: torch.dtype) -> dict[str, float]:
    torch.manual_seed(0)
    logits = (torch.randn(num_rows, VOCAB) * 2).to(dtype).requires_grad_()
    labels = torch.randint(0, VOCAB, (num_rows,))
    times: dict[str, list[float]] = {name: [] for name in CANDIDATES}
    for _ in range(REPEATS):
        for name, candidate in CANDIDATES.items():
            logits.grad = None
            started = time.process_time()
            (candidate(logits, labels) / num_rows).backward()
            times[name].append(time.process_time() - started)
    return {name: statistics.median(values) for name, values in times.items()}


if __name__ == "__main__":
    main()

"""What each rule of the [optimizer] table costs: time of its step, bytes that it remembers.

    python -m benchmarks.optimizer_step                    # 3+3 layers, 256 wide
    python -m benchmarks.optimizer_step --size base --rounds 5

Random gradients of a whole model; rules take turns, times are CPU time (of CUDA: wall time). AdamW
with its moments in 8 bits is measured where torchao is installed, on CPUs, too, where a recipe is
refused; its first step, which compiles, is told apart.
"""

from __future__ import annotations

import argparse
import statistics
import time
from importlib.util import find_spec

import torch
from benchmarks.precision import SIZES, model_of

from gnomon.training import OptimizerConfig
from gnomon.training.optimizers import Optimizer
from gnomon.training.optimizers.eight_bit import EightBitAdamW

RULES = ("adamw", "adafactor", "muon", "schedule_free", "lion")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", default="small", choices=list(SIZES))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--without-8bit", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    model = model_of(given.size).to(given.device)
    gradients = [torch.randn_like(p) * 1e-3 for p in model.parameters()]
    rules = {name: Optimizer(model, OptimizerConfig(name=name, eps=1e-8)) for name in RULES}
    if find_spec("torchao") is not None and not given.without_8bit:
        eight = rules["adamw, 8 bits"] = Optimizer(model, OptimizerConfig(eps=1e-8))
        eight.rules = [EightBitAdamW(eight.groups, eight.config)]
    seconds: dict[str, list[float]] = {name: [] for name in rules}
    for _ in range(given.rounds + 1):
        for name, rule in rules.items():
            for parameter, gradient in zip(model.parameters(), gradients, strict=True):
                parameter.grad = gradient.clone()
            started = _now(given.device)
            rule.step(1e-6)
            seconds[name].append(_now(given.device) - started)
    count = sum(p.numel() for p in model.parameters())
    print(f"{given.size}: {count:,} parameters, {len(gradients)} tensors, on {given.device}")
    print("| rule | time, ms | beside adamw | first step, s | bytes a parameter |")
    print("| --- | --- | --- | --- | --- |")
    for name, found in seconds.items():
        ratio = statistics.median(
            a / b for a, b in zip(found[1:], seconds["adamw"][1:], strict=True)
        )
        kept = rules[name].state_tensors().items()
        size = sum(t.nbytes for key, t in kept if not key.startswith("weights/")) / count
        print(
            f"| {name} | {statistics.median(found[1:]) * 1000:.1f} | {ratio:.1f} "
            f"| {found[0]:.2f} | {size:.2f} |"
        )


def _now(device: str) -> float:
    if device == "cuda":
        torch.cuda.synchronize()
        return time.perf_counter()
    return time.process_time()


if __name__ == "__main__":
    main()

"""Where the time of a training step goes, by torch.profiler: parts of the step, kinds of work.

    python -m benchmarks.profile_step                         # small and base-2017, fp32 and bf16
    python -m benchmarks.profile_step --sizes base --tokens 4096 --steps 5

small is 3+3 layers, 256 wide, 8,000 subwords; base-2017 is 6+6 layers, 512 wide, 32,000. Batches
are random ids without padding, half of the tokens on each side. The profiler itself costs a little:
times are those of steps without it, shares are its own.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial

import torch
from benchmarks.precision import SIZES, model_of
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from gnomon.model import Projection
from gnomon.training import Objective, ObjectiveConfig, OptimizerConfig
from gnomon.training.allocator import keep_freed_memory
from gnomon.training.optimizers import Optimizer
from gnomon.training.profile import by_group, self_times

PARTS = ("forward", "loss", "backward", "update")


class Step:
    """A training step whose parts can be timed one by one."""

    def __init__(self, size: str, precision: str, tokens: int, length: int) -> None:
        vocab = SIZES[size][-1]
        self.model = model_of(size).train()
        rows = tokens // (2 * length)
        self.source = torch.randint(4, vocab, (rows, length))
        self.target = torch.randint(4, vocab, (rows, length + 1))
        self.objective = Objective(ObjectiveConfig(), pad_id=0)
        self.optimizer = Optimizer(self.model, OptimizerConfig())
        self.autocast = partial(torch.autocast, "cpu", torch.bfloat16, enabled=precision == "bf16")

    def __call__(self, clock: Callable[[], float] = time.perf_counter) -> dict[str, float]:
        """Seconds of each part."""
        times = [clock()]
        with self.autocast():
            projection = self.project()
            times.append(clock())
            sums = self.objective(self.target, lambda inputs, keep: projection)
        times.append(clock())
        (sums.loss / sums.num_tokens).backward()
        times.append(clock())
        self.optimizer.clip(float(self.optimizer.gradient_norm()))
        self.optimizer.step(1e-4)
        times.append(clock())
        return {part: times[n + 1] - times[n] for n, part in enumerate(PARTS)}

    def project(self) -> Projection:
        memory = self.model.encode(self.source)
        hidden: Tensor = self.model.decode(
            self.target[:, :-1], memory, self.model.keep(self.source)
        )
        return self.model.projection(hidden.flatten(0, 1))


def main() -> None:
    """Print two tables."""
    given = arguments()
    keep_freed_memory()
    clock = time.process_time if given.clock == "cpu" else time.perf_counter
    columns = [(size, precision) for size in given.sizes for precision in given.precisions]
    parts, groups = [], []
    for size, precision in columns:
        step = Step(size, precision, given.tokens, given.length)
        for _ in range(2):
            step(clock)
        found = [step(clock) for _ in range(given.steps)]
        parts.append({part: statistics.median(one[part] for one in found) for part in PARTS})
        with profile(activities=[ProfilerActivity.CPU]) as recorded:
            for _ in range(max(2, given.steps // 2)):
                step(clock)
        groups.append(by_group(self_times(recorded)))
    print(f"{given.tokens:,} tokens, {torch.get_num_threads()} threads, {given.clock} time")
    heads = " | ".join(f"{size} {precision}" for size, precision in columns)
    print(f"| part, ms | {heads} |\n| --- |{' --- |' * len(columns)}")
    for part in PARTS:
        print(f"| {part} | " + " | ".join(f"{1e3 * one[part]:,.0f}" for one in parts) + " |")
    print("| all | " + " | ".join(f"{1e3 * sum(one.values()):,.0f}" for one in parts) + " |")
    print(f"\n| kind of work, share | {heads} |\n| --- |{' --- |' * len(columns)}")
    names = {name for one in groups for name in one}
    for name in sorted(names, key=lambda name: -groups[0].get(name, 0)):
        shares = (one.get(name, 0.0) / sum(one.values()) for one in groups)
        print(f"| {name} | " + " | ".join(f"{share:.1%}" for share in shares) + " |")


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", nargs="+", default=["small", "base"], choices=list(SIZES))
    parser.add_argument("--precisions", nargs="+", default=["fp32", "bf16"])
    parser.add_argument("--tokens", type=int, default=4096, help="of both sides")
    parser.add_argument("--length", type=int, default=32, help="of a text")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--clock", default="wall", choices=["wall", "cpu"])
    return parser.parse_args()


if __name__ == "__main__":
    main()

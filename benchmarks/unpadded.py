"""What leaving padding out is worth, by how much of it there is.

    python benchmarks/unpadded.py --size small --shares 0 0.01 0.02 0.05 0.1 0.2

A training step (forward, backward, AdamW) of a translator on rows of which the given share is
padding, with `training.unpadded` never and always in turn; medians and their ratio. On a busy
machine, --clock cpu with one thread.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch

from gnomon.model import (
    AttentionConfig,
    FeedForwardConfig,
    NormConfig,
    Transformer,
    TransformerConfig,
)
from gnomon.model.unpadded import unpadding
from gnomon.tasks.likelihood import outputs
from gnomon.training import ObjectiveConfig, OptimizerConfig
from gnomon.training.allocator import keep_freed_memory
from gnomon.training.objective import Objective
from gnomon.training.optimizers import Optimizer
from peers.setting import SIZES, Setting

PAD = 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--shares", type=float, nargs="+", default=[0, 0.01, 0.02, 0.05, 0.1, 0.2])
    parser.add_argument("--length", type=int, default=24, help="of the longest row")
    parser.add_argument("--tokens", type=int, default=2048, help="of a side, padding included")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="bf16")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    keep_freed_memory()
    now = time.process_time if options.clock == "cpu" else time.perf_counter
    step = make_step(Setting(**SIZES[options.size]), options.precision)
    print(f"size {options.size}, {options.precision}, {options.threads} threads, ms a step")
    print("| padding | computed | left out | ratio |\n|---|---|---|---|")
    for share in options.shares:
        pairs = [rows(options, share, seed) for seed in (1, 2)]
        times: dict[str, list[float]] = {"never": [], "always": []}
        for number in range(options.rounds + 1):
            for mode, found in times.items():
                with unpadding(mode):
                    started = now()
                    step(*pairs)
                if number:  # the first one prepares
                    found.append(1000 * (now() - started))
        medians = [statistics.median(found) for found in times.values()]
        ratios = [a / b for a, b in zip(*times.values(), strict=True)]
        print(
            f"| {share:.0%} | {medians[0]:.0f} | {medians[1]:.0f} "
            f"| {statistics.median(ratios):.3f} |",
            flush=True,
        )


def make_step(setting: Setting, precision: str) -> Callable[[torch.Tensor, torch.Tensor], None]:
    """One update of the model that `training_speed.py` trains."""
    torch.manual_seed(0)
    model = Transformer(
        TransformerConfig(
            vocab_size=setting.vocab_size,
            d_model=setting.d_model,
            num_encoder_layers=setting.num_layers,
            num_decoder_layers=setting.num_layers,
            attention=AttentionConfig(num_heads=setting.num_heads, dropout=setting.dropout),
            feedforward=FeedForwardConfig(size=setting.feedforward, dropout=setting.dropout),
            norm=NormConfig(placement="pre"),
            dropout=setting.dropout,
        )
    ).train()
    optimizer = Optimizer(model, OptimizerConfig())
    objective = Objective(ObjectiveConfig(), pad_id=PAD)

    def step(source: torch.Tensor, target: torch.Tensor) -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            sums = objective(target, lambda inputs, keep: outputs(model, source, inputs, keep))
        (sums.loss / sums.num_tokens).backward()
        optimizer.clip(float(optimizer.gradient_norm()))
        optimizer.step(1e-4)

    return step


def rows(options: argparse.Namespace, share: float, seed: int) -> torch.Tensor:
    """Ids of which about `share` is padding; the first row has none."""
    generator = torch.Generator().manual_seed(seed)
    shape = (options.tokens // options.length, options.length)
    ids = torch.randint(4, 8000, shape, generator=generator)
    spread = 2 * share * options.length  # lengths are drawn evenly below the longest
    missing = (torch.rand(shape[0], 1, generator=generator) * spread).round()
    missing[0] = 0
    return ids.masked_fill(torch.arange(options.length) >= options.length - missing, PAD)


if __name__ == "__main__":
    main()

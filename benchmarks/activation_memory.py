"""What the [memory] table saves of a training step's activations, and what it costs in time.

    python benchmarks/activation_memory.py                       # 6+6 layers, 512 wide, fp32
    python benchmarks/activation_memory.py --precision bf16 --rows 64 --length 128

Memory is what a forward pass leaves behind, as the operating system sees it (resident memory, each
large block given back when it is freed), in a process of its own for each way, without the gradient
of the output table, which the loss makes at once. Time is that of whole steps in one process, in
turns.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch
from torch import Tensor

from gnomon.model import Projection, Transformer, TransformerConfig
from gnomon.model.attention import AttentionConfig
from gnomon.model.feedforward import FeedForwardConfig
from gnomon.model.norm import NormConfig
from gnomon.training import MemoryConfig, Objective, ObjectiveConfig
from gnomon.training.allocator import keep_freed_memory
from gnomon.training.memory import keeping
from gnomon.training.precision import FORMATS, choose_precision

WAYS = {
    "kept": MemoryConfig(),
    "selective": MemoryConfig(recompute="selective"),
    "full": MemoryConfig(recompute="full"),
    "full, every 2nd": MemoryConfig(recompute="full", every=2),
    "int8": MemoryConfig(activations="int8"),
    "int8 and selective": MemoryConfig(recompute="selective", activations="int8"),
}
CPU = torch.device("cpu")


class Step:
    """Forward and backward pass of an encoder-decoder on random ids."""

    def __init__(self, given: argparse.Namespace) -> None:
        torch.manual_seed(0)
        self.model = Transformer(
            TransformerConfig(
                vocab_size=given.vocab,
                d_model=given.width,
                num_encoder_layers=given.layers,
                num_decoder_layers=given.layers,
                dropout=0.1,
                tie="all",
                attention=AttentionConfig(num_heads=8),
                feedforward=FeedForwardConfig(size=4 * given.width),
                norm=NormConfig(placement=given.placement),
            )
        ).train()
        shape = (given.rows, given.length)
        self.source = torch.randint(4, given.vocab, shape)
        self.target = torch.randint(4, given.vocab, (shape[0], shape[1] + 1))
        self.objective = Objective(ObjectiveConfig(), pad_id=0)
        self.precision = choose_precision(given.precision, CPU)

    def __call__(self, way: str) -> int:
        """Resident bytes between the two passes."""
        context = keeping(WAYS[way], self.model, CPU)
        self.model.zero_grad(set_to_none=True)
        with self.precision.weights(self.model):
            with context(), self.precision.autocast():
                sums = self.objective(self.target, self.outputs)
            between = resident() - self.model.table("output").nbytes
            sums.loss.backward()  # type: ignore[no-untyped-call]
        return between

    def outputs(self, inputs: Tensor, keep: Tensor) -> Projection:
        """What the logits [M, V] are the product of."""
        memory = self.model.encode(self.source)
        hidden = self.model.decode(inputs, memory, self.model.keep(self.source))
        return self.model.projection(hidden[keep])


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * resource.getpagesize()


def main() -> None:
    """Print a table."""
    given = parse_arguments()
    if given.measure:
        step = Step(given)
        step("full")  # what is reserved once
        step.model.zero_grad(set_to_none=True)
        before = resident()
        print(step(given.measure) - before)
        return
    memory = {way: measured(way) for way in given.ways}
    keep_freed_memory()
    step, seconds = Step(given), {way: [] for way in given.ways}
    for round_ in range(given.rounds + 1):
        for way in given.ways:
            started = time.process_time() if given.clock == "cpu" else time.perf_counter()
            step(way)
            ended = time.process_time() if given.clock == "cpu" else time.perf_counter()
            if round_:
                seconds[way].append(ended - started)
    print(
        f"{given.layers}+{given.layers} layers, {given.width} wide, {given.rows * given.length:,}"
    )
    print(f"source and as many target tokens, {given.precision}, {torch.get_num_threads()} threads")
    print("| kept | MB | times less | time | |\n| --- | --- | --- | --- | --- |")
    for way in given.ways:
        ratios = [one / base for one, base in zip(seconds[way], seconds["kept"], strict=True)]
        print(
            f"| {way} | {memory[way] / 1e6:,.0f} | {memory['kept'] / memory[way]:.2f} "
            f"| {statistics.median(ratios):.3f} | {min(ratios):.3f} to {max(ratios):.3f} |"
        )


def measured(way: str) -> int:
    """Bytes, by a process whose freed memory goes back at once."""
    command = [sys.executable, *sys.argv, "--measure", way]
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "131072"}
    run = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return int(run.stdout)


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--vocab", type=int, default=8000)
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--placement", default="post")
    parser.add_argument("--precision", default="fp32", choices=FORMATS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--clock", default="wall", choices=["wall", "cpu"])
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=list(WAYS))
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()

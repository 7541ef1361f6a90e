"""Number formats: how fast a training step is in each, and what loss it leads to.

    python -m benchmarks.precision speed                   # base-2017 size, 32k joint vocabulary
    python -m benchmarks.precision speed --size small --compile
    python -m benchmarks.precision loss --train train.en train.de --valid val.en val.de

Speed: whole steps (forward, backward, clipping, AdamW) of one model on random ids, formats taking
turns; the ratio to fp32 is that of the same round. Loss: short trainings over several seeds.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time
from dataclasses import dataclass
from typing import Any

import torch
from benchmarks.short_runs import add_arguments, losses, show
from torch import Tensor

from gnomon.model import Projection, Transformer, TransformerConfig
from gnomon.model.attention import AttentionConfig
from gnomon.model.feedforward import FeedForwardConfig
from gnomon.training import MemoryConfig, Objective, ObjectiveConfig, OptimizerConfig
from gnomon.training.allocator import keep_freed_memory
from gnomon.training.audience import Audience
from gnomon.training.compiled import compile_layers
from gnomon.training.distributed.parallel import direct_forward
from gnomon.training.optimizers import Optimizer
from gnomon.training.passes import Passes
from gnomon.training.precision import choose_precision

SIZES = {  # layers, width, heads, feed-forward size, vocabulary
    "base": (6, 512, 8, 2048, 32_000),
    "small": (3, 256, 4, 1024, 8_000),
    "tiny": (1, 64, 4, 128, 1_000),
}
FORMATS = ("fp32", "bf16", "bf16-master", "fp16")


@dataclass
class Ids:
    """A batch of random ids."""

    source: Tensor
    target: Tensor

    def repeated(self, times: int) -> Ids:
        """See `gnomon.training.task.Batch`."""
        return Ids(self.source.repeat(times, 1), self.target.repeat(times, 1))


class RandomTask:
    """As much of a task as a step asks for."""

    def __init__(self, model: Transformer) -> None:
        self.model = model

    def target(self, batch: Ids) -> Tensor:
        """[B, T+1]."""
        return batch.target

    def outputs(self, batch: Ids, inputs: Tensor, keep: Tensor) -> Projection:
        """What the logits [M, V] are the product of."""
        memory = self.model.encode(batch.source)
        hidden = self.model.decode(inputs, memory, self.model.keep(batch.source))
        return self.model.projection(hidden[keep])


def model_of(size: str) -> Transformer:
    """An encoder-decoder as in 2017."""
    layers, width, heads, inner, vocab = SIZES[size]
    torch.manual_seed(0)
    return Transformer(
        TransformerConfig(
            vocab_size=vocab,
            d_model=width,
            num_encoder_layers=layers,
            num_decoder_layers=layers,
            dropout=0.1,
            tie="all",
            attention=AttentionConfig(num_heads=heads),
            feedforward=FeedForwardConfig(size=inner),
        )
    )


def speed(given: argparse.Namespace) -> None:
    """Print a table."""
    device = torch.device(given.device)
    if device.type == "cpu":
        torch.set_num_threads(given.threads)
        keep_freed_memory()
    layers, width, _, _, vocab = SIZES[given.size]
    model = model_of(given.size).to(device).train()
    shape = given.tokens // given.length, given.length
    source = torch.randint(4, vocab, shape, device=device)
    target = torch.randint(4, vocab, (shape[0], shape[1] + 1), device=device)
    batch, objective = Ids(source, target), Objective(ObjectiveConfig(), pad_id=0)
    models = dict.fromkeys(given.formats, model)
    if given.compile:
        compiled = copy.deepcopy(model)
        compile_layers(compiled, MemoryConfig(), Audience([]))
        models |= {f"{name}, compiled": compiled for name in given.formats}
    optimizers = {each: Optimizer(each, OptimizerConfig()) for each in models.values()}
    seconds: dict[str, list[float]] = {name: [] for name in models}
    for round_ in range(given.rounds + 1):
        for name, each in models.items():
            task: Any = RandomTask(each)
            precision = choose_precision(name.split(",")[0], device)
            passes = Passes(task, direct_forward(task, objective), precision)
            optimizer = optimizers[each]
            started = _now(given)
            passes(batch, target[:, 1:].numel(), count_correct=False)
            optimizer.clip(optimizer.gradient_norm().item())
            optimizer.step(1e-5)
            if round_:
                seconds[name].append(_now(given) - started)
    print(f"{given.size}: {layers}+{layers} layers, {width} wide, {shape[0]} rows of {shape[1]}")
    print(f"| format | target tokens a second | times {given.formats[0]} | |")
    print("| --- | --- | --- | --- |")
    for name, found in seconds.items():
        ratios = [a / b for a, b in zip(seconds[given.formats[0]], found, strict=True)]
        rate = target[:, 1:].numel() / statistics.median(found)
        spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
        print(f"| {name} | {rate:,.0f} | {statistics.median(ratios):.2f} | {spread} |")


def _now(given: argparse.Namespace) -> float:
    if given.device == "cuda":
        torch.cuda.synchronize()
    return time.process_time() if given.clock == "cpu" else time.perf_counter()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parts = parser.add_subparsers(dest="part", required=True)
    part = parts.add_parser("speed")
    part.add_argument("--size", default="base", choices=list(SIZES))
    part.add_argument("--tokens", type=int, default=4096, help="target tokens of a batch")
    part.add_argument("--length", type=int, default=32)
    part.add_argument("--rounds", type=int, default=5)
    part.add_argument("--threads", type=int, default=1)
    part.add_argument("--clock", default="wall", choices=["wall", "cpu"])
    part.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    part.add_argument("--formats", nargs="+", default=["fp32", "bf16", "bf16-master"])
    part.add_argument("--compile", action="store_true", help="each with compiled layers, too")
    part = parts.add_parser("loss")
    part.add_argument("--formats", nargs="+", default=list(FORMATS))
    add_arguments(part, steps=500)
    given = parser.parse_args()
    if given.part == "speed":
        speed(given)
        return
    variants = {name: [f"training.precision={name}"] for name in given.formats}
    show(losses(variants, given), "format")


if __name__ == "__main__":
    main()

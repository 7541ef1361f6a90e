"""Sparse attention beside dense attention as texts grow: time and peak memory, forward + backward.

    python benchmarks/long_attention.py [--lengths 2048 4096 …] [--rounds 5] [--model | --prefill]

Each cell is a fresh process: a pass over a short text, then one whose peak of resident memory is
counted from just before it (`/proc/self/clear_refs`, Linux only), then one that is timed. All cells
take turns, round after round; the table has medians. Time is CPU time of one thread, which other
work on the machine hardly touches. Without `--model` it is attention alone (one text, 8 heads of
64, fp32, look-ahead):

- block-sparse, sliding window, dilated: as `attend` computes them for long texts, in blocks;
- dense: PyTorch's fused kernel with look-ahead alone, whose memory is linear, too;
- dense mask: the same kernel with block-sparse as a mask of T x S, which is what one has without
  blocks;
- plain: scores, softmax, sum, with the mask of T x S; only up to `--plain` tokens.

With `--model` it is a training step (loss, backward) of a small decoder (2 layers, 256 wide, 4
heads, a vocabulary of 256) with full attention and with each pattern. With `--prefill` the same
model takes a prompt into its cache, 512 tokens at a time. `--kinds` names some of the rows only.

The growth exponent is the slope of log(time) over log(length). From it follows, on paper, what 128k
and 1M tokens would take.
"""

import argparse
import json
import math
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

BLOCK, GLOBAL, WINDOW, DILATION = 64, 1, 128, 4
HEADS, HEAD_SIZE = 8, 64
PAPER = (131_072, 1_048_576)
KINDS = ("block-sparse", "sliding window", "dilated", "dense", "dense mask", "plain")
MODEL_KINDS = ("block-sparse", "sliding window", "dilated", "dense")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--lengths", type=int, nargs="+", default=[2048, 4096, 8192, 16384])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--plain", type=int, default=4096, help="longest text of `plain`")
    parser.add_argument("--model", action="store_true", help="a training step of a small decoder")
    parser.add_argument("--prefill", action="store_true", help="a prompt into its cache")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--json", type=Path, help="write every measurement here")
    parser.add_argument("--cell", nargs=2, metavar=("KIND", "LENGTH"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cell:
        print(json.dumps(measure(options.cell[0], int(options.cell[1]), options)))
        return
    whole_model = options.model or options.prefill
    cells = [
        (kind, length)
        for kind in (MODEL_KINDS if whole_model else KINDS)
        for length in options.lengths
        if kind in options.kinds and (kind != "plain" or length <= options.plain)
    ]
    found: dict[tuple[str, int], list[dict[str, float]]] = {cell: [] for cell in cells}
    for number in range(options.rounds):
        for kind, length in cells:
            command = [sys.executable, __file__, "--cell", kind, str(length)]
            command += ["--model"] if options.model else []
            command += ["--prefill"] if options.prefill else []
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            found[kind, length].append(json.loads(done.stdout))
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
    report(found, options.lengths)
    if options.json:
        rows = [{"kind": kind, "length": n, "measured": rows} for (kind, n), rows in found.items()]
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def report(found: dict[tuple[str, int], list[dict[str, float]]], lengths: list[int]) -> None:
    def median(kind: str, length: int, what: str) -> float:
        return statistics.median(row[what] for row in found[kind, length])

    head = [f"{length:,}" for length in lengths]
    paper = [f"{length // 1024}k on paper" for length in PAPER]
    print("| seconds | " + " | ".join(head) + " | growth | " + " | ".join(paper) + " |")
    print("|---" * (len(head) + len(paper) + 2) + "|")
    kinds = list(dict.fromkeys(kind for kind, _ in found))
    for kind in kinds:
        own = [length for length in lengths if (kind, length) in found]
        times = [median(kind, length, "seconds") for length in own]
        slope = growth(own, times)
        cells = [f"{seconds:.3f}" for seconds in times] + [""] * (len(lengths) - len(own))
        cells.append(f"{slope:.2f}")
        cells += [f"{times[-1] * (length / own[-1]) ** slope:,.0f}" for length in PAPER]
        print(f"| {kind} | " + " | ".join(cells) + " |")
    print("\n| peak MB | " + " | ".join(head) + " | growth |")
    print("|---" * (len(head) + 2) + "|")
    for kind in kinds:
        own = [length for length in lengths if (kind, length) in found]
        peaks = [median(kind, length, "megabytes") for length in own]
        cells = [f"{peak:,.0f}" for peak in peaks] + [""] * (len(lengths) - len(own))
        print(f"| {kind} | " + " | ".join(cells) + f" | {growth(own, peaks):.2f} |")


def growth(lengths: list[int], values: list[float]) -> float:
    """The exponent of the power of the length that fits best; of one point none."""
    if len(lengths) < 2:
        return math.nan
    x, y = [math.log(length) for length in lengths], [math.log(value) for value in values]
    return statistics.linear_regression(x, y).slope


def measure(kind: str, length: int, options: argparse.Namespace) -> dict[str, float]:
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    make = attention_step
    if options.model or options.prefill:
        make = model_step if options.model else prefill_step
    make(kind, 256)()  # what is loaded at first use is no memory of the attention
    step = make(kind, length)
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    step()
    peak = resident("VmHWM")
    start = time.process_time()
    step()
    seconds = time.process_time() - start
    return {"seconds": seconds, "megabytes": (peak - before) / 1024}


def attention_step(kind: str, length: int) -> Any:
    import torch

    from gnomon.model.attend import attend, use_backend
    from gnomon.model.masks import Mask
    from gnomon.model.patterns import BlockSparse, Pattern, SlidingWindow

    patterns: dict[str, list[Pattern]] = {
        "sliding window": [SlidingWindow(WINDOW, num_global=GLOBAL)],
        "dilated": [SlidingWindow(WINDOW, DILATION, GLOBAL)],
        "dense": [],
    }
    pattern = (*patterns.get(kind, [BlockSparse(BLOCK, GLOBAL)]), None)[0]
    backends = {"dense": "sdpa", "dense mask": "sdpa", "plain": "reference"}
    shape = (1, length, HEADS, HEAD_SIZE)
    leaves = [torch.randn(shape).transpose(1, 2).requires_grad_() for _ in range(3)]
    gradient = torch.randn_like(leaves[0])

    def step() -> None:
        mask = Mask(length, length, leaves[0].device, causal=True, pattern=pattern)
        with use_backend(backends.get(kind, "blocked")):  # type: ignore[arg-type]
            output = attend(*leaves, mask, scale=HEAD_SIZE**-0.5)
        torch.autograd.grad(output, leaves, gradient)

    return step


def model_step(kind: str, length: int) -> Any:
    import torch
    from torch.nn.functional import cross_entropy

    model = decoder(kind)
    ids = torch.randint(1, 256, (1, length + 1))

    def step() -> None:
        model.zero_grad()
        logits = model(ids[:, :-1])
        cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()).backward()

    return step


def prefill_step(kind: str, length: int) -> Any:
    import torch

    model = decoder(kind).eval()
    ids = torch.randint(1, 256, (1, length))

    @torch.no_grad()
    def step() -> None:
        for _ in model.decode_in_chunks(ids, cache=model.new_cache(), chunk_size=512):
            pass

    return step


def decoder(kind: str) -> Any:
    from gnomon.model import (
        AttentionConfig,
        FeedForwardConfig,
        NormConfig,
        PositionConfig,
        RopeConfig,
        Transformer,
        TransformerConfig,
    )

    attention = AttentionConfig(
        num_heads=4,
        pattern={"dense": "full"}.get(kind, kind.replace("-", "_").replace(" ", "_")),  # type: ignore[arg-type]
        window=WINDOW,
        dilation=DILATION,
        block_size=BLOCK,
        num_global_tokens=GLOBAL,
    )
    rope = RopeConfig(scaling="ntk", factor=8.0)
    return Transformer(
        TransformerConfig(
            family="decoder",
            vocab_size=256,
            d_model=256,
            num_decoder_layers=2,
            attention=attention,
            feedforward=FeedForwardConfig(size=1024),
            norm=NormConfig(placement="pre"),
            position=PositionConfig(kind="rope", rope=rope),
            dropout=0.0,
        )
    )


def resident(name: str) -> int:
    """A line of `/proc/self/status`, in kB."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1])
    raise KeyError(name)


if __name__ == "__main__":
    main()

"""What it costs to watch a model: observed against unobserved passes, taking turns.

Prints one JSON line per model and pass: medians in milliseconds and their ratio. `--device cuda`
measures on a GPU. Models: PyTorch's own encoder layers in training mode (no fast path), narrow and
wide, so that the share of a fixed cost per call shows.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable

import torch
from torch import nn

from gnomon.probe import observe

# name: layers, D, heads, batch, length
SIZES = {
    "narrow": (6, 64, 4, 8, 32),
    "base": (6, 512, 8, 8, 64),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=7, help="repetitions (default 7)")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    for name, (layers, width, heads, batch, length) in SIZES.items():
        torch.manual_seed(0)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.1, batch_first=True)
        module = nn.TransformerEncoder(layer, layers).to(options.device)
        x = torch.randn(batch, length, width, device=options.device)

        def forward(module: nn.Module = module, x: torch.Tensor = x) -> None:
            with torch.no_grad():
                module(x)

        def step(module: nn.Module = module, x: torch.Tensor = x) -> None:
            module(x).square().mean().backward()

        for kind, run in (("forward", forward), ("forward and backward", step)):
            plain, watched = measure(module, run, options.rounds)
            row = {"model": name, "pass": kind, "device": options.device}
            row |= {"plain_ms": round(1000 * plain, 1), "observed_ms": round(1000 * watched, 1)}
            print(json.dumps(row | {"ratio": round(watched / plain, 2)}), flush=True)


def measure(module: nn.Module, run: Callable[[], None], rounds: int) -> tuple[float, float]:
    """Median seconds without and with observation."""

    def observed() -> None:
        with observe(module):
            run()

    pairs = [(seconds(run), seconds(observed)) for _ in range(rounds + 1)][1:]
    plain, watched = zip(*pairs, strict=True)
    return statistics.median(plain), statistics.median(watched)


def seconds(run: Callable[[], None]) -> float:
    """Wall time, with all work on the device done."""
    started = time.perf_counter()
    run()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()

"""What sparse attention costs in loss: one small byte model per pattern on Python's own sources.

    python benchmarks/sparse_loss.py [--length 1024] [--steps 400] [--seeds 1]

The text is the standard library of the Python that runs this, present on every machine: every tenth
file by the hash of its name is held out. All models have the same sizes (2 layers, 128 wide, 4
heads, rotary positions), start from the same weights and see the same batches; only the pattern
differs. Printed: nats per byte on held-out text, over all positions and over the last quarter of
them, where a dense model sees most, and the difference to dense. CPU seconds of the training are
for orientation.
"""

import argparse
import statistics
import sysconfig
import time
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from gnomon.model import (
    AttentionConfig,
    FeedForwardConfig,
    NormConfig,
    PositionConfig,
    Transformer,
    TransformerConfig,
)

PATTERNS: dict[str, dict[str, Any]] = {
    "dense": {},
    "block_sparse, blocks of 64": {"pattern": "block_sparse", "block_size": 64},
    "sliding_window, 96": {"pattern": "sliding_window", "window": 96},
    "dilated, 48 × 1 and 48 × 4": {"pattern": "dilated", "window": 48, "dilation": 4},
    "sliding_window, 16": {"pattern": "sliding_window", "window": 16},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    train, held_out = sources()
    print(f"{len(train):,} bytes of training text, {len(held_out):,} held out", flush=True)
    print("| pattern | nats a byte | to dense | last quarter | to dense | CPU s |")
    print("|---|---|---|---|---|---|")
    dense: tuple[float, float] | None = None
    for name, changes in PATTERNS.items():
        rows = [run(changes, train, held_out, options, seed) for seed in range(options.seeds)]
        whole, last, seconds = (statistics.mean(column) for column in zip(*rows, strict=True))
        dense = dense or (whole, last)
        print(
            f"| {name} | {whole:.4f} | {whole - dense[0]:+.4f} | {last:.4f} "
            f"| {last - dense[1]:+.4f} | {seconds:.0f} |",
            flush=True,
        )


def sources() -> tuple[torch.Tensor, torch.Tensor]:
    """Bytes of the standard library without its tests: to train on, and held out."""
    root = Path(sysconfig.get_paths()["stdlib"])
    parts: tuple[list[bytes], list[bytes]] = ([], [])
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root).as_posix()
        if not {"test", "tests", "site-packages", "idlelib"} & set(name.split("/")):
            parts[sha256(name.encode()).digest()[0] % 10 == 0].append(path.read_bytes())
    train, held_out = (torch.frombuffer(bytearray(b"\0".join(p)), dtype=torch.uint8) for p in parts)
    return train, held_out


def run(
    changes: dict[str, Any], train: torch.Tensor, held_out: torch.Tensor, options: Any, seed: int
) -> tuple[float, float, float]:
    torch.manual_seed(seed)
    model = Transformer(
        TransformerConfig(
            family="decoder",
            vocab_size=256,
            pad_id=None,
            d_model=128,
            num_decoder_layers=2,
            attention=AttentionConfig(num_heads=4, **changes),
            feedforward=FeedForwardConfig(size=512, activation="gelu"),
            norm=NormConfig(placement="pre"),
            position=PositionConfig(kind="rope"),
            dropout=0.0,
        )
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, betas=(0.9, 0.95), weight_decay=0.0)
    draws = torch.Generator().manual_seed(seed)
    start = time.process_time()
    for step in range(options.steps):
        progress = step / options.steps
        for group in optimizer.param_groups:
            group["lr"] = 2e-3 * min((step + 1) / 50, 1.0) * (1.0 - 0.9 * progress)
        losses = loss_of(model, batch(train, options, draws))
        optimizer.zero_grad()
        losses.mean().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    seconds = time.process_time() - start
    model.eval()
    draws = torch.Generator().manual_seed(12345)  # the same held-out texts for all
    with torch.no_grad():
        losses = torch.cat([loss_of(model, batch(held_out, options, draws)) for _ in range(24)])
    return losses.mean().item(), losses[:, -options.length // 4 :].mean().item(), seconds


def batch(text: torch.Tensor, options: Any, draws: torch.Generator) -> torch.Tensor:
    """`[B, length + 1]` bytes from anywhere in `text`."""
    starts = torch.randint(len(text) - options.length - 1, (options.batch,), generator=draws)
    return text[starts[:, None] + torch.arange(options.length + 1)].long()


def loss_of(model: Transformer, ids: torch.Tensor) -> torch.Tensor:
    """Nats of each byte, `[B, length]`."""
    logits = model(ids[:, :-1])
    return cross_entropy(logits.transpose(1, 2), ids[:, 1:], reduction="none")


if __name__ == "__main__":
    main()

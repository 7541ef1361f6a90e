"""Two gloo ranks against one process with twice the micro-batches, and 2 → 1 → 2.

    python -m benchmarks.distributed [--steps 200] [--width 32] [--clip-norm 1]

A small translator without dropout in fp32. For each strategy: the largest relative difference of
the loss over all steps, of the first half and of the second. For comparison one process whose
gradients are clipped at a norm that is 1e-7 smaller: how far a last bit carries. Then the
checkpoint of two ranks is read and written again by one process, and that by two ranks: whether
weights and optimizer state are the same bits. JSON lines.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import torch
from benchmarks.ranks import finish, started, train, write_task
from safetensors.torch import load_file
from torch import Tensor, nn

from gnomon.api.claim import cache_beside, read_run_recipe
from gnomon.api.jobs import job_of
from gnomon.training import RunFolder, Trainer, joined, read_metrics
from gnomon.training.distributed.shards import read_shards

FSDP = "distributed.strategy=fsdp"
SHARDS = "distributed.sharded_checkpoints=true"
WAYS = {"ddp": [], "fsdp": [FSDP], "fsdp, sharded checkpoints": [FSDP, SHARDS]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--clip-norm", type=float, default=1.0, help="0 turns clipping off")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_task(folder, width=options.width)
        plain = [f"training.max_steps={options.steps}", "model.dropout=0"]
        given = [*plain, f"optimizer.clip_norm={options.clip_norm}"]
        seconds = {"one": timed(folder, 1, "one", [*given, "training.accumulate=2"])}
        nearly = f"optimizer.clip_norm={options.clip_norm * (1 - 1e-7)!r}"
        timed(folder, 1, "nearly", [*plain, nearly, "training.accumulate=2"])
        found = compare(losses(folder / "one"), losses(folder / "nearly"))
        print(json.dumps({"way": "one process, clipped 1e-7 earlier", **found}), flush=True)
        for number, (way, overrides) in enumerate(WAYS.items()):
            run = f"two-{number}"
            seconds[way] = timed(folder, 2, run, [*given, *overrides])
            found = compare(losses(folder / "one"), losses(folder / run))
            found |= {"same bits by 2, 1, 2 ranks": survives(folder, run)}
            print(json.dumps({"way": way, **found, "seconds": round(seconds[way], 1)}), flush=True)
        print(json.dumps({"way": "one process", "seconds": round(seconds["one"], 1)}))


def timed(folder: Path, size: int, run: str, overrides: list[str]) -> float:
    """Seconds of a training."""
    began = time.perf_counter()
    finish(started(folder, size, lambda: train(folder, run, *overrides)))
    return time.perf_counter() - began


def losses(run: Path) -> list[float]:
    """Of every step."""
    return [line["loss"] for line in read_metrics(run / "metrics.jsonl") if line["kind"] == "train"]


def compare(one: list[float], two: list[float]) -> dict[str, object]:
    """Largest relative differences."""
    apart = [abs(b - a) / a for a, b in zip(one, two, strict=True)]
    half = len(apart) // 2
    return {
        "steps": len(apart),
        "loss": [round(one[0], 4), round(one[-1], 4)],
        "largest difference, first half": float(f"{max(apart[:half]):.2g}"),
        "second half": float(f"{max(apart[half:]):.2g}"),
    }


def survives(folder: Path, run: str) -> bool:
    """Whether one process, then two ranks, write what they read."""
    before = whole(folder / run)
    for size in (1, 2):
        finish(started(folder, size, lambda: write_again(folder / run)))
        after = whole(folder / run)
        if after.keys() != before.keys():
            return False
        if not all(torch.equal(after[name], tensor) for name, tensor in before.items()):
            return False
    return True


def whole(run: Path) -> dict[str, Tensor]:
    """Weights and optimizer state of the last checkpoint; a rank's generators belong to it."""
    folder = RunFolder(run)
    checkpoint = folder.checkpoints.load(folder.checkpoints.steps()[-1])
    tensors = {**checkpoint.tensors, **load_file(checkpoint.path / "model.safetensors")}
    if checkpoint.shards is not None:
        tensors |= read_shards(checkpoint.shards, nn.Module())
    return {name: tensor for name, tensor in tensors.items() if not name.startswith("generator")}


def write_again(run: Path) -> None:
    """Restore a training as this rank and save it."""
    recipe, folder = read_run_recipe(RunFolder(run)), RunFolder(run)
    job = job_of(recipe, lambda text: None)
    job.prepare(cache_beside(run), folder.checkpoints.newest(), None)
    with joined(recipe.distributed, torch.device("cpu"), run) as world:
        keeper = Trainer(
            job.task,
            folder,
            training=recipe.training,
            objective=recipe.objective,
            optimizer=recipe.optimizer,
            schedule=lambda step: 0.0,
            distributed=recipe.distributed,
            world=world,
        ).keeper
        checkpoint, _ = keeper.restore()
        assert checkpoint is not None
        keeper.save(checkpoint.state)
        keeper.settle(wait=True)


if __name__ == "__main__":
    main()

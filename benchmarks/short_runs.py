"""Short trainings of one recipe that differ in a few keys, over several seeds, beside one another.

What `int8_loss.py`, `precision.py` and `optimizers.py` have in common. What is finished in --out is
not trained again.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

import gnomon
from gnomon.quickstart import make_corpus
from gnomon.training import Listener, RunFolder, read_metrics

Results = dict[str, list[dict[str, Any]]]  # by variant, one a seed


def add_arguments(parser: argparse.ArgumentParser, *, steps: int) -> None:
    """The command line of such trainings."""
    parser.add_argument("--recipe", default="small", help="preset or file")
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--train", nargs=2, type=Path, metavar=("SRC", "TGT"))
    parser.add_argument("--valid", nargs=2, type=Path, metavar=("SRC", "TGT"))
    parser.add_argument("--pairs", type=int, default=20_000, help="made, where no text is given")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="for all of them")
    parser.add_argument("--out", type=Path, default=Path("runs/short"))


def losses(variants: Mapping[str, Sequence[str]], given: argparse.Namespace) -> Results:
    """Train each variant once a seed, taking turns.

    Args:
        variants: what each changes in the recipe, as `--set` does.
    """
    torch.set_num_threads(1)
    texts = given.train, given.valid
    if given.train is None:
        texts = _phrases(given.out / "text", given.pairs)
    results: Results = {name: [] for name in variants}
    for seed in given.seeds:
        for name, overrides in variants.items():
            results[name].append(_trained(f"{name} {seed}", seed, overrides, texts, given))
            print(f"# {name}, seed {seed}: {results[name][-1]}", flush=True)
    return results


def show(results: Results, what: str) -> None:
    """A table; changes and times are beside the first variant of the same seed."""
    base = next(iter(results.values()))
    print(f"| {what} | validation loss | change | CPU time a step | state, MB |")
    print("| --- | --- | --- | --- | --- |")
    for name, found in results.items():
        nll = [each["nll"] for each in found]
        changes = [a["nll"] / b["nll"] - 1 for a, b in zip(found, base, strict=True)]
        times = [a["seconds"] / b["seconds"] for a, b in zip(found, base, strict=True)]
        print(
            f"| {name} | {statistics.mean(nll):.4f} ({min(nll):.4f} to {max(nll):.4f}) "
            f"| {statistics.mean(changes):+.2%} ({min(changes):+.2%} to {max(changes):+.2%}) "
            f"| {statistics.median(times):.2f} | {found[0]['state'] / 1e6:.1f} |"
        )


class _Clock(Listener):
    """CPU seconds of each step."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._before: float | None = None

    def on_step(self, record: Any) -> None:
        now = time.process_time()
        if self._before is not None:
            self.seconds.append(now - self._before)
        self._before = now


def _trained(
    name: str,
    seed: int,
    overrides: Sequence[str],
    texts: tuple[Sequence[Path], Sequence[Path]],
    given: argparse.Namespace,
) -> dict[str, Any]:
    folder = given.out / name.replace(" ", "-").replace("=", "-")
    kept = folder.with_name(f"{folder.name}.json")
    if kept.is_file():
        found: dict[str, Any] = json.loads(kept.read_text("utf-8"))
        return found
    clock = _Clock()
    gnomon.train(
        given.recipe,
        source=texts[0][0],
        target=texts[0][1],
        valid_source=texts[1][0],
        valid_target=texts[1][1],
        run=folder,
        overrides=[
            f"training.seed={seed}",
            f"training.max_steps={given.steps}",
            f"training.validate_every={given.steps}",
            f"training.checkpoint_every={given.steps}",
            "training.threads=1",
            "evaluation.validation_lines=0",
            *given.set,
            *overrides,
        ],
        listeners=[clock],
        check=False,
    )
    run = RunFolder(folder)
    lines = read_metrics(run.metrics_path)
    nll = [line["metrics"]["nll"] for line in lines if line.get("kind") == "validation"][-1]
    result = {
        "nll": nll,
        "seconds": statistics.median(clock.seconds),
        "state": _state_bytes(run.last() / "training.safetensors"),
    }
    kept.write_text(json.dumps(result), "utf-8")
    return result


def _state_bytes(path: Path) -> int:
    """What the optimizer remembers; not the weights that some put there, too."""
    with safe_open(path, "pt") as file:
        tensors = [file.get_tensor(n) for n in _names(file.keys())]
    return sum(tensor.nbytes for tensor in tensors)


def _names(keys: Iterable[str]) -> list[str]:
    return [key for key in keys if "/" in key and not key.startswith("weights/")]


def _phrases(folder: Path, pairs: int) -> tuple[Sequence[Path], Sequence[Path]]:
    """The quickstart's phrases, German from English; nothing is downloaded."""
    corpus = make_corpus("de", num_train=pairs, num_test=1000)
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for name, part in (("train", corpus.train), ("valid", corpus.test)):
        files = [folder / f"{name}.en", folder / f"{name}.de"]
        files[0].write_text("".join(f"{pair.source}\n" for pair in part), "utf-8")
        files[1].write_text("".join(f"{pair.target}\n" for pair in part), "utf-8")
        found.append(files)
    return found[0], found[1]

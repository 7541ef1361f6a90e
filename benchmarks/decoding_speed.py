"""Decoding speed of gnomon and JoeyNMT: beam search over batches, and greedy one by one.

Both decode the same batches with models of the same sizes and random weights, and both are made
to take the same number of steps (no end before it, cut there), so that what is compared is the
work of a step and not what a model wants to say. Each measurement is a fresh process; the first
batches are not timed; the two take turns. See README.md beside this file.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch

from peers.environment import ensure_environment
from peers.joeynmt import REQUIREMENTS

HERE = Path(__file__).resolve().parent
SIZES = {
    "3x256": {"num_layers": 3, "d_model": 256, "feedforward": 1024, "num_heads": 4},
    "4x128": {"num_layers": 4, "d_model": 128, "feedforward": 256, "num_heads": 4},
}
WARM_UP = 2  # batches of each kind that are not timed


def main() -> int:
    options = parse_arguments()
    environment = ensure_environment(options.work / "environments" / "joeynmt", REQUIREMENTS)
    # -P: or the workers would import `peers/gnomon.py` and `peers/joeynmt.py` for the toolkits.
    workers = {
        "gnomon": [sys.executable, "-P", str(HERE / "peers" / "decode_gnomon.py")],
        "JoeyNMT 2.3": [
            str(environment / "python"),
            "-P",
            str(HERE / "peers" / "decode_joeynmt.py"),
        ],
    }
    result = {
        "date": time.strftime("%Y-%m-%d"),
        "torch": torch.__version__,
        "threads": options.threads,
        "rounds": options.rounds,
        "models": {name: compare(name, workers, options) for name in options.sizes},
    }
    print(table(result))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="turns of each (default 5)")
    parser.add_argument("--batches", type=int, default=6, help="timed batches (default 6)")
    parser.add_argument("--batch", type=int, default=32, help="sentences of a batch (default 32)")
    parser.add_argument("--beam", type=int, default=4, help="beam size (default 4)")
    parser.add_argument("--single", type=int, default=12, help="timed greedy sentences (12)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="default: all cores")
    parser.add_argument("--sizes", nargs="+", choices=list(SIZES), default=list(SIZES))
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to FILE")
    parser.add_argument("--work", type=Path, default=HERE.parent / ".bench")
    options = parser.parse_args()
    options.work = options.work.resolve()
    return options


def jobs(options: argparse.Namespace, rng: random.Random) -> list[dict]:
    """Batches with lengths like Multi30k's, then single sentences; the first of each warm up."""
    kinds = [(options.beam, options.batch, options.batches), (1, 1, options.single)]
    found = []
    for beam, size, count in kinds:
        for _ in range(WARM_UP + count):
            lengths = [max(5, round(rng.gauss(15, 4))) for _ in range(size)]
            # Special symbols come first; the last token is the end of the sentence.
            source = [[rng.randrange(10, 8000) for _ in range(n - 1)] + [3] for n in lengths]
            found.append({"beam": beam, "source": source, "steps": max(lengths) + 2})
    return found


def compare(name: str, workers: dict[str, list[str]], options: argparse.Namespace) -> dict:
    """Rounds in turn; a round's figures are tokens per second and the median latency."""
    sizes = SIZES[name] | {"vocab_size": 8000}
    work = {"num_threads": options.threads, "sizes": sizes, "jobs": jobs(options, random.Random(1))}
    folder = options.work / "decoding"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "work.json").write_text(json.dumps(work), encoding="utf-8")
    figures: dict[str, dict[str, list[float]]] = {
        worker: {"tokens_per_second": [], "greedy_ms": []} for worker in workers
    }
    for number in range(1, options.rounds + 1):
        for worker, command in workers.items():
            seconds = run(command, folder, options.threads)
            beam, greedy = split(list(zip(work["jobs"], seconds, strict=True)), options)
            tokens = sum(job["steps"] * len(job["source"]) for job, _ in beam)
            rate = tokens / sum(taken for _, taken in beam)
            latency = 1000 * statistics.median(taken for _, taken in greedy)
            figures[worker]["tokens_per_second"].append(rate)
            figures[worker]["greedy_ms"].append(latency)
            print(
                f"{name} round {number}/{options.rounds}  {worker:<12}{rate:>8,.0f} tokens/s, "
                f"greedy {latency:.1f} ms a sentence",
                file=sys.stderr,
            )
    return figures


def run(command: list[str], folder: Path, threads: int) -> list[float]:
    """Seconds of every job, measured in a fresh process."""
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    arguments = [*command, str(folder / "work.json"), str(folder / "result.json")]
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"error: {' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return json.loads((folder / "result.json").read_text(encoding="utf-8"))


def split(timed: list, options: argparse.Namespace) -> tuple[list, list]:
    """Timed beam batches and timed greedy sentences."""
    beam, greedy = timed[: WARM_UP + options.batches], timed[WARM_UP + options.batches :]
    return beam[WARM_UP:], greedy[WARM_UP:]


def table(result: dict) -> str:
    """Medians for a person, as Markdown, with the median of the rounds' own ratios."""
    lines = [
        "| model | | tokens/s | spread | greedy, ms a sentence (p50) |",
        "|---|---|---|---|---|",
    ]
    for name, figures in result["models"].items():
        for worker, values in figures.items():
            rates, latencies = values["tokens_per_second"], values["greedy_ms"]
            lines.append(
                f"| {name} | {worker} | {statistics.median(rates):,.0f} "
                f"| {min(rates):,.0f} to {max(rates):,.0f} | {statistics.median(latencies):.1f} |"
            )
        ours, peer = figures.values()
        ratios = [
            statistics.median(
                a / b if better == "more" else b / a
                for a, b in zip(ours[key], peer[key], strict=True)
            )
            for key, better in (("tokens_per_second", "more"), ("greedy_ms", "less"))
        ]
        lines.append(f"| {name} | ratio | {ratios[0]:.2f} | | {ratios[1]:.2f} |")
    lines.append(
        f"\nMedians of {result['rounds']} rounds in turn, {result['threads']} threads, "
        f"torch {result['torch']}; {result['date']}."
    )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())

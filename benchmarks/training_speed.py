"""Target tokens a second in training: gnomon, JoeyNMT, eole and Hugging Face on the same text.

Each measurement is a fresh process running the toolkit's own training command; the first updates
are not timed. The toolkits take turns, so that a busy moment of the machine hits all of them. So
does a large matrix product, the ceiling that nobody can pass.
See README.md beside this file for what is equal, what is not, and how tokens are counted.
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Protocol

import torch

from gnomon.text import Tokenizer, TokenizerConfig
from peers.ceiling import matmul_rates
from peers.corpus import (
    MADE_UP,
    Corpus,
    CorpusError,
    read_pairs,
    synthetic_pairs,
    write_lines,
    write_subwords,
    write_vocabulary,
)
from peers.environment import InstallationError
from peers.eole import Eole
from peers.gnomon import Gnomon
from peers.huggingface import HuggingFace
from peers.joeynmt import JoeyNMT
from peers.setting import REPORT_EVERY, SIZES, Setting
from peers.window import Line, Report, TrainingError, Window, run_and_watch, timed_window


class Toolkit(Protocol):
    """What the comparison asks of each toolkit."""

    name: str

    def install(self, environments: Path) -> None:
        """Make sure its command can be run."""

    def prepare(self, corpus: Corpus, setting: Setting, folder: Path) -> list[str]:
        """Write its configuration into `folder`; the command that trains."""

    def reports(self, lines: list[Line], folder: Path) -> list[Report]:
        """The progress that a finished training reported."""


def main() -> int:
    options = parse_arguments()
    try:
        result = compare(options)
    except (CorpusError, InstallationError, TrainingError) as failure:
        print(f"error: {failure}", file=sys.stderr)
        return 2
    print(table(result))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


def compare(options: argparse.Namespace) -> dict:
    """Install, measure in turns, sum up."""
    setting = Setting(
        **SIZES[options.size],
        warmup_updates=options.warmup_updates,
        timed_updates=options.timed_updates,
        num_threads=options.threads,
    )
    precisions = ["fp32", "bf16"] if bf16_is_faster() else ["fp32"]
    toolkits = chosen_toolkits(precisions, options.only)
    pairs = read_pairs(options.data) if options.data else synthetic_pairs(MADE_UP[options.size])
    corpus, setting = write_corpus(pairs, options.work / f"corpus-{options.size}", setting)
    for toolkit in toolkits:
        toolkit.install(options.work / "environments")
    windows: dict[str, list[Window]] = {toolkit.name: [] for toolkit in toolkits}
    ceilings: dict[str, list[float]] = {precision: [] for precision in precisions}
    for number in range(1, options.rounds + 1):
        for precision, rate in matmul_rates(precisions, options.threads, options.clock).items():
            ceilings[precision].append(rate)
        for toolkit in toolkits:
            folder = options.work / "runs" / toolkit.name.replace(" ", "-")
            window = measure(toolkit, corpus, setting, folder, options.clock)
            windows[toolkit.name].append(window)
            print(
                f"round {number}/{options.rounds}  {toolkit.name:<22}"
                f"{window.tokens_per_second:>8,.0f} target tokens/s",
                file=sys.stderr,
            )
    return summary(windows, ceilings, corpus, setting, options)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "--data",
        type=Path,
        help="folder with train.en[.gz] and train.de[.gz], for example Multi30k's raw files "
        "(default: made-up text, for size small with Multi30k's lengths, for base with news')",
    )
    parser.add_argument(
        "--size",
        choices=SIZES,
        default="small",
        help="small: 3+3 layers, 256 wide, 8,000 subwords; base: the 2017 paper's, 32,000",
    )
    parser.add_argument("--rounds", type=int, default=5, help="turns of every toolkit (default 5)")
    parser.add_argument("--warmup-updates", type=int, default=10, help="not timed (default 10)")
    parser.add_argument("--timed-updates", type=int, default=40, help="per turn (default 40)")
    parser.add_argument(
        "--threads", type=int, default=os.cpu_count(), help="CPU threads (default: all cores)"
    )
    parser.add_argument(
        "--only",
        nargs="+",
        metavar="NAME",
        help="leave the other toolkits out: gnomon joey eole hugging",
    )
    parser.add_argument(
        "--clock",
        choices=("wall", "cpu"),
        default="wall",
        help="cpu: processor time, for a busy Linux machine with --threads 1",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to FILE")
    parser.add_argument(
        "--work",
        type=Path,
        default=Path(__file__).resolve().parent.parent / ".bench",
        help="folder for environments, text and logs (default: .bench beside benchmarks/)",
    )
    options = parser.parse_args()
    for name in ("warmup_updates", "timed_updates"):
        if getattr(options, name) < 1 or getattr(options, name) % REPORT_EVERY:
            parser.error(f"--{name.replace('_', '-')} must be a multiple of {REPORT_EVERY}")
    if options.clock == "cpu" and (options.threads != 1 or not sys.platform.startswith("linux")):
        parser.error("--clock cpu wants --threads 1 and Linux")
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    options.work = options.work.resolve()
    return options


def chosen_toolkits(precisions: list[str], only: list[str] | None) -> list[Toolkit]:
    """Everybody in every precision that it has on CPUs."""
    toolkits: list[Toolkit] = [JoeyNMT()]
    for precision in precisions:
        toolkits += [Gnomon(precision), Eole(precision), HuggingFace(precision)]
    if only is None:
        return toolkits
    chosen = [
        toolkit
        for toolkit in toolkits
        if any(toolkit.name.lower().startswith(name.lower()) for name in only)
    ]
    if not chosen:
        names = ", ".join(toolkit.name for toolkit in toolkits)
        raise SystemExit(f"error: --only matches none of: {names}")
    return chosen


def bf16_is_faster() -> bool:
    """Whether a matmul is: a CPU that emulates bf16 would need hours for a training in it."""
    seconds = {}
    for dtype in (torch.float32, torch.bfloat16):
        matrix = torch.ones(256, 256, dtype=dtype)
        matrix @ matrix  # the first one prepares
        started = time.perf_counter()
        for _ in range(10):
            matrix @ matrix
        seconds[dtype] = time.perf_counter() - started
    return seconds[torch.bfloat16] < seconds[torch.float32]


def write_corpus(
    pairs: tuple[list[str], list[str]], folder: Path, setting: Setting
) -> tuple[Corpus, Setting]:
    """Write the text and its subwords; the setting with the vocabulary's real size."""
    sources, targets = pairs
    tokenizer = Tokenizer.train(
        sources + targets, TokenizerConfig(kind="bpe", vocab_size=setting.vocab_size)
    )
    write_lines(folder / "text.source", sources)
    write_lines(folder / "text.target", targets)
    source_ids, target_ids = tokenizer.encode(sources), tokenizer.encode(targets)
    write_subwords(folder, source_ids, target_ids)
    write_vocabulary(folder / "vocabulary.txt", tokenizer.vocab_size)
    setting = Setting(**(asdict(setting) | {"vocab_size": tokenizer.vocab_size}))
    num_tokens = [sum(map(len, ids)) + len(ids) for ids in (source_ids, target_ids)]
    return Corpus(folder, len(sources), *num_tokens), setting


def measure(toolkit: Toolkit, corpus: Corpus, setting: Setting, folder: Path, clock: str) -> Window:
    """One training in a fresh process; its configuration and log stay in `folder`."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    command = toolkit.prepare(corpus, setting, folder)
    try:
        lines = run_and_watch(command, folder, setting.num_threads, clock)
        reports = toolkit.reports(lines, folder)
        return timed_window(reports, setting.warmup_updates, setting.num_updates)
    except TrainingError as failure:
        raise TrainingError(f"{toolkit.name} ({folder / 'log.txt'}): {failure}") from None


def summary(
    windows: dict[str, list[Window]],
    ceilings: dict[str, list[float]],
    corpus: Corpus,
    setting: Setting,
    options: argparse.Namespace,
) -> dict:
    """Medians over the rounds, with everything needed to judge them."""
    flops = setting.flops_per_target_token(corpus.source_tokens / corpus.target_tokens)
    ceiling = {precision: statistics.median(rates) for precision, rates in ceilings.items()}
    result = {
        "date": time.strftime("%Y-%m-%d"),
        "machine": {"processor": _processor(), "threads": setting.num_threads},
        "clock": options.clock,
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
        "size": options.size,
        "text": str(options.data) if options.data else "synthetic",
        "setting": asdict(setting),
        "flops_per_target_token": flops,
        "ceiling_flops": ceiling,
        "toolkits": {},
    }
    for name, runs in windows.items():
        speed = statistics.median(w.tokens_per_second for w in runs)
        result["toolkits"][name] = {
            "tokens_per_second": speed,
            "all_rounds": [round(w.tokens_per_second, 1) for w in runs],
            "target_tokens_per_update": statistics.median(w.tokens_per_update for w in runs),
            "share_of_ceiling": speed * flops / ceiling[name.rpartition(" ")[2]],
        }
    return result


def _processor() -> str:
    """The CPU's name where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def table(result: dict) -> str:
    """Figures for a person, as Markdown; ratios against the fastest peer in any precision."""
    speeds = {name: row["tokens_per_second"] for name, row in result["toolkits"].items()}
    peers = {name: speed for name, speed in speeds.items() if not name.startswith("gnomon")}
    fastest = max(peers or speeds, key=speeds.__getitem__)
    lines = [
        f"| | target tokens/s | spread | target tokens per update | share of the ceiling "
        f"| ratio to {fastest} |",
        "|---|---|---|---|---|---|",
    ]
    for name, row in result["toolkits"].items():
        rounds = row["all_rounds"]
        lines.append(
            f"| {name} | {speeds[name]:,.0f} | {min(rounds):,.0f} to {max(rounds):,.0f} "
            f"| {row['target_tokens_per_update']:,.0f} | {row['share_of_ceiling']:.0%} "
            f"| {speeds[name] / speeds[fastest]:.2f} |"
        )
    machine, versions = result["machine"], result["versions"]
    ceilings = ", ".join(f"{p} {r / 1e12:.2f}" for p, r in result["ceiling_flops"].items())
    lines.append(
        f"\nSize {result['size']}, {result['flops_per_target_token'] / 1e6:.0f} MFLOP for a target "
        f"token; ceiling in TFLOP/s: {ceilings}. Median of {len(rounds)} rounds, "
        f"{result['clock']} time; {machine['processor']}, {machine['threads']} threads, "
        f"torch {versions['torch']}; text: {result['text']}; {result['date']}."
    )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())

"""What makes a model slow, as far as one look shows: questions that no check answers."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from gnomon.doctor.finding import Skip
from gnomon.doctor.walks.walk import Measured, Station

if TYPE_CHECKING:
    from gnomon.doctor.case import Case


def padding_share(case: Case) -> Measured:
    """How much of the batch is padding."""
    if case.patient.batch is None:
        raise Skip("no batch of its own was handed over: its padding is not known")
    real = total = 0
    for stream in case.call.streams:
        keep = case.call.keep(stream)
        real, total = real + int(keep.sum()), total + keep.numel()
    share = 1 - real / max(1, total)
    evidence = f"{share:.0%} of {total:,} positions are padding"
    if share < 0.3:
        return Measured("fine", evidence)
    return Measured(
        "suspicious",
        evidence,
        f"{share:.0%} of the work is done on padding.",
        "Put texts of like length into one batch, and bound batches by tokens, not by rows.",
    )


def attention_path(case: Case) -> Measured:
    """Whether attention runs in a fused kernel."""
    calls = case.record.attention
    paths = Counter(
        "written by hand" if c.path == "softmax" else (c.kernel or c.path) for c in calls
    )
    evidence = ", ".join(f"{count} x {path}" for path, count in paths.items())
    slow = sum(
        count for path, count in paths.items() if path == "written by hand" or "math" in path
    )
    if not slow:
        return Measured("fine", evidence)
    return Measured(
        "suspicious",
        evidence,
        f"{slow} of {len(calls)} attention calls build the whole matrix of weights.",
        "Use torch.nn.functional.scaled_dot_product_attention (in transformers "
        'attn_implementation="sdpa"); weights that are returned, and a learned bias, keep it from '
        "fused kernels, and on CPUs dropout does.",
    )


def number_format(case: Case) -> Measured:
    """Whether products run in a fast format."""
    device = next((p.device.type for p in case.module.parameters()), "cpu")
    name = str(case.dtype).removeprefix("torch.")
    wanted = case.patient.precision
    evidence = f"weights in {name} on {device}" + (f", computed in {wanted}" if wanted else "")
    if device != "cuda" or case.dtype != torch.float32 or wanted in ("bf16", "fp16"):
        return Measured("fine", evidence)
    return Measured(
        "suspicious",
        evidence,
        "Products run in fp32, which leaves the GPU's tensor cores unused.",
        "Train and serve in bf16 by autocast; keep the weights in fp32.",
    )


def threads(case: Case) -> Measured:
    """Whether as many threads run as there are cores."""
    if any(p.device.type != "cpu" for p in case.module.parameters()):
        raise Skip("the model is not on the CPU")
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    cores, used = allowed or 1, torch.get_num_threads()
    evidence = f"{used} threads on {cores} cores"
    if cores // 2 <= used <= cores:
        return Measured("fine", evidence)
    more = "more threads than cores wait for one another" if used > cores else "cores stand idle"
    return Measured(
        "suspicious",
        evidence,
        f"{more.capitalize()}.",
        "Set OMP_NUM_THREADS (or training.threads) to the number of cores, divided by the number "
        "of processes.",
    )


def batch_size(case: Case) -> Measured:
    """Whether a batch is large enough to be worth a step."""
    if case.patient.batch is None:
        raise Skip("no batch of its own was handed over: its size is not known")
    if case.patient.recipe is not None:
        tokens = int(case.patient.recipe.training.tokens_per_batch)
    else:
        tokens = int(case.call.keep(case.call.read).numel())
    evidence = f"{tokens:,} positions a batch"
    if tokens >= 1024:
        return Measured("fine", evidence)
    return Measured(
        "suspicious",
        evidence,
        "Batches are small: the cost of a call, and of the optimizer's step, is shared by few "
        "tokens.",
        "Take more rows a batch (4,096 tokens and more), as far as memory and learning allow.",
    )


def data_wait(case: Case) -> Measured:
    """How long training waited for batches, by its log."""
    lines = _log(case.patient.folder)
    shares = [line["data_share"] for line in lines if "data_share" in line][-20:]
    if not shares:
        raise Skip("there is no log of a gnomon run that says how long batches were waited for")
    share = sum(shares) / len(shares)
    evidence = f"{share:.0%} of the time went by waiting for batches"
    if share < 0.1:
        return Measured("fine", evidence)
    return Measured(
        "suspicious",
        evidence,
        "Batches come too slowly: the disk, or other work on the same cores.",
        "Put the prepared store on a fast disk; leave a core to the reading of batches.",
    )


def _log(folder: Path | None) -> list[dict[str, Any]]:
    if folder is None:
        return []
    for run in (folder, folder.resolve().parent.parent):
        path = run / "metrics.jsonl"
        if path.is_file():
            found = []
            for line in path.read_text("utf-8").splitlines():
                try:
                    found.append(json.loads(line))
                except ValueError:
                    continue
            return found
    return []


SLOW = (
    Station(
        "How much of a batch is padding?",
        measure=padding_share,
        if_wrong="sort by length before anything else",
        if_fine="hardly any: which way does attention go?",
    ),
    Station(
        "Does attention run in a fused kernel?",
        measure=attention_path,
        if_wrong="this costs time and memory that grow with the square of the length",
        if_fine="it does: which numbers are multiplied?",
    ),
    Station("Are products in a fast format?", measure=number_format, if_wrong="a factor of 2 to 8"),
    Station("Is the batch large enough?", measure=batch_size, if_wrong="make it larger"),
    Station("Are all cores at work?", measure=threads, if_wrong="set the number of threads"),
    Station("Does training wait for its data?", measure=data_wait, if_wrong="look at the disk"),
)

"""One step of a recipe's largest batches in a process of its own, which may run out of memory.

Reads a JSON object on standard input (`recipe`, a TOML file; `cache`; `start_from`; `limit`, in
bytes) and writes one on standard output: `rows` and lengths of the largest batch, `activations`
that are foreseen of it, and the `peak` of memory. It ends otherwise where memory does not do.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import torch

from gnomon.api.forecast import put_together
from gnomon.recipes import load_recipe
from gnomon.training import choose_device
from gnomon.training.footprint import largest_batches
from gnomon.training.rehearsal import Rehearsal

OUT_OF_MEMORY = 3  # the exit code where memory was asked for and not to be had


def main() -> None:
    """Do what standard input asks for."""
    request = json.load(sys.stdin)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # said when the recipe was read first
        recipe = load_recipe(request["recipe"])
    try:
        _limit(request["limit"], choose_device(recipe.training.device))
        rehearsal = put_together(recipe, Path(request["cache"]), request["start_from"])
        result = _step(rehearsal, recipe.training.tokens_per_batch)
    except (MemoryError, SystemError, torch.OutOfMemoryError):  # the second: Python's own C code
        sys.exit(OUT_OF_MEMORY)
    except (RuntimeError, OSError, ImportError) as error:  # PyTorch on CPUs; files and libraries
        if "memory" in str(error):
            sys.exit(OUT_OF_MEMORY)
        raise
    sys.stdout.write(json.dumps(result))


def _limit(size: int, device: torch.device) -> None:
    """To be refused memory is an error that can be caught, to be killed is not."""
    if device.type == "cuda":
        torch.cuda.set_per_process_memory_fraction(size / torch.cuda.mem_get_info()[1])
        return
    import resource

    resource.setrlimit(resource.RLIMIT_DATA, (size, size))
    # Should the whole machine run out, the kernel is to take this process before all others.
    Path("/proc/self/oom_score_adj").write_text("1000")


def _step(rehearsal: Rehearsal, tokens_per_batch: int) -> dict[str, Any]:
    task = rehearsal.task
    largest, longest = largest_batches(task)
    activations = rehearsal.footprint.of(longest)
    rows = activations.rows_in(tokens_per_batch)
    foreseen = activations(rows)
    for batch in (task.collate(largest), activations.batch(rows)):
        rehearsal.run(batch)
        rehearsal.update()
    source, target = activations.row_lengths
    return {
        "rows": rows,
        "source_length": source,
        "target_length": target,
        "activations": foreseen,
        "peak": _peak(rehearsal.device),
    }


def _peak(device: torch.device) -> int:
    """The most memory that was this process's own."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_reserved(device))
    status = dict(
        line.split(":", 1) for line in Path("/proc/self/status").read_text("utf-8").splitlines()
    )
    resident, of_files = (int(status[name].split()[0]) for name in ("VmHWM", "RssFile"))
    return (resident - of_files) * 1024


if __name__ == "__main__":
    main()

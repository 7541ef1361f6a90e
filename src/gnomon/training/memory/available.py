"""How much memory is there to be had."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch

_GROUPS = Path("/sys/fs/cgroup")


def available_bytes(device: torch.device) -> int | None:
    """Memory that this process may still fill, on the device it trains on; None: not known.

    On CPUs the least of what Linux calls available and of what is left to the control groups that
    the process is in (containers, `systemd-run`, Slurm).
    """
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    found = [*_of_the_system(), *_of_groups()]
    return min(found) if found else None


def _of_the_system() -> Iterator[int]:
    for line in _lines(Path("/proc/meminfo")):
        if line.startswith("MemAvailable:"):
            yield int(line.split()[1]) * 1024


def _of_groups() -> Iterator[int]:
    """What is left below the limit of each control group, version 2 or 1, from within outwards."""
    for line in _lines(Path("/proc/self/cgroup")):
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            names, root = ("memory.max", "memory.current"), _GROUPS
        elif "memory" in controllers.split(","):
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes")
            root = _GROUPS / "memory"
        else:
            continue
        group = root / path.lstrip("/")
        while True:
            limit, used = (_number(group / name) for name in names)
            if limit is not None and used is not None:
                yield max(0, limit - used + _files_to_drop(group))
            if group == root or root not in group.parents:
                break
            group = group.parent


def _files_to_drop(group: Path) -> int:
    """Bytes of files in memory that the kernel gives up first, although they count as used."""
    for line in _lines(group / "memory.stat"):
        name, _, value = line.partition(" ")
        if name in ("inactive_file", "total_inactive_file"):
            return int(value)
    return 0


def _number(path: Path) -> int | None:
    text = "".join(_lines(path)).strip()
    return int(text) if text.isdecimal() else None  # "max" is no limit


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8").splitlines()
    except OSError:
        return []

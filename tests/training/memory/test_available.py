"""How much memory may be filled: the least of what the system and all control groups leave."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from gnomon.training.memory import available
from gnomon.training.memory.available import available_bytes

MEMINFO = "MemTotal: 4000 kB\nMemAvailable: 3000 kB\n"


def machine(monkeypatch: pytest.MonkeyPatch, files: dict[str, str]) -> int | None:
    found = {"/proc/meminfo": MEMINFO} | files
    monkeypatch.setattr(available, "_lines", lambda path: found.get(str(path), "").splitlines())
    return available_bytes(torch.device("cpu"))


def test_without_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    assert machine(monkeypatch, {}) == 3000 * 1024
    assert machine(monkeypatch, {"/proc/meminfo": ""}) is None


def test_a_group_within_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    root = "/sys/fs/cgroup"
    files = {
        "/proc/self/cgroup": "0::/slice/job\n",
        f"{root}/slice/job/memory.max": "max\n",
        f"{root}/slice/job/memory.current": "1000\n",
        f"{root}/slice/memory.max": "500000\n",
        f"{root}/slice/memory.current": "200000\n",
        f"{root}/slice/memory.stat": "anon 9\ninactive_file 50000\n",
    }
    assert machine(monkeypatch, files) == 350_000
    files[f"{root}/slice/job/memory.max"] = "101000\n"
    assert machine(monkeypatch, files) == 100_000


def test_a_group_of_the_first_version(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "/proc/self/cgroup": "5:cpu:/x\n4:memory:/x\n",
        "/sys/fs/cgroup/memory/x/memory.limit_in_bytes": "900000\n",
        "/sys/fs/cgroup/memory/x/memory.usage_in_bytes": "100000\n",
    }
    assert machine(monkeypatch, files) == 800_000


@pytest.mark.skipif(not Path("/proc/meminfo").exists(), reason="needs Linux")
def test_here() -> None:
    found = available_bytes(torch.device("cpu"))
    assert found is not None
    assert found > 2**20

"""Two workers of a Ray on this machine, started once for all tests here."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bulk.test_bulk import hostile_text
from command_line import run_command
from digits import TrainedRun
from gnomon.errors import RunError

ray = pytest.importorskip("ray", reason="pip install 'gnomon[ray]'")


@pytest.fixture(scope="module", autouse=True)
def running() -> Iterator[None]:
    from gnomon.api.bulk import OnRay

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_worker_niceness", "0")  # or other tests would hardly let it run
        try:
            OnRay(workers=2, address="local").start()
        except RunError as error:
            if "timed out during startup" in str(error):
                pytest.skip("Ray's own 30 seconds to start do not do on a machine this busy")
            raise
    yield
    ray.shutdown()


SEARCH = ("--beam=1", "--max-length-factor=0", "--max-length-offset=20")


def _kill_a_worker(when_there: Path, killed: list[int]) -> None:
    """Kill the first worker that is found once a part is done."""
    while not list(when_there.rglob("[0-9]*.json")):
        time.sleep(0.05)
    while not killed:
        time.sleep(0.05)
        for process in Path("/proc").glob("[0-9]*"):
            try:
                name = (process / "cmdline").read_bytes()
            except OSError:
                continue
            if b"ray::MapWorker" in name:
                os.kill(int(process.name), signal.SIGKILL)
                killed.append(int(process.name))
                return


@pytest.mark.timeout(1200)  # a busy machine starts processes slowly
def test_same_bytes_although_a_worker_is_killed(trained_run: TrainedRun, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name, num_lines in (("a", 1500), ("b", 3000), ("c", 0)):
        text = hostile_text(num_lines) if num_lines else b""
        (tmp_path / "in" / name).write_bytes(text)
    killed: list[int] = []
    parts = tmp_path / "out" / ".gnomon-bulk" / "parts"
    killer = threading.Thread(target=_kill_a_worker, args=(parts, killed), daemon=True)
    killer.start()
    done = run_command(
        *("translate", trained_run.path, *SEARCH, "--on", "ray", "--workers", "2"),
        *("-i", "in", "-o", "out", "--part-lines", "1024"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert killed
    assert "3 files, 4,500 lines" in done.stderr.decode()
    for name in "abc":
        given = (tmp_path / "in" / name).read_bytes()
        plain = run_command("translate", trained_run.path, *SEARCH, text=given)
        assert (tmp_path / "out" / name).read_bytes() == plain.stdout

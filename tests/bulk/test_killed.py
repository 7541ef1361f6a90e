"""A job with a Ray of its own is killed from outside, and goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bulk.test_bulk import hostile_text
from command_line import run_command
from digits import TrainedRun

pytest.importorskip("ray", reason="pip install 'gnomon[ray]'")


def _processes_of(session: int) -> list[int]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.getsid(int(process.name)) == session:
                found.append(int(process.name))
        except (OSError, ValueError):
            continue
    return found


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_killed_outright_it_leaves_nothing_running_and_goes_on(
    trained_run: TrainedRun, tmp_path: Path
) -> None:
    (tmp_path / "in.txt").write_bytes(hostile_text(4000))
    command = [sys.executable, "-m", "gnomon", "translate", str(trained_run.path), "--beam=1"]
    command += ["--on", "ray", "--workers", "2", "--part-lines", "1024"]
    command += ["--max-length-factor=0", "--max-length-offset=20", "-i", "in.txt", "-o", "out.txt"]
    environment = {**os.environ, "RAY_worker_niceness": "0", "OMP_NUM_THREADS": "1"}
    parts = tmp_path / ".out.txt.gnomon-bulk" / "parts" / "in.txt"

    job = subprocess.Popen(command, cwd=tmp_path, env=environment, start_new_session=True)
    while not list(parts.glob("[0-9]*.json")):
        assert job.poll() is None
        time.sleep(0.05)
    os.kill(job.pid, signal.SIGKILL)
    job.wait()
    deadline = time.monotonic() + 300
    while left := _processes_of(job.pid):
        assert time.monotonic() < deadline, left
        time.sleep(0.5)
    assert not (tmp_path / "out.txt").exists()

    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "of 4 parts were done before" in done.stderr
    plain = run_command(
        *("translate", trained_run.path, "--beam=1", "--max-length-factor=0"),
        *("--max-length-offset=20", "-i", tmp_path / "in.txt"),
    )
    assert (tmp_path / "out.txt").read_bytes() == plain.stdout

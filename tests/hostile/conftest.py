"""The command line inside the test's own process: exit code, output and messages, no traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_line import run_command
from hostile.running import Command, Done


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """Run `gnomon ARGUMENTS` from a folder of its own; whatever is raised past `main` is a bug."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str | Path, text: bytes = b"") -> Done:
        done = run_command(*arguments, text=text)
        return Done(done.returncode, done.stdout, " ".join(done.stderr.decode().split()))

    return run

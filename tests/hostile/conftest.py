"""The command line inside the test's own process: exit code, output and messages, no traceback."""

from __future__ import annotations

import io
import sys
import warnings
from pathlib import Path

import pytest

import gnomon.cli
from hostile.running import Command, Done


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """Run `gnomon ARGUMENTS` from a folder of its own; whatever is raised past `main` is a bug."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str | Path, text: bytes = b"") -> Done:
        out, errors = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
        with monkeypatch.context() as patch, warnings.catch_warnings():
            patch.setattr(sys, "argv", ["gnomon", *map(str, arguments)])
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text), "utf-8"))
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", errors)
            code = 0
            try:
                gnomon.cli.main()
            except SystemExit as left:
                code = left.code if isinstance(left.code, int) else int(left.code is not None)
            out.flush()
        return Done(code, out.buffer.getvalue(), " ".join(errors.getvalue().split()))

    return run

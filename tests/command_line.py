"""The command line inside the test's own process, where no command has to import torch again.

What only a process of its own shows (signals, closed pipes, imports) is tested with one.
"""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
import warnings
from pathlib import Path
from unittest.mock import patch

from click.testing import Result
from typer.testing import CliRunner

import gnomon.cli
from gnomon.cli.app import app


def invoke(*arguments: str | Path) -> Result:
    """Run `gnomon ARGUMENTS` without `main` around it: errors are raised as they are."""
    done = CliRunner().invoke(app, [*map(str, arguments)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def run_command(
    *arguments: str | Path, cwd: Path | None = None, text: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """Run `gnomon ARGUMENTS` with `text` as standard input; what `main` lets through is raised."""
    out = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
    errors = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
    code: int | str | None = 0
    with contextlib.ExitStack() as stack:
        if cwd is not None:
            stack.enter_context(contextlib.chdir(cwd))
        stack.enter_context(warnings.catch_warnings())
        stack.enter_context(patch.object(sys, "argv", ["gnomon", *map(str, arguments)]))
        stdin = io.TextIOWrapper(io.BufferedReader(io.BytesIO(text)), "utf-8")  # can be peeked at
        for name, stream in (("stdin", stdin), ("stdout", out), ("stderr", errors)):
            stack.enter_context(patch.object(sys, name, stream))
        try:
            gnomon.cli.main()
        except SystemExit as left:
            code = left.code
    out.flush()
    errors.flush()
    number = code if isinstance(code, int) else int(code is not None)
    return subprocess.CompletedProcess(
        ["gnomon", *map(str, arguments)], number, out.buffer.getvalue(), errors.buffer.getvalue()
    )

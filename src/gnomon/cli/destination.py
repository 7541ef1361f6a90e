"""Where a verb's results go: standard output, or a file that is whole or not there."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from gnomon.cli.console import leave_closed_pipe


@contextmanager
def destination(output: Path | None) -> Iterator[BinaryIO]:
    """Standard output, or a file that appears only when all of it is written.

    A link stays a link: the file it points to is replaced.
    """
    if output is None or _is_standard_output(output):
        try:
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            leave_closed_pipe()
        return
    if output.exists() and not output.is_file():
        with output.open("wb") as file:  # /dev/null, a named pipe: written to, not replaced
            yield file
        return
    from gnomon.files import atomic_file

    with atomic_file(output.resolve()) as file:
        yield file


def _is_standard_output(output: Path) -> bool:
    """Whether it is /dev/stdout or the like; a file behind it may be one that is appended to."""
    try:
        return os.path.samestat(output.stat(), os.fstat(sys.stdout.fileno()))
    except (OSError, ValueError):
        return False

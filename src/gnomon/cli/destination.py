"""Where a verb's results go: standard output, or a file that is whole or not there."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

from gnomon.cli.console import leave_closed_pipe


@contextmanager
def destination(output: Path | None) -> Iterator[BinaryIO]:
    """Standard output, or a file that appears only when all of it is written.

    A link stays a link: the file it points to is replaced.

    Raises:
        DataError: it cannot be written.
    """
    if output is None or _is_standard_output(output):
        try:
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            leave_closed_pipe()
        return
    if output.exists() and not output.is_file():
        with _told(output):
            device = output.open("wb")  # /dev/null, a named pipe: written to, not replaced
        with device:
            yield device
        return
    from gnomon.files import atomic_file

    with ExitStack() as opened:
        with _told(output):
            file = opened.enter_context(atomic_file(output.resolve()))
        yield file


@contextmanager
def _told(output: Path) -> Iterator[None]:
    """What the system says of an output names the output, not a file beside it."""
    from gnomon.errors import DataError

    try:
        yield
    except OSError as error:
        where = "a folder" if output.is_dir() else error.strerror
        raise DataError(
            "results go to a file that can be written",
            seen=f"{str(output)!r} ({where})",
            mend="name a file in a folder of yours with --output, or leave it out to print them",
        ) from error


def _is_standard_output(output: Path) -> bool:
    """Whether it is /dev/stdout or the like; a file behind it may be one that is appended to."""
    try:
        return os.path.samestat(output.stat(), os.fstat(sys.stdout.fileno()))
    except (OSError, ValueError):
        return False

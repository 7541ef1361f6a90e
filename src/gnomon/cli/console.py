"""What a human reads goes to stderr, coloured where it is a terminal; results go to stdout."""

from __future__ import annotations

import os
import sys
from functools import cache
from typing import TYPE_CHECKING, BinaryIO, NoReturn

from rich.console import Console

if TYPE_CHECKING:
    from gnomon.text import Replacements


@cache
def console() -> Console:
    """The console every message is printed on."""
    return Console(stderr=True, soft_wrap=True)


def say(text: str) -> None:
    """A plain sentence for a person; it may hold paths and text with square brackets."""
    console().print(text, markup=False, highlight=False)


def warn(text: str) -> None:
    """A plain sentence about something that may not be as wanted."""
    console().print(text, style="yellow", markup=False, highlight=False)


def warn_of_replaced(replaced: Replacements, name: str | None = None) -> None:
    """How much of the input (of the file `name`) was no text and was replaced, if any was."""
    if replaced:
        where = "" if name is None else f"{name}: "
        warn(
            f"{where}{replaced.num_invalid} invalid UTF-8 sequences and {replaced.num_nul} NUL "
            f"characters were replaced, the first in line {replaced.first_line}"
        )


def standard_input() -> BinaryIO:
    """Standard input as bytes.

    Raises:
        DataError: it was closed before we began (`<&-`, some services).
    """
    if sys.stdin is None:
        from gnomon.errors import DataError

        raise DataError("standard input must be open", mend="name a file with --input")
    return sys.stdin.buffer


def print_line(text: str) -> None:
    """One result line to stdout: UTF-8, ended by a single newline, whatever the platform."""
    print_piece(f"{text}\n")


def print_piece(text: str, *, at_once: bool = False) -> None:
    """A part of a result to stdout.

    Args:
        at_once: it is to be seen before the next one comes.
    """
    try:
        sys.stdout.buffer.write(text.encode("utf-8", errors="replace"))
        if at_once:
            sys.stdout.buffer.flush()
    except BrokenPipeError:
        leave_closed_pipe()


def leave_closed_pipe() -> NoReturn:
    """The reader of our output (`head`, a closed pager) left.

    Standard output is pointed away from the pipe, so that the interpreter's own flush at exit does
    not fail again.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(141)

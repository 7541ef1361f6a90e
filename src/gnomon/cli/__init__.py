"""The `gnomon` command: one file per verb; each parses, calls `gnomon.api` and prints.

Nothing heavy is imported before a verb runs, so that `gnomon --help` is instant.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from typing import NoReturn

from gnomon.errors import GnomonError


def main() -> None:
    """Run the command line; a user's mistake ends with its message, never a traceback."""
    from gnomon.cli.app import app

    warnings.showwarning = _show_warning
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _leave)
    try:
        _run(app)
    except GnomonError as error:
        from gnomon.cli.console import console

        # Of several ranks each has its own say, since one may fail alone.
        rank = os.environ.get("RANK", "0")
        whose = "error" if rank == "0" else f"error on rank {rank}"
        console().print(f"[bold red]{whose}:[/] {_escaped(str(error))}", highlight=False)
        sys.exit(error.exit_code)
    except OSError as error:
        from gnomon.cli.console import console

        console().print("[bold red]error:[/] a file or folder must be usable", highlight=False)
        console().print(f"  seen: {_escaped(str(error))}", highlight=False)
        console().print(
            "  mend: name one that is there and yours to use, on a disk with room", highlight=False
        )
        sys.exit(2)


def _leave(number: int, _: object) -> NoReturn:
    """Asked to end: files that are half written are cleared away on the way out."""
    sys.exit(128 + number)


def _run(app: Callable[..., object]) -> None:
    """Run it; results that nobody reads any more are no failure of ours."""
    try:
        app(prog_name="gnomon")
    except SystemExit:
        if sys.stdout is not None:
            try:
                sys.stdout.flush()
            except BrokenPipeError:
                from gnomon.cli.console import leave_closed_pipe

                leave_closed_pipe()
        raise


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """A warning is a sentence for the user; where in our code it arose says nothing to them."""
    from gnomon.cli.console import console

    console().print(f"[yellow]warning:[/] {_escaped(str(message))}", highlight=False)


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(text)

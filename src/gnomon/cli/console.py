"""What a human reads goes to stderr, coloured where it is a terminal; results go to stdout."""

from __future__ import annotations

import json
import sys
from functools import cache
from typing import Any

from rich.console import Console


@cache
def console() -> Console:
    """The console every message is printed on."""
    return Console(stderr=True, soft_wrap=True)


def print_line(text: str) -> None:
    """One result line to stdout: UTF-8, ended by a single newline, whatever the platform."""
    sys.stdout.buffer.write(text.encode("utf-8", errors="replace") + b"\n")


def print_json(value: Any) -> None:
    """One JSON value to stdout, on one line."""
    print_line(json.dumps(value, ensure_ascii=False))

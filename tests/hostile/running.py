"""What a command left behind, and how to run one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Done:
    """What a command left behind."""

    code: int
    out: bytes
    message: str  # with runs of blanks as one, as lines may be wrapped


Command = Callable[..., Done]

"""How a long call tells how far it is."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[float], None]
"""Is told how many more texts are done, now and then; a text of two passes counts half in each."""

Stages = Callable[[str, int], Progress]
"""Is told what begins, and over how many texts; gives what is told of these."""


def silent(_: float) -> None:
    """Tell nobody."""


def unseen(_: str, __: int) -> Progress:
    """Tell nobody of any stage."""
    return silent

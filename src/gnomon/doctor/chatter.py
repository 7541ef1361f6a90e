"""Keeps what libraries say while a model is called in unusual ways out of the report."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def chatter_off() -> Iterator[None]:
    """Transformers says nothing below an error; afterwards it says all that it would have said.

    What it says once only is not counted as said in here.
    """
    if "transformers" not in sys.modules:
        yield
        return
    from transformers.utils import logging

    level = logging.get_verbosity()
    logger: Any = logging.logging.Logger
    kept = {n: getattr(logger, n) for n in ("warning_once", "info_once") if hasattr(logger, n)}
    logging.set_verbosity_error()
    for name in kept:
        setattr(logger, name, _nothing)
    try:
        yield
    finally:
        for name, said in kept.items():
            setattr(logger, name, said)
        logging.set_verbosity(level)


def _nothing(*_: Any, **__: Any) -> None:
    """Says nothing."""

"""Optimizers that are packages of their own."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from gnomon.errors import RecipeError


def package(module: str, *, extra: str) -> Any:
    """The module, imported.

    Raises:
        RecipeError: it is not installed; with the line that installs it.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise RecipeError(
            "this optimizer is a package of its own",
            seen=f"no {module.partition('.')[0]}",
            mend=f"pip install 'gnomon[{extra}]'",
        ) from error

"""Compiled functions are watched as plain Python."""

from __future__ import annotations

import contextlib
import sys
from typing import Any


def uncompiled() -> contextlib.AbstractContextManager[Any]:
    """Compiled functions run as plain Python; nothing to do where none was ever compiled."""
    if "torch._dynamo" not in sys.modules:
        return contextlib.nullcontext()
    import torch

    stance: contextlib.AbstractContextManager[Any] = torch.compiler.set_stance("force_eager")
    return stance

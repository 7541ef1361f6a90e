"""Results that are numbers, or an error: broken weights must not pass for an answer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.errors import ModelError


def check_finite(values: Iterable[NDArray[Any]], what: str) -> None:
    """Every value is a number.

    Args:
        values: what a model gave, text by text.
        what: it is, for the message.

    Raises:
        ModelError: one is NaN or infinite.
    """
    for number, each in enumerate(values, 1):
        if not np.isfinite(each).all():
            raise ModelError(
                f"a model gives every text finite {what}",
                seen=f"NaN or infinity, first for text {number}",
                mend="look for NaN in the weights (gnomon doctor MODEL); a checkpoint from before "
                "the training diverged will do",
            )

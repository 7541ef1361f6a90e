"""What an examination will do and how long that takes, told before it starts."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gnomon.doctor.case import Case
from gnomon.doctor.check import Check, Cost

# Passes that a check of this cost makes on the few short rows that most look at, and on the whole
# batch; the fewest and the most of their means over patients of 0.1 to 40 million parameters.
_SHORT: dict[Cost, tuple[float, float]] = {
    "static": (0, 0), "probe": (1, 6), "step": (3, 12), "run": (20, 200)
}  # fmt: skip
_WHOLE: dict[Cost, tuple[float, float]] = {
    "static": (0, 0), "probe": (0.14, 0.45), "step": (0.2, 1), "run": (1, 10)
}  # fmt: skip
_TRAINED = "overfit-batch"  # the only one that runs until it is done, and against the clock
_TIMES = 3  # the quickest of so many counts: others may be using the machine
_PASSES, _SECONDS = (50.0, 750.0), (4.0, 6.0)


@dataclass(frozen=True)
class Plan:
    """What an examination will do; `print` says it in a sentence.

    Attributes:
        checks: those that will be made.
        seconds: the least and the most that it should take, from passes of this very model that
            were timed; (0, 0) where none could be made.
        reads_text: there is no model: how long it takes depends on the text alone.
    """

    checks: tuple[Check, ...]
    seconds: tuple[float, float]
    reads_text: bool = False

    def __str__(self) -> str:
        from gnomon.doctor.reports.text import plan_sentence

        return plan_sentence(self)


def estimate(case: Case, checks: Sequence[Check]) -> tuple[float, float]:
    """Seconds that these checks will take, from passes on short rows and one on the batch."""
    try:
        _ = case.small  # made by running the model once: the next run is a warm one
        short = min(_timed(lambda: case.run(case.small)) for _ in range(_TIMES))
        whole = short if case.call is case.small else _timed(lambda: case.run(case.call))
    except (Exception, SystemExit):  # told by the checks themselves
        return 0.0, 0.0
    least, most = (
        sum(_SHORT[each.cost][end] * short + _WHOLE[each.cost][end] * whole for each in checks)
        for end in (0, 1)
    )
    if any(each.code == _TRAINED for each in checks):
        least += min(_PASSES[0] * short, _SECONDS[0])
        most += min(_PASSES[1] * short, _SECONDS[1])
    return least, most


def _timed(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start

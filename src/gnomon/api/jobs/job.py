"""The interface between `train` and the tasks that can be trained."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Protocol

from gnomon.doctor import Report
from gnomon.training import Monitors, RunFolder, Validate
from gnomon.training.task import Task

Say = Callable[[str], None]


class Job(Protocol):
    """One training of one task, from its recipe on. `prepare` goes first, then `task`.

    Implemented structurally, nothing has to inherit from it.
    """

    def prepare(self, cache: Path, checkpoints: list[Path], start_from: Path | None) -> None:
        """Open the text, and make what the first step needs of it.

        Args:
            cache: folder for what is made once and used again.
            checkpoints: of a run that is continued, newest first, else none: whatever the text
                says now, the weights belong to the vocabulary kept there.
            start_from: model folder to begin with (fine-tuning), if the training is a new one.

        Raises:
            DataError, RecipeError, ModelError: the text or the model cannot be used.
        """
        ...

    def identity(self) -> dict[str, str | None]:
        """By name, hashes of what the run is made from; a continued run must find the same."""
        ...

    @property
    def task(self) -> Task[Any]:
        """The task; when it is first asked for, torch's generator draws its first weights."""
        ...

    @property
    def validate(self) -> Validate | None:
        """What measures the model; None where there is no text for it."""
        ...

    def monitors(self, folder: RunFolder) -> Monitors | None:
        """The doctor's looks at the training as it goes; None for none."""
        ...

    def preflight(self, accept: Collection[str], seconds: float) -> Report | None:
        """The doctor's report on the task before its first step; None where it has none."""
        ...

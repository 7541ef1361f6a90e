"""Walks through epochs of batch specifications from any position."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gnomon.errors import DataError


class DataCursor:
    """The position in an endless series of epochs; `epoch` and `batch` are all its state.

    Args:
        epochs: gives the specifications of an epoch, a pure function of its number.
        epoch: epoch to start in, from 0.
        batch: how many of its specifications are already used.
        max_epochs: epochs after which there are no more; None for no end.
    """

    def __init__(
        self,
        epochs: Callable[[int], Sequence[Any]],
        *,
        epoch: int = 0,
        batch: int = 0,
        max_epochs: int | None = None,
    ) -> None:
        self._epochs = epochs
        self._max_epochs = max_epochs
        self.epoch = epoch
        self.batch = batch
        self._specs: Sequence[Any] = []
        if not self.exhausted:
            self._open_epoch()

    @property
    def exhausted(self) -> bool:
        """Whether the last epoch is used up."""
        return self._max_epochs is not None and self.epoch >= self._max_epochs

    @property
    def num_batches(self) -> int:
        """Micro-batches in the current epoch."""
        return len(self._specs)

    def take(self, count: int) -> list[Any]:
        """The next `count` specifications, across epoch ends; fewer only where data ends."""
        taken: list[Any] = []
        while len(taken) < count and not self.exhausted:
            taken.append(self._specs[self.batch])
            self.batch += 1
            if self.batch == len(self._specs):
                self.epoch, self.batch = self.epoch + 1, 0
                if not self.exhausted:
                    self._open_epoch()
        return taken

    def _open_epoch(self) -> None:
        self._specs = self._epochs(self.epoch)
        if not self._specs:
            raise DataError(
                "An epoch must hold at least one batch",
                seen=f"none in epoch {self.epoch}",
                mend="check that training pairs are left after cleaning and length limits",
            )
        assert self.batch < len(self._specs), "the saved position lies past the epoch's end"

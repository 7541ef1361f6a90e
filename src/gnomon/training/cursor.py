"""Walks through epochs of batch specifications from any position."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gnomon.errors import DataError


class DataCursor:
    """The position in an endless series of epochs; `epoch`, `part` and `batch` are all its state.

    Only the part it stands in is made, so to begin anywhere costs no more than at the beginning.

    Args:
        epochs: gives the parts of an epoch, a pure function of its number; each part holds some
            specifications.
        epoch: epoch to start in, from 0.
        part: part of the epoch to start in, from 0.
        batch: how many of the part's specifications are already used.
        max_epochs: epochs after which there are no more; None for no end.
    """

    def __init__(
        self,
        epochs: Callable[[int], Sequence[Sequence[Any]]],
        *,
        epoch: int = 0,
        part: int = 0,
        batch: int = 0,
        max_epochs: int | None = None,
    ) -> None:
        self._epochs = epochs
        self._max_epochs = max_epochs
        self.epoch = epoch
        self.part = part
        self.batch = batch
        self._parts: Sequence[Sequence[Any]] = []
        self._specs: Sequence[Any] = []
        if not self.exhausted:
            self._open_epoch()

    @property
    def exhausted(self) -> bool:
        """Whether the last epoch is used up."""
        return self._max_epochs is not None and self.epoch >= self._max_epochs

    @property
    def approximate_batches(self) -> int:
        """Micro-batches in the current epoch, were all its parts like the current one."""
        return len(self._parts) * len(self._specs)

    def take(self, count: int) -> list[Any]:
        """The next `count` specifications, across epoch ends; fewer only where data ends."""
        taken: list[Any] = []
        while len(taken) < count and not self.exhausted:
            taken.append(self._specs[self.batch])
            self.batch += 1
            if self.batch == len(self._specs):
                self._go_on()
        return taken

    def _go_on(self) -> None:
        self.part, self.batch = self.part + 1, 0
        if self.part < len(self._parts):
            self._specs = self._parts[self.part]
            return
        self.epoch, self.part = self.epoch + 1, 0
        if not self.exhausted:
            self._open_epoch()

    def _open_epoch(self) -> None:
        self._parts = self._epochs(self.epoch)
        if not self._parts:
            raise DataError(
                "An epoch must hold at least one batch",
                seen=f"none in epoch {self.epoch}",
                mend="check that training pairs are left after cleaning and length limits",
            )
        assert self.part < len(self._parts), "the saved position lies past the epoch's end"
        self._specs = self._parts[self.part]
        assert self.batch < len(self._specs), "the saved position lies past the part's end"

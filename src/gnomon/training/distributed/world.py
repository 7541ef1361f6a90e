"""The ranks of a training: which one this is, and the small things they tell each other.

What is said here are numbers and sentences of a few bytes, always over the CPU; gradients and
weights go their own way (`parallel.py`).
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from gnomon.errors import RecipeError, TrainingStopped
from gnomon.training.distributed.heartbeat import Heartbeat

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

T = TypeVar("T")

_PLACE = re.compile(r"\[/[^\]]*\] ")  # in torch's C++, which gloo's messages begin with


class World:
    """The ranks that train together; by default this process alone.

    Every method that exchanges something must be called by all ranks in the same order.

    Args:
        rank: the number of this process, from 0.
        size: how many there are.
        local_rank: its number on this machine.
        prompt: group for what all ranks do at the same time; waits as long as a step may take.
        patient: group for waiting while rank 0 works alone (prepares, validates, saves).
        saving: group for a thread that writes checkpoints; gloo does not share one among threads.
        heartbeat: where this rank is, for the others.
    """

    def __init__(
        self,
        rank: int = 0,
        size: int = 1,
        local_rank: int = 0,
        *,
        prompt: ProcessGroup | None = None,
        patient: ProcessGroup | None = None,
        saving: ProcessGroup | None = None,
        heartbeat: Heartbeat | None = None,
    ) -> None:
        self.rank = rank
        self.size = size
        self.local_rank = local_rank
        self._prompt = prompt
        self._patient = patient
        self.saving = saving
        self.heartbeat = heartbeat

    @property
    def is_first(self) -> bool:
        """Whether this rank writes the run."""
        return self.rank == 0

    def device(self, chosen: torch.device) -> torch.device:
        """Where this rank computes.

        Raises:
            RecipeError: there are more ranks on this machine than GPUs.
        """
        if self.size == 1 or chosen.type != "cuda":
            return chosen
        if self.local_rank >= torch.cuda.device_count():
            raise RecipeError(
                "each rank needs a GPU of its own",
                seen=f"rank {self.rank} is number {self.local_rank} on this machine, which has "
                f"{torch.cuda.device_count()}",
                mend="start fewer ranks (torchrun --nproc-per-node), or --set training.device=cpu",
            )
        device = torch.device("cuda", self.local_rank)
        torch.cuda.set_device(device)
        return device

    def at(self, step: int, doing: str) -> None:
        """Note for the other ranks what this one does now."""
        if self.heartbeat is not None:
            self.heartbeat.at(step, doing)

    def share_of(self, items: Sequence[T]) -> tuple[list[T], int]:
        """This rank's part of a step's micro-batches, as long on every rank.

        Returns:
            The items, and how many of them are its own: those after them stand in where the data
            ends, so that every rank makes the same number of passes; they must weigh nothing.
        """
        own = list(items[self.rank :: self.size])
        passes = -(-len(items) // self.size)
        return own + [items[0]] * (passes - len(own)), len(own)

    def sums(self, *values: float) -> list[float]:
        """Each value summed over all ranks, in float64 and always in the order of the ranks."""
        if self.size == 1:
            return list(values)
        own = torch.tensor(values, dtype=torch.float64)
        everyone = [torch.empty_like(own) for _ in range(self.size)]
        with self._talking():
            torch.distributed.all_gather(everyone, own, group=self._prompt)
        return [sum(column) for column in zip(*(each.tolist() for each in everyone), strict=True)]

    def any(self, value: bool) -> bool:
        """Whether it holds on some rank."""
        return self.sums(float(value))[0] > 0

    def agree_on(self, received: signal.Signals | None) -> signal.Signals | None:
        """The signal to stop that the lowest rank with one has received."""
        if self.size == 1:
            return received
        numbers = [0.0] * self.size
        numbers[self.rank] = float(received or 0)
        return next((signal.Signals(int(n)) for n in self.sums(*numbers) if n), None)

    def gather(self, value: T) -> list[T]:
        """The value of every rank, in their order."""
        if self.size == 1:
            return [value]
        everyone: list[Any] = [None] * self.size
        with self._talking():
            torch.distributed.all_gather_object(everyone, value, group=self._prompt)
        return everyone

    def by_first(self, work: Callable[[], T]) -> T:
        """What `work` gives on rank 0; the others wait for it, however long it takes."""
        if self.size == 1:
            return work()
        values: list[Any] = [work() if self.is_first else None]
        with self._talking():
            torch.distributed.broadcast_object_list(values, src=0, group=self._patient)
        result: T = values[0]
        return result

    @contextmanager
    def first_goes_first(self) -> Iterator[None]:
        """The block is run by rank 0, and then by the others, who find what it left on the disk."""
        if not self.is_first:
            self.by_first(lambda: None)
        yield
        if self.is_first:
            self.by_first(lambda: None)

    @contextmanager
    def exchanging(self) -> Iterator[None]:
        """Around work in which gradients go between ranks: a rank that is lost is told as such."""
        try:
            yield
        except RuntimeError as error:
            if self.size == 1 or not any(name in str(error) for name in ("gloo", "NCCL")):
                raise
            raise self._left_alone(error) from error

    @contextmanager
    def _talking(self) -> Iterator[None]:
        """Name the ranks that do not answer."""
        try:
            with self._waiting():
                yield
        except RuntimeError as error:
            raise self._left_alone(error) from error

    def _left_alone(self, error: RuntimeError) -> TrainingStopped:
        said = _PLACE.sub("", str(error).splitlines()[0])
        seen = f"rank {self.rank}: {said}"
        if self.heartbeat is not None:
            others = self.heartbeat.behind() or "no rank is known to be behind"
            seen = f"rank {self.rank} at step {self.heartbeat.step}: {said}\n  {others}"
        return TrainingStopped(
            "All ranks must take part in every step",
            seen=seen,
            mend="look at what that rank printed; with torchrun --max-restarts all begin again "
            "from the last checkpoint. If it was only slow, raise distributed.timeout_minutes",
        )

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        if self.heartbeat is None:
            yield
            return
        with self.heartbeat.waiting():
            yield

"""Signs of life: each rank writes where it is, so that a hang can be laid at a rank's door."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Self


@dataclass(frozen=True)
class Beat:
    """What one rank last said of itself; times are seconds since 1970."""

    rank: int
    host: str
    pid: int
    step: int = 0
    doing: str = "starting"
    waits: bool = False  # for the other ranks
    since: float = 0.0  # when it began to do so
    beat: float = 0.0  # when this was written

    def told(self, now: float) -> str:
        """For people."""
        return (
            f"rank {self.rank} ({self.host}, pid {self.pid}): step {self.step}, {self.doing} for "
            f"{now - self.since:.0f} s, last sign of life {now - self.beat:.0f} s ago"
        )


class Heartbeat:
    """This rank's signs of life, and a look at those of the others.

    A thread writes them, so that steps do not wait for a disk; a process that is stopped or lost
    writes none, which is seen too.

    Args:
        folder: that all ranks see; one file for each.
        every: seconds between two signs, and how long to wait for the others without a word.
        warn: told once for each wait which ranks are behind, from the thread.
    """

    def __init__(
        self, folder: Path, rank: int, size: int, *, every: float, warn: Callable[[str], None]
    ) -> None:
        self._folder = folder
        self._size = size
        self._every = every
        self._warn = warn
        self._now = Beat(rank, socket.gethostname(), os.getpid(), since=time.time())
        self._warned_of: float | None = None  # the beginning of the wait
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def __enter__(self) -> Self:
        self._write()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        with suppress(OSError):
            self._path(self._now.rank).unlink()
            self._folder.rmdir()  # by whoever is the last

    @property
    def step(self) -> int:
        """What this rank is at."""
        return self._now.step

    def at(self, step: int, doing: str) -> None:
        """Note what this rank does now."""
        self._now = replace(self._now, step=step, doing=doing, waits=False, since=time.time())

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Within the block this rank waits for the others."""
        before = self._now
        self._now = replace(before, waits=True, since=time.time())
        yield
        self._now = replace(before, since=time.time())

    def behind(self) -> str:
        """Which other ranks this one waits for, one line each; empty where none is known to be."""
        self._write()
        own, now = self._now, time.time()
        lines = []
        for rank in range(self._size):
            if rank == own.rank:
                continue
            other = self._read(rank)
            if other is None:
                lines.append(f"rank {rank} has given no sign of life")
            elif not other.waits or other.step < own.step or now - other.beat > 3 * self._every:
                lines.append(other.told(now))
        return "\n  ".join(lines)

    def _run(self) -> None:
        while not self._ended.wait(self._every):
            self._write()
            own = self._now
            waited = time.time() - own.since
            if own.waits and waited > self._every and self._warned_of != own.since:
                self._complain(own, waited)

    def _complain(self, own: Beat, waited: float) -> None:
        """Say once whom all are waiting for; of those who wait the lowest rank says it."""
        others = [self._read(rank) for rank in range(own.rank)]
        if any(other is not None and other.waits for other in others):
            return
        if lines := self.behind():
            self._warned_of = own.since
            self._warn(
                f"rank {own.rank} has waited {waited:.0f} s at step {own.step} ({own.doing}) for:"
                f"\n  {lines}"
            )

    def _path(self, rank: int) -> Path:
        return self._folder / f"rank-{rank}.json"

    def _write(self) -> None:
        beat = replace(self._now, beat=time.time())
        path = self._path(beat.rank)
        # No sync and no complaint: a full disk is told by the checkpoint that does not fit.
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            temporary = path.with_suffix(f".{threading.get_ident()}")
            temporary.write_text(json.dumps(asdict(beat)) + "\n", encoding="utf-8")
            temporary.replace(path)

    def _read(self, rank: int) -> Beat | None:
        try:
            return Beat(**json.loads(self._path(rank).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None

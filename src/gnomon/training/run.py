"""The folder a training writes: one writer at a time, any number of readers."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gnomon.errors import RunError
from gnomon.training.averaging import read_record
from gnomon.training.checkpoint import Checkpoints
from gnomon.training.state import TrainingState

LOCK_FILE = ".lock"
_NAMED = 5  # files that a message names


class RunFolder:
    """Paths of a run and its lock; making one touches nothing on the disk."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._lock_depth = 0

    @property
    def recipe_path(self) -> Path:
        """The resolved recipe; a folder is a run when it has one or has checkpoints."""
        return self.path / "recipe.toml"

    @property
    def manifest_path(self) -> Path:
        """Seeds, data hashes, versions, hardware."""
        return self.path / "manifest.json"

    @property
    def metrics_path(self) -> Path:
        """One JSON object per line: training averages and validations."""
        return self.path / "metrics.jsonl"

    @property
    def tensorboard_path(self) -> Path:
        """Folder of TensorBoard event files."""
        return self.path / "tensorboard"

    @property
    def checkpoints(self) -> Checkpoints:
        """The checkpoints of this run."""
        return Checkpoints(self.path / "checkpoints")

    def exists(self) -> bool:
        """Whether there is a run here."""
        return self.recipe_path.is_file() or bool(self.checkpoints.steps())

    def refuse_foreign(self) -> None:
        """Nothing of a user's own is ever overwritten: a new run has a folder of its own.

        Raises:
            RunError: there are files here, and they are not those of a run or of an attempt at one.
        """
        if not self.path.is_dir() or (self.path / LOCK_FILE).exists() or self.checkpoints.steps():
            return
        if found := sorted(entry.name for entry in self.path.iterdir()):
            more = ", …" if len(found) > _NAMED else ""
            raise RunError(
                "a new run must have a folder of its own",
                seen=f"{self.path.resolve()} holds {', '.join(found[:_NAMED])}{more}",
                mend="name one that is empty or not there yet with --run DIR (an empty name stands "
                "for the current folder)",
            )

    @classmethod
    def open(cls, path: Path | str) -> RunFolder:
        """The run at `path`, for reading.

        Raises:
            RunError: when there is none.
        """
        run = cls(path)
        if not run.exists():
            raise RunError(
                "A run is a folder with recipe.toml and checkpoints/",
                seen=f"{run.path}" + ("" if run.path.exists() else " (does not exist)"),
                mend="name a folder written by `gnomon train`; `gnomon runs` lists them",
            )
        return run

    def state(self) -> TrainingState | None:
        """Counters of the newest readable checkpoint; None before the first.

        Raises:
            RunError: there are checkpoints, and none can be read.
        """
        unreadable: RunError | None = None
        for step in reversed(self.checkpoints.steps()):
            try:
                return self.checkpoints.state(step)
            except RunError as error:
                unreadable = unreadable or error
        if unreadable is not None:
            raise unreadable
        return None

    def last(self) -> Path:
        """The newest checkpoint.

        Raises:
            RunError: when there is none.
        """
        steps = self.checkpoints.steps()
        if not steps:
            raise RunError(
                "A run needs a checkpoint before its model can be used",
                seen=f"none in {self.checkpoints.folder}",
                mend="train until the first checkpoint (training.checkpoint_every)",
            )
        return self.checkpoints.path(steps[-1])

    def best(self) -> Path:
        """The model that validated best, the newest where there was no validation.

        That is the average where the training made one and it validated better than every step.
        """
        last = self.last()
        average = read_record(self.checkpoints.averaged_path)
        if average is not None and average.is_best:
            return self.checkpoints.averaged_path
        state = self.state()
        if state is None or state.best is None:
            return last
        path = self.checkpoints.path(state.best.step)
        if not path.is_dir():
            raise RunError(
                "The checkpoint of the best validation must still be there",
                seen=f"{path} is missing",
                mend="name another: last, or one of " + self._step_names(),
            )
        return path

    def resolve(self, name: str = "best") -> Path:
        """The checkpoint called `name`: "best", "last", "averaged" or "step-N".

        Zeros of N may be left out.

        Raises:
            RunError: when there is no such checkpoint, with those there are.
        """
        if name == "best":
            return self.best()
        if name == "last":
            return self.last()
        if name == "averaged":
            return self._averaged()
        digits = name.removeprefix("step-")
        if name.startswith("step-") and digits.isdecimal():
            path = self.checkpoints.path(int(digits))
            if path.is_dir():
                return path
        raise RunError(
            "A checkpoint is called best, last, averaged or step-N",
            seen=f"{name} in {self.path}",
            mend="there are " + (self._step_names() or "none yet"),
        )

    def _averaged(self) -> Path:
        path = self.checkpoints.averaged_path
        if not path.is_dir():
            raise RunError(
                "An averaged model must have been made before it is used",
                seen=f"none in {self.checkpoints.folder}",
                mend=f"`gnomon average {self.path} --last 5` makes one, as does training with "
                "averaging.kind = 'last' or 'best'; with 'ema' every checkpoint is an average",
            )
        return path

    def _step_names(self) -> str:
        return ", ".join(f"step-{step}" for step in self.checkpoints.steps())

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Be the only writer while the block runs; may be nested within one RunFolder object.

        The lock belongs to the process and ends with it, however it ends.

        Raises:
            RunError: when another process (or RunFolder object) writes this run, naming it.
        """
        if self._lock_depth:
            self._lock_depth += 1
            try:
                yield
            finally:
                self._lock_depth -= 1
            return
        self.path.mkdir(parents=True, exist_ok=True)
        handle = os.open(self.path / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            self._acquire(handle)
            self._lock_depth = 1
            self.checkpoints.remove_leftovers()
            yield
        finally:
            self._lock_depth = 0
            os.close(handle)  # closing is what releases the lock

    def is_locked(self) -> bool:
        """Whether some process writes this run now; touches nothing on the disk."""
        import fcntl

        try:
            handle = os.open(self.path / LOCK_FILE, os.O_RDONLY)
        except OSError:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(handle)
        return False

    def _acquire(self, handle: int) -> None:
        import fcntl  # POSIX only; reading runs must work without it

        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(handle, 1000).decode("utf-8", "replace").strip()
            raise RunError(
                "Only one process may write a run at a time",
                seen=f"{self.path} is being written by {holder or 'another process'}",
                mend="wait for it, stop it, or write elsewhere with --run",
            ) from error
        note = json.dumps({"pid": os.getpid(), "host": socket.gethostname()})
        os.ftruncate(handle, 0)
        os.pwrite(handle, note.encode() + b"\n", 0)

"""Checkpoints: whole or absent, verified before use, pruned only once a newer one is safe."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from gnomon.errors import ModelError, RunError
from gnomon.files import atomic_folder, sha256_of
from gnomon.model.io import CARD_FILE, WEIGHTS_FILE
from gnomon.training.state import TrainingState
from gnomon.training.task import Task

_FORMAT_VERSION = 1
_NAME = re.compile(r"step-(\d{8,})")
_TENSORS = "training.safetensors"
_RECORD = "training.json"
SHARDS = "optimizer"


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint folder whose files are as they were written."""

    path: Path
    state: TrainingState
    tensors: Mapping[str, Tensor]  # optimizer and generator states
    num_threads: int
    num_ranks: int

    @property
    def shards(self) -> Path | None:
        """Folder with the optimizer's state where all ranks wrote it, and `tensors` lack it."""
        folder = self.path / SHARDS
        return folder if folder.is_dir() else None


class NewerCheckpointError(RunError):
    """A checkpoint of a later gnomon: sound, but not for this one to judge."""


class Checkpoints:
    """The folder `checkpoints/` of a run; holds `step-00000500/` and the like.

    Each of these is a model folder (written by the task) with two more files:
    `training.safetensors` (optimizer and generator states) and `training.json` (counters, best
    validation, versions and the SHA-256 of every file); where several ranks wrote it together,
    `optimizer/` holds the optimizer's state in their parts.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def steps(self) -> list[int]:
        """Steps of all checkpoints, oldest first."""
        if not self.folder.is_dir():
            return []
        names = (_NAME.fullmatch(path.name) for path in self.folder.iterdir())
        return sorted(int(match[1]) for match in names if match)

    def path(self, step: int) -> Path:
        """Folder of the checkpoint after `step` steps."""
        return self.folder / f"step-{step:08d}"

    def newest(self) -> list[Path]:
        """Folders of all checkpoints, newest first."""
        return [self.path(step) for step in reversed(self.steps())]

    @property
    def averaged_path(self) -> Path:
        """Folder of the model whose weights are the mean of several checkpoints'."""
        return self.folder / "averaged"

    def save(
        self,
        task: Task[Any],
        state: TrainingState,
        tensors: Mapping[str, Tensor],
        *,
        num_ranks: int = 1,
    ) -> Path:
        """Write the checkpoint of `state.step`; afterwards it is on the disk, whole."""
        with self.begun(task, state, tensors, num_ranks=num_ranks):
            pass
        return self.path(state.step)

    @contextmanager
    def begun(
        self,
        task: Task[Any],
        state: TrainingState,
        tensors: Mapping[str, Tensor],
        *,
        num_ranks: int,
    ) -> Iterator[Path]:
        """A checkpoint to which the block adds what is not in `tensors`, in `SHARDS`.

        It is on the disk, whole, when the block ends well.
        """
        written_state = state.to_json()  # before the block, in which training may go on
        with atomic_folder(self.path(state.step)) as temporary:
            task.save(temporary)
            save_file(
                {name: tensor.cpu().contiguous() for name, tensor in tensors.items()},
                temporary / _TENSORS,
            )
            yield temporary
            files = sorted(file for file in temporary.rglob("*") if file.is_file())
            record = {
                "format_version": _FORMAT_VERSION,
                "state": written_state,
                "num_threads": torch.get_num_threads(),
                **({"num_ranks": num_ranks} if num_ranks > 1 else {}),
                "versions": {"gnomon": version("gnomon"), "torch": torch.__version__},
                "files": {
                    str(file.relative_to(temporary)): sha256_of(file)
                    for file in files
                    if file.name != CARD_FILE
                },
            }
            (temporary / _RECORD).write_text(json.dumps(record, indent=2) + "\n", "utf-8")

    def state(self, step: int) -> TrainingState:
        """Counters of one checkpoint, without verifying its other files.

        Raises:
            RunError: when `training.json` is damaged or of a later format.
        """
        return TrainingState.from_json(self._record(self.path(step))["state"])

    def load(self, step: int) -> Checkpoint:
        """Verify one checkpoint against its checksums and read it.

        Raises:
            RunError: naming the first file that is missing or differs.
        """
        path = self.path(step)
        record = self._record(path)
        for name, digest in record["files"].items():
            if name == CARD_FILE:
                continue
            file = path / name
            if not file.is_file() or sha256_of(file) != digest:
                raise RunError(
                    "A checkpoint's files must be as they were written",
                    seen=f"{file} is {'damaged' if file.is_file() else 'missing'}",
                    mend=f"remove {path} to continue from the checkpoint before it",
                )
        return Checkpoint(
            path,
            TrainingState.from_json(record["state"]),
            load_file(path / _TENSORS),
            record["num_threads"],
            record.get("num_ranks", 1),
        )

    def load_newest(self) -> tuple[Checkpoint | None, list[str]]:
        """The newest undamaged checkpoint and a sentence for each damaged one passed over.

        Falling back is safe: from an older checkpoint training takes the same steps again. The
        damaged ones are set aside as `damaged-step-…`, so only the run's writer may call this.

        Raises:
            RunError: when there are checkpoints and all are damaged.
        """
        damaged: dict[int, RunError] = {}
        for step in reversed(self.steps()):
            try:
                checkpoint = self.load(step)
            except NewerCheckpointError:
                raise
            except RunError as error:
                damaged[step] = error
            else:
                return checkpoint, [self._set_aside(*item) for item in damaged.items()]
        if damaged:
            raise RunError(
                "A run needs one undamaged checkpoint to continue",
                seen="; ".join(str(error.seen) for error in damaged.values()),
                mend=f"restore one from a backup, or remove {self.folder} to start again",
            )
        return None, []

    def _set_aside(self, step: int, error: RunError) -> str:
        path = self.path(step)
        aside = path.with_name(f"damaged-{path.name}")
        if aside.exists():
            shutil.rmtree(aside)
        path.rename(aside)
        return f"{error.seen}; it is kept as {aside.name} and an older checkpoint is used"

    def prune(self, *, keep_last: int, keep: Collection[int]) -> None:
        """Remove all but the newest `keep_last` checkpoints and those of the steps in `keep`."""
        for step in self.steps()[:-keep_last]:
            if step not in keep:
                shutil.rmtree(self.path(step))

    def remove_leftovers(self) -> None:
        """Remove what a killed process left half written; only while holding the run's lock.

        A checkpoint that was being replaced is put back where its successor did not arrive.
        """
        if self.folder.is_dir():
            for retired in self.folder.glob(".step-*.old"):
                path = self.folder / retired.name[1:].split(".")[0]
                if not path.exists():
                    retired.rename(path)
            for path in [*self.folder.glob(".step-*"), *self.folder.glob(".averaged.*")]:
                shutil.rmtree(path)

    def _record(self, path: Path) -> dict[str, Any]:
        file = path / _RECORD
        try:
            record: dict[str, Any] = json.loads(file.read_text("utf-8"))
            format_version = int(record["format_version"])
            record["files"].items()
            TrainingState.from_json(record["state"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise RunError(
                "A checkpoint must hold a readable training.json",
                seen=f"{file}: {error}",
                mend=f"remove {path} to continue from the checkpoint before it",
            ) from error
        if format_version > _FORMAT_VERSION:
            raise NewerCheckpointError(
                f"This gnomon reads checkpoints up to format {_FORMAT_VERSION}",
                seen=f"format {format_version} in {file}",
                mend="use the gnomon that wrote it, or a newer one",
            )
        return record


def check_weights(folder: Path) -> None:
    """Compare the weights of a checkpoint with the checksum that was written with them.

    A model folder that is no checkpoint has no checksum; nothing is checked there.

    Raises:
        ModelError: they differ: the file was damaged or exchanged.
    """
    try:
        record = json.loads((folder / _RECORD).read_text("utf-8"))
        expected = record["files"][WEIGHTS_FILE]
        found = sha256_of(folder / WEIGHTS_FILE)
    except (OSError, ValueError, KeyError, TypeError):
        return  # what is missing or unreadable is told by whoever needs it
    if found != expected:
        raise ModelError(
            "a checkpoint's weights must be as they were written",
            seen=f"{folder / WEIGHTS_FILE} is damaged or was exchanged",
            mend="use another checkpoint (--checkpoint last), or take the file from a backup",
        )

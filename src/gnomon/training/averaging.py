"""Means of weights: of several checkpoints at the end of a training, or running along with it.

Near the end of a training weights circle around a good point; their mean lies closer to it than
any of them (Polyak & Juditsky 1992; checkpoint averaging: Vaswani et al. 2017, §6.1).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from gnomon.errors import RunError
from gnomon.model import mean_weights
from gnomon.model.io import CARD_FILE, SCORES_HEADING, WEIGHTS_FILE, write_weights
from gnomon.training.checkpoint import SHARDS, check_weights

AVERAGE_FILE = "average.json"
_FORMAT_VERSION = 1
_NOT_THE_MODEL = (AVERAGE_FILE, "training.json", "training.safetensors", SHARDS)


@dataclass(frozen=True, kw_only=True)
class AveragingConfig:
    """Which mean of the weights is shipped; none by default."""

    # last: when training ends, the mean of the newest checkpoints (training.checkpoint_every says
    # how far apart); best: of the checkpoints that validated best; ema: an exponential moving
    # average of all steps, which is then what validation measures and every checkpoint ships.
    kind: Literal["none", "last", "best", "ema"] = "none"
    # Checkpoints in the mean (last, best). So many are kept, whatever training.keep_last says.
    count: int = 8
    # Weight of the past in each step (ema); in step t it is at most (1 + t) / (10 + t), so that
    # the first random weights are soon forgotten.
    decay: float = 0.999

    @property
    def num_newest(self) -> int:
        """How many of the newest checkpoints the end of the training will ask for."""
        return self.count if self.kind == "last" else 1

    @property
    def num_best(self) -> int:
        """How many of the best checkpoints the end of the training will ask for."""
        return self.count if self.kind == "best" else 1

    @property
    def at_end(self) -> bool:
        """Whether an average of checkpoints is made when training ends."""
        return self.kind in ("last", "best")

    def problems(self) -> list[str]:
        """What is wrong with these values, one sentence each; empty when nothing is."""
        found = []
        if not 2 <= self.count <= 1000:
            found.append(f"averaging.count must be from 2 to 1000, seen {self.count}")
        if not 0 < self.decay < 1:
            found.append(
                f"averaging.decay must be above 0 and below 1, seen {self.decay}; "
                "0.999 and 0.9999 are usual"
            )
        return found

    def unused(self) -> list[str]:
        """Fields that these values leave without effect, one sentence each."""
        default = AveragingConfig()
        readers = {"count": ("last", "best"), "decay": ("ema",)}
        return [
            f"averaging.{name} has no effect with averaging.kind = {self.kind!r}"
            for name, kinds in readers.items()
            if self.kind not in kinds and getattr(self, name) != getattr(default, name)
        ]


@dataclass(frozen=True)
class Average:
    """What `average.json` in an averaged model folder says about its making."""

    members: Sequence[str]  # the folders whose weights went in, by name
    metrics: Mapping[str, float] = field(default_factory=dict)  # of validation, where it was made
    is_best: bool = False  # whether it validated better than every step of its training


def write_mean(folders: Sequence[Path], destination: Path) -> None:
    """Fill `destination` with the newest folder's model files and the mean of all their weights.

    Args:
        folders: model folders or checkpoints of one architecture, the newest last.

    Raises:
        ModelError: when weights cannot be read, do not match, or are not as a training wrote them.
    """
    for folder in folders:
        check_weights(folder)
    copy_all_but_weights(folders[-1], destination)
    weights = mean_weights([folder / WEIGHTS_FILE for folder in folders])
    write_weights(weights, destination / WEIGHTS_FILE)


def copy_all_but_weights(source: Path, destination: Path) -> None:
    """Copy what a model folder holds beside its weights; of a checkpoint not its training."""
    for path in source.iterdir():
        if path.name in (*_NOT_THE_MODEL, WEIGHTS_FILE):
            continue
        if path.is_dir():
            shutil.copytree(path, destination / path.name)
        else:
            shutil.copyfile(path, destination / path.name)


def write_record(average: Average, folder: Path) -> None:
    """Say in `folder` how its weights came about."""
    record = {"format_version": _FORMAT_VERSION, **asdict(average)}
    (folder / AVERAGE_FILE).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    card = folder / CARD_FILE
    if card.is_file():
        # Scores on it are those of the checkpoint it was copied from.
        about = card.read_text(encoding="utf-8").partition(SCORES_HEADING)[0].rstrip()
        about += f"\n\nIts weights are the mean of: {', '.join(average.members)}.\n"
        card.write_text(about, encoding="utf-8")


def read_record(folder: Path) -> Average | None:
    """What `write_record` said; None where the folder is not there.

    Raises:
        RunError: when the record is damaged.
    """
    path = folder / AVERAGE_FILE
    try:
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return Average(record["members"], record["metrics"], bool(record["is_best"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(
            "An averaged model must say how it was made",
            seen=f"{path}: {error!r}",
            mend="make it again with `gnomon average`, or name a checkpoint: last or step-N",
        ) from error


class MovingAverage:
    """Exponential moving average of a model's parameters, tied ones once.

    Args:
        model: its parameters stay the same objects; buffers are not averaged.
        decay: see `AveragingConfig.decay`; the bound (1 + t) / (10 + t) is that of TensorFlow's
            ExponentialMovingAverage.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self._decay = decay
        self._parameters = dict(model.named_parameters())
        self._averages = [p.detach().clone() for p in self._parameters.values()]

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Count the weights after step `step` (from 1) in."""
        decay = min(self._decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(self._averages, list(self._parameters.values()), 1 - decay)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Within the block the model has the averaged weights, afterwards its own again."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def state_tensors(self) -> dict[str, Tensor]:
        """The weights that training goes on with, for a checkpoint whose model is the average."""
        return {f"weights/{name}": p.detach().clone() for name, p in self._parameters.items()}

    @torch.no_grad()
    def load_state_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Take the average from the model, which a checkpoint was loaded into, and set it right."""
        for average, (name, parameter) in zip(
            self._averages, self._parameters.items(), strict=True
        ):
            average.copy_(parameter)
            parameter.copy_(tensors[f"weights/{name}"])

    @torch.no_grad()
    def _swap(self) -> None:
        # Values, not storages: whoever holds a view of a parameter keeps holding it.
        for average, parameter in zip(self._averages, self._parameters.values(), strict=True):
            own = parameter.clone()
            parameter.copy_(average)
            average.copy_(own)

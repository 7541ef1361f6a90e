"""Listeners that write curves: a JSON-lines file and TensorBoard."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from gnomon.errors import RunError
from gnomon.files import write_atomically
from gnomon.training.events import (
    AverageRecord,
    Listener,
    LogRecord,
    MonitorRecord,
    StartRecord,
    ValidationRecord,
)

if TYPE_CHECKING:
    from torch.utils.tensorboard.writer import SummaryWriter


class MetricsLog(Listener):
    """One JSON object per event; `kind` is "train", "validation", "average" or a monitor's.

    When a training continues, lines past its checkpoint are cut off: no step appears twice. So is
    an average, which is made again when training ends.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: IO[str] | None = None

    def on_start(self, record: StartRecord) -> None:
        """Cut the file back to the checkpoint's step and open it for more."""
        if self.path.exists():
            kept = [
                line
                for line in read_metrics(self.path)
                if line["step"] <= record.step and line.get("kind") != "average"
            ]
            write_atomically(self.path, "".join(json.dumps(line) + "\n" for line in kept))
        self._file = self.path.open("a", encoding="utf-8")

    def on_log(self, record: LogRecord) -> None:
        """Write a training line."""
        self._write({"kind": "train", **asdict(record)})

    def on_validation(self, record: ValidationRecord) -> None:
        """Write a validation line."""
        self._write({"kind": "validation", **asdict(record)})

    def on_monitor(self, record: MonitorRecord) -> None:
        """Write what a monitor measured, its warning too."""
        values = {"kind": record.kind, "step": record.step, **record.values}
        self._write(values if record.warning is None else {**values, "warning": record.warning})

    def on_average(self, record: AverageRecord) -> None:
        """Write a line for the average."""
        self._write({"kind": "average", **asdict(record), "path": record.path.name})

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _write(self, values: dict[str, Any]) -> None:
        assert self._file is not None, "on_start comes first"
        self._file.write(json.dumps(values) + "\n")
        self._file.flush()


def read_metrics(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a metrics file; half-written or damaged lines are left out."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            try:
                values = json.loads(line)
            except ValueError:
                continue
            if isinstance(values, dict) and isinstance(values.get("step"), int):
                yield values


class TensorBoardLog(Listener):
    """Curves for `tensorboard --logdir`.

    Raises:
        RunError: at once, when the package is not installed.
    """

    def __init__(self, folder: Path) -> None:
        if importlib.util.find_spec("tensorboard") is None:
            raise RunError(
                "Curves for TensorBoard need the package tensorboard",
                mend="pip install tensorboard",
            )
        self.folder = folder
        self._writer: SummaryWriter | None = None

    def on_start(self, record: StartRecord) -> None:
        """Open the event file; steps past the checkpoint are purged from the curves."""
        from torch.utils.tensorboard.writer import SummaryWriter  # a second, so only when needed

        self._writer = SummaryWriter(str(self.folder), purge_step=record.step + 1)

    def on_log(self, record: LogRecord) -> None:
        """Add the training curves."""
        values = {
            "loss": record.loss,
            "nll": record.nll,
            "perplexity": record.perplexity,
            "learning_rate": record.learning_rate,
            "gradient_norm": record.gradient_norm,
            "tokens_per_second": record.tokens_per_second,
            "data_share": record.data_share,
        }
        if record.accuracy is not None:
            values["accuracy"] = record.accuracy
        if record.utilisation is not None and record.padded_utilisation is not None:
            values["utilisation"] = record.utilisation
            values["padded_utilisation"] = record.padded_utilisation
        self._add("train", record.step, values)

    def on_validation(self, record: ValidationRecord) -> None:
        """Add the validation curves."""
        self._add("validation", record.step, dict(record.metrics))

    def on_monitor(self, record: MonitorRecord) -> None:
        """Add a monitor's curves."""
        self._add(record.kind, record.step, dict(record.values))

    def on_average(self, record: AverageRecord) -> None:
        """Add the average's metrics beside those of the validations."""
        self._add("average", record.step, dict(record.metrics))

    def close(self) -> None:
        """Write out what is buffered and close the file."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _add(self, group: str, step: int, values: dict[str, float]) -> None:
        assert self._writer is not None, "on_start comes first"
        for name, value in values.items():
            self._writer.add_scalar(f"{group}/{name}", value, step)

"""The monitors of a gnomon training."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from torch import Tensor

from gnomon.doctor.monitors import continuations
from gnomon.doctor.monitors.attention import Attention
from gnomon.doctor.monitors.autopsy import explain, finding_of, look_into
from gnomon.doctor.monitors.bundle import write_bundle
from gnomon.doctor.monitors.continuations import Continuations
from gnomon.doctor.monitors.free_running import FreeRunning
from gnomon.doctor.monitors.loss_spike import LossSpike
from gnomon.doctor.monitors.monitor import Monitor, sentence
from gnomon.doctor.monitors.outputs import Outputs
from gnomon.doctor.monitors.panel import Panel, generators_kept
from gnomon.doctor.monitors.probing import probing_batch, teacher_forced
from gnomon.doctor.monitors.source import Source
from gnomon.doctor.monitors.translation import sample_of
from gnomon.doctor.monitors.updates import Updates
from gnomon.tasks import (
    ClassificationTask,
    DocumentTask,
    LanguageModellingTask,
    TranslationTask,
)
from gnomon.training import Task
from gnomon.training.events import FailedStep, MonitorRecord, StepRecord, ValidationRecord
from gnomon.training.generators import restore_generator_states
from gnomon.training.run import RunFolder


class RunMonitors:
    """Follows the training of a task (see `training.events.Monitors`).

    Args:
        task: a translation or a language model, whose outputs are looked at, too, a classification
            or an encoder's pretraining.
        run: where crash bundles go, to `bundles/`.
        every: steps between looks.
    """

    def __init__(
        self,
        task: TranslationTask | ClassificationTask | DocumentTask,
        run: RunFolder,
        *,
        every: int,
    ) -> None:
        self.task, self.run = task, run
        look = _look(task)
        watching: list[Monitor] = [
            Updates(task.model),
            LossSpike(),
            Attention(task.model, look),
        ]
        if isinstance(task, TranslationTask):
            watching += [Source(), Outputs(), FreeRunning()]
        elif isinstance(task, LanguageModellingTask):
            watching += [Continuations(), FreeRunning()]
        self.panel = Panel(watching, every=every)

    def on_gradients(self, step: int) -> None:
        """See `Monitors`."""
        self.panel.on_gradients(step)

    def on_step(self, record: StepRecord) -> Iterable[MonitorRecord]:
        """See `Monitors`."""
        return self.panel.on_step(record.step, record.nll, record.learning_rate)

    def on_validation(self, record: ValidationRecord) -> Iterable[MonitorRecord]:
        """See `Monitors`."""
        with generators_kept():
            if isinstance(self.task, TranslationTask):
                sample = sample_of(self.task)
            elif isinstance(self.task, LanguageModellingTask):
                sample = continuations.sample_of(self.task)
            else:
                return ()
        return self.panel.on_validation(record.step, sample)

    def on_failed_step(self, failed: FailedStep) -> str | None:
        """Write the bundle of this step."""
        device = next(self.task.model.parameters()).device
        autopsy = look_into(
            self.task.model,
            failed.again,
            before_each=lambda: restore_generator_states(failed.generators, device),
        )
        seen = f"step {failed.step}: loss {failed.loss:g}, gradient norm {failed.gradient_norm:g}"
        finding = finding_of(explain(autopsy, seen))
        path = write_bundle(
            self.run.path,
            kind="gnomon",
            step=failed.step,
            finding=finding,
            batch=_tensors(failed.batches),
            generators=failed.generators,
            save_model=self._save,
            recipe=self.run.recipe_path,
            precision=failed.precision,
            num_tokens=failed.num_tokens,
            num_batches=len(failed.batches),
            lines=failed.lines,
        )
        return f"{sentence(finding)}\n  look into it with: gnomon doctor {path}"

    def _save(self, folder: Path) -> None:
        self.task.save(folder)


def _look(task: Task[Any]) -> Callable[[], Tensor]:
    """A forward pass of a few of the task's examples."""
    return teacher_forced(task, probing_batch(task))


def _tensors(batches: Iterable[object]) -> dict[str, Tensor]:
    """The tensors of each batch: "0.source", "0.target" …"""
    return {
        f"{number}.{name}": value
        for number, batch in enumerate(batches)
        for name, value in vars(batch).items()
        if isinstance(value, Tensor)
    }

"""The monitors for a training loop of one's own."""

from __future__ import annotations

import json
import math
import sys
import warnings
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from gnomon.doctor.call import Call, Key
from gnomon.doctor.finding import Finding, Skip
from gnomon.doctor.inputs import call_of, named
from gnomon.doctor.monitors.attention import Attention
from gnomon.doctor.monitors.autopsy import FAULT, explain, finding_of, look_into
from gnomon.doctor.monitors.bundle import save_weights, write_bundle
from gnomon.doctor.monitors.free_running import FreeRunning
from gnomon.doctor.monitors.layers import trained
from gnomon.doctor.monitors.loss_spike import LossSpike
from gnomon.doctor.monitors.monitor import Sample, sentence
from gnomon.doctor.monitors.outputs import Outputs
from gnomon.doctor.monitors.panel import Panel
from gnomon.doctor.monitors.replay import run_again
from gnomon.doctor.monitors.source import Source
from gnomon.doctor.monitors.updates import Updates
from gnomon.doctor.patient import Patient
from gnomon.doctor.restore import untouched
from gnomon.errors import TrainingStopped
from gnomon.training.events import MonitorRecord
from gnomon.training.generators import generator_states, restore_generator_states

_MOST_PASSES = 64  # micro-batches of one step that are remembered
_ROWS = 8  # of the batch by which attention is looked at


class _Pass(NamedTuple):
    """One forward pass: references to its inputs, and what it takes to draw the same numbers."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    generators: dict[str, Tensor]
    autocast: str | None


class TrainingMonitor:
    """Watches a model and its optimizer through a loop that is not gnomon's.

        monitor = gnomon.watch(model, optimizer, folder="runs/mine")
        for batch in batches:
            loss = loss_of(model(batch))
            loss.backward()
            monitor.step(loss)          # after backward, before the optimizer's step
            optimizer.step()
            optimizer.zero_grad()

    Hooks on the model and the optimizer see inputs and updates; nothing in them is changed.

    Args:
        every: steps between the looks that cost something.
        loss: from the model's output to the loss; with it a failed step's backward pass can be run
            again. Models whose output has a `loss` need none.
        scaler: the gradient scaler of an fp16 training: infinite gradients are its business.
        folder: where `monitors.jsonl` and crash bundles go; None: nowhere.
        log: told every measurement as a dict with "kind" and "step".
        say: told each warning, once; default `warnings.warn`.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        *,
        every: int = 50,
        loss: Callable[[Any], Tensor] | None = None,
        scaler: Any = None,
        folder: str | Path | None = None,
        log: Callable[[Mapping[str, Any]], None] | None = None,
        say: Callable[[str], None] | None = None,
    ) -> None:
        self.model, self.optimizer = model, optimizer
        self.num_steps = 0
        self._loss, self._scaler = loss, scaler
        self._folder = Path(folder) if folder is not None else None
        self._log, self._say = log, say or partial(warnings.warn, stacklevel=3)
        self._passes: deque[_Pass] = deque(maxlen=_MOST_PASSES)
        self._probing: Call | None = None
        self._value: float | None = None
        self._device = next(model.parameters()).device
        self.panel = Panel(
            [
                Updates(model),
                LossSpike(),
                Attention(model, self._look),
                Source(),
                Outputs(),
                FreeRunning(),
            ],
            every=every,
        )
        self._handles = [
            model.register_forward_pre_hook(self._before_forward, with_kwargs=True),
            optimizer.register_step_post_hook(self._after_step),
        ]

    @property
    def findings(self) -> Mapping[str, Finding]:
        """What was found so far, by code."""
        return self.panel.findings

    def step(self, loss: Tensor | float) -> None:
        """Look at this step: call it after the backward pass and before the optimizer's step.

        Args:
            loss: of the step (of several micro-batches, their mean).

        Raises:
            TrainingStopped: loss or gradients are not finite. The weights are still those of the
                step before; the message names the first module, the cause and the mend.
        """
        self.num_steps += 1
        value = torch.as_tensor(loss, device=self._device).detach().float()
        norm = value.new_zeros(()) if self._scaler is not None else self._gradient_norm()
        self._value, gradient_norm = torch.stack([value, norm]).tolist()  # one wait
        if not (math.isfinite(self._value) and math.isfinite(gradient_norm)):
            raise self._stopped(f"loss {self._value:g}, gradient norm {gradient_norm:g}")
        if self.panel.is_due(self.num_steps):
            self._choose_probing()
        self.panel.on_gradients(self.num_steps)
        self._passes.clear()

    def validation(
        self,
        *,
        sources: Sequence[str] = (),
        references: Sequence[str] = (),
        hypotheses: Sequence[str] = (),
        nll: float | None = None,
        nll_of_shuffled: float | None = None,
        accuracy: float | None = None,
    ) -> None:
        """Tell what a validation measured; see `Sample` for each. All of it is optional."""
        sample = Sample(sources, references, hypotheses, nll, nll_of_shuffled, accuracy)
        self._tell(self.panel.on_validation(self.num_steps, sample))

    def close(self) -> None:
        """Take the hooks away."""
        for handle in self._handles:
            handle.remove()
        self._passes.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # What the hooks see

    def _before_forward(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        if module.training and torch.is_grad_enabled():
            kind = self._device.type
            on = torch.is_autocast_enabled(kind)
            name = str(torch.get_autocast_dtype(kind)).removeprefix("torch.") if on else None
            self._passes.append(_Pass(args, kwargs, generator_states(self._device), name))

    def _after_step(self, *_: object) -> None:
        if self._value is None:
            return
        rate = float(self.optimizer.param_groups[0]["lr"])
        self._tell(self.panel.on_step(self.num_steps, self._value, rate))
        self._value = None

    def _choose_probing(self) -> None:
        """Some rows of the first batch that is looked at: the same for the whole training."""
        if self._probing is not None or not self._passes:
            return
        seen = self._passes[0]
        values: dict[Key, Any] = named(self.model, seen.args) if seen.args else {}
        values.update(seen.kwargs.items())
        try:
            call = call_of(Patient(module=self.model), values)
            self._probing = call.rows(range(min(_ROWS, call.num_rows())))
        except (Skip, ValueError, IndexError, RuntimeError):  # inputs of an unusual form
            return

    def _look(self) -> None:
        if self._probing is not None:
            self.model(*self._probing.args, **self._probing.kwargs)

    def _gradient_norm(self) -> Tensor:
        gradients = [p.grad for p in trained(self.model).values() if p.grad is not None]
        dense = [g.coalesce().values() if g.is_sparse else g for g in gradients]
        if not dense:
            return torch.zeros((), device=self._device)
        return torch.nn.utils.get_total_norm(dense).float().to(self._device)

    def _tell(self, records: Sequence[MonitorRecord]) -> None:
        for record in records:
            values = {"kind": record.kind, "step": record.step, **record.values}
            if record.warning is not None:
                values["warning"] = record.warning
                self._say(record.warning)
            if self._log is not None:
                self._log(values)
            if self._folder is not None:
                self._folder.mkdir(parents=True, exist_ok=True)
                with (self._folder / "monitors.jsonl").open("a", encoding="utf-8") as file:
                    file.write(json.dumps(values) + "\n")

    # Trouble

    def _stopped(self, seen: str) -> TrainingStopped:
        found = f"step {self.num_steps}: {seen}"
        guilty: _Pass | None = None
        finding: Finding | None = None
        gradients = {n: p.grad for n, p in self.model.named_parameters() if p.grad is not None}
        passes = list(self._passes)  # running again adds to them
        for each in passes:
            again = (self.model, each.args, each.kwargs, self._loss, each.autocast)
            with untouched(self.model):
                autopsy = look_into(
                    self.model,
                    partial(run_again, *again),
                    before_each=partial(restore_generator_states, each.generators, self._device),
                )
            if autopsy.first is not None:
                guilty, finding = each, finding_of(explain(autopsy, found))
                break
        if finding is None or guilty is None:
            finding = _outside(found, self._value, gradients)
            guilty = passes[-1] if passes else None
        self.panel.findings["non-finite"] = finding
        note = ""
        if self._folder is not None and guilty is not None:
            path = self._write(guilty, finding)
            note = f"; look into it with: gnomon doctor {path}"
            if (file := _file_of(self.model)) and not _is_described(self.model):
                note += f" --code {file.name}:FUNCTION, which returns the model anew"
        return TrainingStopped(
            "Loss and gradients must be finite",
            seen=f"{sentence(finding)}",
            mend=f"the step was not taken: the weights are those of the step before{note}",
        )

    def _write(self, guilty: _Pass, finding: Finding) -> Path:
        assert self._folder is not None
        batch = {f"arg.{n}": v for n, v in enumerate(guilty.args) if isinstance(v, Tensor)}
        batch |= {f"kw.{n}": v for n, v in guilty.kwargs.items() if isinstance(v, Tensor)}
        others = {n: v for n, v in guilty.kwargs.items() if not isinstance(v, Tensor)}
        plain = {n: v for n, v in others.items() if isinstance(v, bool | int | float | str)}
        config: Any = getattr(self.model, "config", None)
        described = _is_described(self.model)
        file = _file_of(self.model)

        def save(folder: Path) -> None:
            save_weights(self.model, folder)
            if described:
                named_config = type(config).from_dict(config.to_dict())
                named_config.architectures = [type(self.model).__name__]
                named_config.to_json_file(folder / "config.json")

        return write_bundle(
            self._folder,
            kind="huggingface" if described else "module",
            step=self.num_steps,
            finding=finding,
            batch=batch,
            generators=guilty.generators,
            save_model=save,
            model_class=f"{type(self.model).__module__}.{type(self.model).__qualname__}",
            model_file=str(file) if file is not None else None,
            dtype=str(next(self.model.parameters()).dtype).removeprefix("torch."),
            autocast=guilty.autocast,
            plain_inputs=plain,
            left_out=sorted({*others} - {*plain}),
        )


def _is_described(model: nn.Module) -> bool:
    """Whether a configuration is saved from which the model can be built without its code."""
    config = getattr(model, "config", None)
    return hasattr(config, "to_json_file") and hasattr(config, "model_type")


def _file_of(model: nn.Module) -> Path | None:
    """The Python file that the model's class stands in."""
    file = getattr(sys.modules.get(type(model).__module__), "__file__", None)
    return Path(file).resolve() if file else None


def _outside(seen: str, loss: float | None, gradients: Mapping[str, Tensor]) -> Finding:
    """The forward pass is finite: what loss and gradients themselves tell."""
    bad = [name for name, g in gradients.items() if not bool(_dense(g).isfinite().all())]
    if loss is None or not math.isfinite(loss):
        where: tuple[str, ...] = ()
        cause = "It arises behind the model, in the loss function: a logarithm of 0, a division "
        cause += "by 0 tokens, or a label whose logit is −inf."
        mend = "Compute the loss in fp32 from logits (cross_entropy), divide by max(1, tokens). "
    else:
        where = tuple(bad[-1:])  # the last one forward is the first one backward
        cause = "Outputs and loss are finite: the gradient becomes NaN or infinite on its way back "
        cause += "(a root or division whose operand is 0, or a loss too large for the format)."
        mend = ""
    return Finding(
        code="non-finite",
        group="training",
        title=FAULT,
        verdict="fail",
        evidence=f"{seen}; run again, every module's output is finite"
        + (f"; {len(bad)} parameters have a gradient that is not" if bad else ""),
        where=where,
        cause=cause,
        mend=f"{mend}Pass the loss function (`gnomon.watch(…, loss=…)`): then the loss and its "
        "backward pass are run again, too, and the operation is named.",
        reference="pytorch: torch.autograd.detect_anomaly",
    )


def _dense(gradient: Tensor) -> Tensor:
    return gradient.coalesce().values() if gradient.is_sparse else gradient


def watch(model: nn.Module, optimizer: Optimizer, **options: Any) -> TrainingMonitor:
    """Watch a training loop of one's own; see `TrainingMonitor` for the options."""
    return TrainingMonitor(model, optimizer, **options)

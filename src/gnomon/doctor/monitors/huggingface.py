"""The monitors as a callback of Hugging Face's `Trainer`. Importing this imports transformers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import TrainerCallback

from gnomon.doctor.monitors.watch import TrainingMonitor


class MonitorCallback(TrainerCallback):  # type: ignore[misc, unused-ignore]
    """`Trainer(…, callbacks=[MonitorCallback(folder="runs/mine")])`.

    The loss is what the model's output says, so it needs `labels` among its inputs.

    Args:
        options: see `TrainingMonitor`; `scaler` is for fp16 with a gradient scaler.

    Raises:
        TrainingStopped: from within `train`, at the first step that is not finite; the weights
            are still those of the step before.
    """

    def __init__(self, **options: Any) -> None:
        self.options = options
        self.monitor: TrainingMonitor | None = None
        self._losses: list[Tensor] = []
        self._handle: Any = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin to watch the model and its optimizer."""
        model, optimizer = kwargs["model"], kwargs["optimizer"]
        optimizer = getattr(optimizer, "optimizer", optimizer)  # accelerate wraps it
        self.monitor = TrainingMonitor(model, optimizer, **self.options)
        self.monitor.num_steps = state.global_step
        self._handle = model.register_forward_hook(self._after_forward)

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The gradients of a step are there."""
        if self.monitor is not None and self._losses:
            loss = torch.stack(self._losses).mean()
            self._losses.clear()
            self.monitor.step(loss)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Take the hooks away."""
        if self.monitor is not None:
            self.monitor.close()
            self._handle.remove()

    def _after_forward(self, module: torch.nn.Module, inputs: Any, output: Any) -> None:
        loss = getattr(output, "loss", None)
        if loss is not None and module.training and torch.is_grad_enabled():
            self._losses.append(loss.detach().float())

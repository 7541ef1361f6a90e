"""A task so small that a training takes a second: sequences that count upwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional

from gnomon.model.flops import TextLengths
from gnomon.training.averaging import AveragingConfig
from gnomon.training.config import TrainingConfig
from gnomon.training.distributed import DistributedConfig, joined
from gnomon.training.events import Outcome
from gnomon.training.loop import Trainer
from gnomon.training.memory import MemoryConfig
from gnomon.training.objective import ObjectiveConfig
from gnomon.training.optimizers import OptimizerConfig
from gnomon.training.run import RunFolder
from gnomon.training.schedule import ScheduleConfig

PAD, BOS, EOS, VOCAB = 0, 2, 3, 16


@dataclass
class TinyBatch:
    target: Tensor
    line_numbers: list[int]

    def to(self, device: torch.device) -> TinyBatch:
        return TinyBatch(self.target.to(device), self.line_numbers)

    def repeated(self, times: int) -> TinyBatch:
        return TinyBatch(self.target.repeat(times, 1), self.line_numbers * times)


class TinyModel(nn.Module):
    def __init__(self, *, dropout: float = 0.1, tied: bool = True, layer_drop: float = 0.0) -> None:
        super().__init__()
        owners = ["source"] if tied else ["output", "source"]
        self.tables = nn.ParameterDict({o: nn.Parameter(torch.randn(VOCAB, 8)) for o in owners})
        self.inner = nn.Linear(8, 8)
        self.dropout = nn.Dropout(dropout)
        self.layer_drop = layer_drop  # drawn as the model's stacks draw it
        self.norm = nn.LayerNorm(8)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = functional.embedding(inputs, self.tables["source"])
        if not (self.training and self.layer_drop and torch.rand(()).item() < self.layer_drop):
            hidden = hidden + self.dropout(torch.tanh(self.inner(hidden)))
        hidden = self.norm(hidden)
        table = self.tables["output" if "output" in self.tables else "source"]
        return functional.linear(hidden, table)


class TinyTask:
    """Sequences that count upwards modulo the vocabulary, of several lengths."""

    pad_id = PAD
    unit = "target tok"
    class_weights = None

    def __init__(
        self, *, seed: int = 1, num_examples: int = 60, batch_size: int = 4, **model: Any
    ) -> None:
        torch.manual_seed(seed)
        self.model = TinyModel(**model)
        generator = torch.Generator().manual_seed(0)
        self.examples = []
        for _ in range(num_examples):
            length = int(torch.randint(1, 9, (), generator=generator))
            start = int(torch.randint(4, VOCAB, (), generator=generator))
            tokens = [(start + i - 4) % (VOCAB - 4) + 4 for i in range(length)]
            self.examples.append(torch.tensor([BOS, *tokens, EOS]))
        self.batch_size = batch_size

    def epoch(self, number: int) -> Sequence[Sequence[Any]]:
        order = torch.randperm(
            len(self.examples), generator=torch.Generator().manual_seed(number)
        ).tolist()
        size = self.batch_size
        middle = len(order) // 2 // size * size
        parts = (order[:middle], order[middle:])
        return [[part[i : i + size] for i in range(0, len(part), size)] for part in parts if part]

    def lengths(self, spec: list[int]) -> TextLengths:
        return TextLengths(np.array([len(self.examples[i]) - 1 for i in spec]))

    def collate(self, spec: list[int]) -> TinyBatch:
        rows = [self.examples[i] for i in spec]
        target = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)
        return TinyBatch(target, [i + 1 for i in spec])

    def target(self, batch: TinyBatch) -> Tensor:
        return batch.target

    def outputs(self, batch: TinyBatch, inputs: Tensor, keep: Tensor) -> Tensor:
        return self.predict(batch, inputs, keep)

    def predict(self, batch: TinyBatch, inputs: Tensor, keep: Tensor) -> Tensor:
        return self.model(inputs)[keep]

    def describe(self, batch: TinyBatch) -> str:
        return f"lines {batch.line_numbers}"

    def save(self, folder: Path) -> None:
        state = {n: p.detach().contiguous() for n, p in self.model.named_parameters()}
        save_file(state, folder / "model.safetensors")

    def load(self, folder: Path) -> None:
        parameters = dict(self.model.named_parameters())
        with torch.no_grad():
            for name, tensor in load_file(folder / "model.safetensors").items():
                parameters[name].copy_(tensor)


def trainer(run: RunFolder | Path, task: TinyTask | None = None, **settings: Any) -> Trainer:
    """A Trainer in fp32 whose [training] table, and the rest by name, can be set."""
    rest = {
        "objective": ObjectiveConfig(),
        "optimizer": OptimizerConfig(),
        "averaging": AveragingConfig(),
        "memory": MemoryConfig(),
        "distributed": None,
        "world": None,
        "schedule": ScheduleConfig(kind="constant", peak=1e-2, warmup_steps=0).build(
            d_model=8, max_steps=100
        ),
        "validate": None,
        "listeners": (),
    }
    rest = {name: settings.pop(name, value) for name, value in rest.items()}
    training = TrainingConfig(
        **{"precision": "fp32", "device": "cpu", "max_steps": 100, **settings}
    )
    run = run if isinstance(run, RunFolder) else RunFolder(run)
    return Trainer(task or TinyTask(), run, training=training, **rest)


def fit_as_rank(path: Path, task: TinyTask | None = None, **settings: Any) -> Outcome:
    """Train as one of the ranks that the process group knows."""
    distributed = settings.pop("distributed", None) or DistributedConfig(heartbeat_seconds=0)
    with joined(distributed, torch.device("cpu"), path) as world:
        training = trainer(path, task, world=world, distributed=distributed, **settings)
        return training.fit()

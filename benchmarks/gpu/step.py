"""Steps of gnomon's own training loop on random ids, and what they cost."""

from __future__ import annotations

import gc
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gnomon.model import Projection, Transformer, TransformerConfig
from gnomon.model.attention import AttentionConfig
from gnomon.model.feedforward import FeedForwardConfig
from gnomon.model.flops import TextLengths
from gnomon.model.norm import NormConfig
from gnomon.training import (
    Listener,
    LogRecord,
    MemoryConfig,
    ObjectiveConfig,
    OptimizerConfig,
    RunFolder,
    ScheduleConfig,
    StepRecord,
    Trainer,
    TrainingConfig,
)


@dataclass(frozen=True)
class Size:
    """A model and its batches, which are full: no padding."""

    layers: int
    width: int
    heads: int
    vocab: int
    rows: int
    length: int
    warm_up: int = 6  # steps that are not timed
    timed: int = 12


SIZES = {
    "base": Size(6, 512, 8, 32_000, rows=256, length=128),
    "big": Size(6, 1024, 16, 32_000, rows=128, length=128),
    "small": Size(3, 256, 4, 8_000, rows=256, length=64),
    "tiny": Size(1, 32, 2, 200, rows=4, length=8, warm_up=1, timed=2),
}


def build(size: Size, *, family: str = "encoder_decoder", dropout: float = 0.1) -> Transformer:
    torch.manual_seed(0)
    layers = {"num_decoder_layers": size.layers}
    if family == "encoder_decoder":
        layers["num_encoder_layers"] = size.layers
    return Transformer(
        TransformerConfig(
            family=family,
            vocab_size=size.vocab,
            d_model=size.width,
            dropout=dropout,
            tie="all" if family == "encoder_decoder" else "decoder",
            attention=AttentionConfig(num_heads=size.heads),
            feedforward=FeedForwardConfig(size=4 * size.width),
            norm=NormConfig(placement="pre"),
            **layers,
        )
    )


@dataclass
class Ids:
    """A batch of random ids."""

    source: Tensor
    target: Tensor

    def to(self, device: torch.device) -> Ids:
        return Ids(self.source.to(device), self.target.to(device))

    def repeated(self, times: int) -> Ids:
        return Ids(self.source.repeat(times, 1), self.target.repeat(times, 1))


class RandomTask:
    """Always the same batch."""

    pad_id = 0
    unit = "target tok"
    class_weights = None

    def __init__(self, model: Transformer, rows: int, length: int) -> None:
        self.model = model
        self.shape = (rows, length)
        vocab = model.config.output_vocab_size()
        self.batch = Ids(
            torch.randint(4, vocab, self.shape), torch.randint(4, vocab, (rows, length + 1))
        )

    def epoch(self, number: int) -> list[list[int]]:
        return [[0] * 1000]

    def lengths(self, spec: int) -> TextLengths:
        rows, length = self.shape
        side = np.full(rows, length)
        return TextLengths(side, side if self.model.encoder is not None else None)

    def collate(self, spec: int) -> Ids:
        return self.batch

    def target(self, batch: Ids) -> Tensor:
        return batch.target

    def outputs(self, batch: Ids, inputs: Tensor, keep: Tensor) -> Projection:
        if self.model.encoder is None:
            return self.model.projection(self.model.decode(inputs)[keep])
        memory = self.model.encode(batch.source)
        hidden = self.model.decode(inputs, memory, self.model.keep(batch.source))
        return self.model.projection(hidden[keep])

    def predict(self, batch: Ids, inputs: Tensor, keep: Tensor) -> Tensor:
        raise AssertionError("the loss asks for outputs")

    def describe(self, batch: Ids) -> str:
        return "random ids"

    def save(self, folder: Path) -> None:
        raise AssertionError("it ends before a checkpoint is due")

    load = save


class Ended(Exception):
    """The steps that are timed are taken."""


@dataclass
class Watch(Listener):
    """Ends the training after its second log line, which is that of the timed steps."""

    size: Size
    started: float = 0.0
    seconds: float = 0.0
    num_tokens: int = 0
    logs: list[LogRecord] = field(default_factory=list)

    def on_step(self, record: StepRecord) -> None:
        if record.step > self.size.warm_up:
            self.num_tokens += record.num_tokens
        if record.step == self.size.warm_up:
            self.started = now()

    def on_log(self, record: LogRecord) -> None:
        self.logs.append(record)
        if record.step == self.size.warm_up + self.size.timed:
            self.seconds = now() - self.started
            raise Ended


def now() -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


@dataclass(frozen=True)
class Cost:
    """Of a step."""

    tokens_per_second: float  # of the target
    utilisation: float | None  # of the matmul ceiling in the same number format
    peak_gb: float | None
    rows: int  # of a batch: halved until it fits


def cost(
    size: Size,
    device: str,
    *,
    family: str = "encoder_decoder",
    rows: int | None = None,
    length: int | None = None,
    memory: MemoryConfig | None = None,
    around: Any = nullcontext,
    **training: Any,
) -> Cost:
    """Take some steps; with fewer rows if there is not memory enough.

    Args:
        around: a context manager for all of it.
        training: fields of `TrainingConfig`.
    """
    rows = rows or size.rows
    while True:
        try:
            with around(), tempfile.TemporaryDirectory() as folder, measured(device) as peak:
                task = RandomTask(build(size, family=family), rows, length or size.length)
                watch = Watch(size)
                trainer = Trainer(
                    task,
                    RunFolder(Path(folder) / "run"),
                    training=TrainingConfig(
                        device=device,
                        max_steps=10**6,
                        log_every=1,
                        checkpoint_every=10**6,
                        **training,
                    ),
                    objective=ObjectiveConfig(),
                    optimizer=OptimizerConfig(),
                    schedule=ScheduleConfig(kind="constant", peak=1e-4, warmup_steps=1).build(
                        d_model=size.width, max_steps=10**6
                    ),
                    memory=memory,
                    listeners=[watch],
                )
                with suppress(Ended):
                    trainer.fit()
                shares = [log.utilisation for log in watch.logs[size.warm_up :]]
                known = [share for share in shares if share is not None]
                return Cost(
                    watch.num_tokens / watch.seconds,
                    float(np.median(known)) if known else None,
                    peak(),
                    rows,
                )
        except torch.OutOfMemoryError:
            if rows < 2:
                raise
            rows //= 2


@contextmanager
def measured(device: str) -> Iterator[Any]:
    """Give a function that says the peak of memory since, in GB; None on a CPU."""
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    yield lambda: torch.cuda.max_memory_allocated() / 1e9 if device == "cuda" else None

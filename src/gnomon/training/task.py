"""What the loop asks of a task: batches, teacher-forced logits, folders to save and load."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

import torch
from torch import Tensor, nn

from gnomon.model import Projection
from gnomon.model.flops import TextLengths


class Batch(Protocol):
    """Tensors of one micro-batch that can move to a device together."""

    def to(self, device: torch.device) -> Self:
        """The same batch with its tensors on `device`."""
        ...

    def repeated(self, times: int) -> Self:
        """A batch that holds this one's rows `times` times over, whole copies one after another."""
        ...


BatchT = TypeVar("BatchT", bound=Batch)


class Task(Protocol[BatchT]):
    """A trainable task; implemented structurally, nothing has to inherit from it.

    Everything random inside it is drawn from torch's own generators, whose state is saved with
    every checkpoint; `epoch` draws from none, so that a continued run sees the same batches.
    """

    @property
    def model(self) -> nn.Module:
        """The network; its parameters stay the same objects as long as it trains."""
        ...

    @property
    def pad_id(self) -> int:
        """The id that marks positions of `target` which are no tokens."""
        ...

    @property
    def unit(self) -> str:
        """What the objective counts, as a speed has it: "target tok", "labels"."""
        ...

    @property
    def class_weights(self) -> Tensor | None:
        """By how much each class of the logits counts in the loss, [V]; None: all alike."""
        ...

    def epoch(self, number: int) -> Sequence[Sequence[Any]]:
        """The parts of epoch `number` (from 0), each some batches: the indices of their examples.

        A pure function of seed and number. A part may be made when it is asked for, so that a long
        epoch need not be held as a whole; each part holds at least one batch. A description
        is cut as an array is.
        """
        ...

    def lengths(self, spec: Any) -> TextLengths:
        """Tokens of these examples as they stand in a batch, without making it."""
        ...

    def collate(self, spec: Any) -> BatchT:
        """The batch of these examples, on the CPU."""
        ...

    def target(self, batch: BatchT) -> Tensor:
        """LongTensor [B, T+1]: BOS, tokens, EOS, then `pad_id`."""
        ...

    def predict(self, batch: BatchT, inputs: Tensor, keep: Tensor) -> Tensor:
        """Teacher-forced logits [M, V] at the M positions where `keep` is True, in row order.

        Args:
            batch: the micro-batch (for whatever `inputs` are conditioned on).
            inputs: [B, T] target ids shifted right.
            keep: [B, T] boolean, True where there is a token to predict.
        """
        ...

    def outputs(self, batch: BatchT, inputs: Tensor, keep: Tensor) -> Tensor | Projection:
        """What the loss is taken of: the logits of `predict`, or what they are the product of.

        Then the loss makes them some rows at a time.
        """
        ...

    def describe(self, batch: BatchT) -> str:
        """Which examples these are (files and line numbers), for error messages."""
        ...

    def save(self, folder: Path) -> None:
        """Write a model folder (configuration, weights, tokenizer, card) into `folder`."""
        ...

    def load(self, folder: Path) -> None:
        """Put the weights of a folder written by `save` into `model`, in place, bit for bit."""
        ...

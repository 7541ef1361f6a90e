"""The one owner of shift, label smoothing, padding exclusion and normalisation of the loss."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from gnomon.model import Projection
from gnomon.training.cross_entropy import paired_cross_entropy, smoothed_cross_entropy
from gnomon.training.projected_loss import projected_loss

# (inputs [B, T], keep [B, T]) → logits [M, V] at the kept positions, in row order, or what they are
# the product of. Where the objective makes several passes they come as more rows:
# [num_passes · B, T], pass after pass.
Outputs = Callable[[Tensor, Tensor], Tensor | Projection]


@dataclass(frozen=True, kw_only=True)
class ObjectiveConfig:
    """What the model is trained to minimise."""

    # α: the share of each target distribution spread evenly over the vocabulary.
    label_smoothing: float = 0.1
    # α of R-Drop (Liang et al. 2021): each text passes twice under different dropout, and this
    # weighs how far the two predictions differ. A step costs twice the time and memory. 5 is the
    # paper's value for translation, 0 turns it off.
    r_drop: float = 0.0

    def problems(self) -> list[str]:
        """What is wrong with these values, one sentence each; empty when nothing is."""
        found = []
        if not 0 <= self.label_smoothing < 1:
            found.append(
                "objective.label_smoothing must be at least 0 and below 1, "
                f"seen {self.label_smoothing}; 0.1 is the usual value, 0 turns it off"
            )
        if not 0 <= self.r_drop < math.inf:
            found.append(
                f"objective.r_drop must be a number from 0 up, seen {self.r_drop}; "
                "5 is the usual value, 0 turns it off"
            )
        return found


@dataclass(frozen=True)
class LossSums:
    """Sums over the real target tokens of a micro-batch: add them up, then divide once.

    `loss` carries the gradient, `nll` (nats, no smoothing) does not; both stay on the device.
    `num_tokens` is a shape, known without waiting for the device.
    """

    loss: Tensor
    nll: Tensor
    num_tokens: int
    num_correct: Tensor | None = None  # top-1 hits, only when asked for


class Objective:
    """Teacher forcing with label smoothing over real target tokens, with R-Drop if asked for.

    Args:
        pad_id: marks what is no token, see `Task.pad_id`.
        class_weights: fp32 [V], by which a token counts in the loss (not in the nll), 1 on average.
        chunk: see `projected_loss`.
    """

    def __init__(
        self,
        config: ObjectiveConfig,
        *,
        pad_id: int,
        class_weights: Tensor | None = None,
        chunk: int | None = None,
    ) -> None:
        self.config = config
        self.pad_id = pad_id
        self.class_weights = class_weights
        self.chunk = chunk
        assert class_weights is None or not config.r_drop, "a recipe refuses the two together"

    @property
    def num_passes(self) -> int:
        """How often each text goes through the model, in one batch so many times as large."""
        return 2 if self.config.r_drop else 1

    def num_tokens(self, target: Tensor) -> int:
        """How many tokens of `target` [B, T+1] are predicted: all but the first and padding."""
        return int((target[:, 1:] != self.pad_id).sum())

    def __call__(
        self, target: Tensor, outputs: Outputs, *, count_correct: bool = False
    ) -> LossSums:
        """Loss sums of one micro-batch.

        Args:
            target: LongTensor [B, T+1]: BOS, tokens, EOS, padding.
            outputs: of the task, see `Task.outputs`, of the micro-batch repeated `num_passes`
                times.
            count_correct: also count top-1 hits (of the first pass), which costs a pass over the
                logits.
        """
        inputs, labels = target[:, :-1], target[:, 1:]
        keep = labels != self.pad_id
        kept_labels = labels[keep]
        passes = self.num_passes
        found = outputs(inputs.repeat(passes, 1), keep.repeat(passes, 1))
        count = len(kept_labels)
        rows_loss = partial(self._rows_loss, kept_labels, count_correct)
        if isinstance(found, Projection):
            loss, sums = projected_loss(found, count, rows_loss, self.chunk)
        else:
            loss, sums = rows_loss(found, slice(0, count))
        return LossSums(loss, sums[0], count, sums[1].long() if count_correct else None)

    def _rows_loss(
        self, labels: Tensor, count_correct: bool, logits: Tensor, rows: slice
    ) -> tuple[Tensor, Tensor]:
        """Loss of some rows; their nll and, if asked for, how many are right."""
        labels = labels[rows]
        smoothing = self.config.label_smoothing
        if self.num_passes == 1:
            weights = self.class_weights
            if weights is not None:
                weights = weights.to(logits.device)[labels]
            loss, nll = smoothed_cross_entropy(logits, labels, smoothing, weights)
        else:
            loss, nll = paired_cross_entropy(logits, labels, smoothing, self.config.r_drop)
        sums = [nll]
        if count_correct:
            first_pass = logits.detach()[: len(labels)]
            sums.append((first_pass.argmax(dim=-1) == labels).sum().to(nll.dtype))
        return loss, torch.stack(sums)

"""Classification as a training task: rows, logits at labels, validation, the model folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from gnomon.errors import DataError
from gnomon.evaluation.classification import ClassificationConfig, label_scores
from gnomon.model import ClassifierNetwork
from gnomon.model.flops import TextLengths
from gnomon.tasks.classifier import Classifier
from gnomon.tasks.classifier_folder import save_classifier
from gnomon.tasks.folder import load_weights
from gnomon.tasks.label_rows import NO_LABEL, LabelBatch, LabelRow, RowMaker, at_labels, collate
from gnomon.text.batches import BatchPlan
from gnomon.text.epochs import LazySequence
from gnomon.text.framing import Framing
from gnomon.text.labelled import LabelledDataConfig, LabelledSplits, LabelledText


@dataclass(frozen=True)
class LabelPreparation:
    """The texts of a classification as rows.

    Attributes:
        splits: the texts and all labels.
        framing: the vocabulary.
        config: of the data.
        train, valid: rows of the splits.
    """

    splits: LabelledSplits
    framing: Framing
    config: LabelledDataConfig
    train: list[LabelRow]
    valid: list[LabelRow]

    @classmethod
    def of(
        cls, splits: LabelledSplits, framing: Framing, config: LabelledDataConfig
    ) -> LabelPreparation:
        """Make rows of all texts.

        Raises:
            DataError: a text is too long, and the configuration refuses such texts.
        """
        maker = RowMaker(framing, splits.labels, config.labels_are, config.max_length)
        train = maker.rows(splits.train.examples)
        valid = [] if splits.valid is None else maker.rows(splits.valid.examples)
        if config.on_too_long == "error":
            for split, rows in ((splits.train, train), (splits.valid, valid)):
                _refuse_cut(split, rows, config.max_length)
        return cls(splits, framing, config, train, valid)


class ClassificationTask:
    """Trains a classifier (see `training.task.Task`).

    Each label is one prediction: of a text; of a word; or, where a text may have several, whether a
    label holds, as a choice between 0 and the logit, whose cross-entropy is the binary one.

    Args:
        model: the network, with its first weights.
        preparation: texts and labels.
        tokens_per_batch: padded tokens of a micro-batch.
        seed: decides the order of the batches.
        evaluation: what validation measures.
        balanced: whether each label weighs as much as every other, however often it stands.
    """

    pad_id = NO_LABEL
    unit = "labels"

    def __init__(
        self,
        model: ClassifierNetwork,
        preparation: LabelPreparation,
        *,
        tokens_per_batch: int,
        seed: int,
        evaluation: ClassificationConfig,
        balanced: bool = False,
    ) -> None:
        self.model = model
        self.preparation = preparation
        self.tokens_per_batch = tokens_per_batch
        self.evaluation = evaluation
        config, counts = preparation.config, preparation.splits.train.label_counts()
        self.classifier = Classifier(
            model,
            preparation.framing,
            preparation.splits.labels,
            kind=config.labels_are,
            max_length=config.max_length,
            takes_pairs=config.pair is not None,
            threshold=evaluation.threshold,
            label_counts=[counts[label] for label in preparation.splits.labels],
        )
        lengths = np.array([len(row.ids) for row in preparation.train], np.int64)
        self._plan = BatchPlan(lengths, np.zeros_like(lengths), tokens_per_batch, seed)
        self.class_weights = _balanced(preparation) if balanced else None

    def epoch(self, number: int) -> Sequence[list[NDArray[np.int64]]]:
        """The epoch's batches, in one part: numbers of rows."""
        return LazySequence(1, lambda part: self._plan.epoch(number))

    def collate(self, spec: NDArray[np.int64]) -> LabelBatch:
        """The rows of one batch as padded tensors."""
        return collate(self.preparation.train, spec.tolist(), self.preparation.framing.pad_id)

    def lengths(self, spec: NDArray[np.int64]) -> TextLengths:
        """See `Task`."""
        return TextLengths(self._plan.source_lengths[spec])

    def target(self, batch: LabelBatch) -> Tensor:
        """[B, 1 + L]: a column that is not looked at, then the labels."""
        return batch.target

    def outputs(self, batch: LabelBatch, inputs: Tensor, keep: Tensor) -> Tensor:
        """See `Task`; logits of a few labels need no care."""
        return self.predict(batch, inputs, keep)

    def predict(self, batch: LabelBatch, inputs: Tensor, keep: Tensor) -> Tensor:
        """Logits [M, C] at the labels that `keep` [B, L] wants, in row order."""
        logits: Tensor = self.model(batch.ids, batch.keep, batch.segments)
        return at_labels(logits, keep, self.preparation.config.labels_are)

    def describe(self, batch: LabelBatch) -> str:
        """The file and the rows of a batch."""
        train = self.preparation.splits.train
        numbers = sorted(
            train.examples[self.preparation.train[row].text].row for row in set(batch.rows)
        )
        shown = ", ".join(map(str, numbers[:20])) + (" …" if len(numbers) > 20 else "")
        return f"{train.path}, rows {shown}"

    def validate(self, step: int) -> dict[str, float]:
        """Loss and scores over the validation texts."""
        rows, valid = self.preparation.valid, self.preparation.splits.valid
        assert valid is not None, "whoever asks for validation has validation texts"
        logits = self.classifier.logits(rows, self.tokens_per_batch)
        decisions = self.classifier.decisions(rows, logits, len(valid.examples))
        metrics = {"nll": self._nll(rows, logits)}
        scores = label_scores(decisions, self.evaluation)
        return metrics | {score.name: score.value for score in scores}

    def _nll(self, rows: Sequence[LabelRow], logits: Sequence[NDArray[np.float32]]) -> float:
        """Mean over all labels, in nats."""
        total, count = 0.0, 0
        for row, values in zip(rows, logits, strict=True):
            labels = torch.tensor([row.labels])
            keep = labels != NO_LABEL
            wanted = at_labels(torch.from_numpy(values)[None].double(), keep, self.classifier.kind)
            total += float(F.cross_entropy(wanted, labels[keep], reduction="sum"))
            count += int(keep.sum())
        return total / max(1, count)

    def save(self, folder: Path) -> None:
        """Write a model folder that `gnomon.load` reads."""
        save_classifier(self.classifier, folder)

    def load(self, folder: Path) -> None:
        """Take back the weights that `save` wrote."""
        load_weights(self.model, folder)


def _refuse_cut(split: LabelledText | None, rows: Sequence[LabelRow], max_length: int) -> None:
    cut = [row for row in rows if row.cut]
    if split is not None and cut:
        first = cut[0]
        raise DataError(
            f"a text may have {max_length:,} tokens, special ones included (data.max_length)",
            seen=f"{split.path}, row {split.examples[first.text].row}: {first.cut:,} more"
            + (f"; {len(cut) - 1:,} others are too long" if len(cut) > 1 else ""),
            mend='raise data.max_length, or set data.on_too_long = "cut"',
        )


def _balanced(preparation: LabelPreparation) -> Tensor:
    """Weights [C] with which every label weighs alike, their mean over the training labels 1."""
    labels = preparation.splits.labels
    counts = preparation.splits.train.label_counts()
    found = torch.tensor([counts[label] for label in labels], dtype=torch.float32)
    return found.sum() / (len(labels) * found.clamp(min=1))

"""What a training on packed documents is, whatever it predicts: rows, logits, validation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from gnomon.model import ClassifierNetwork, Projection, Transformer
from gnomon.model.flops import TextLengths
from gnomon.tasks.folder import load_weights
from gnomon.tasks.packing import NO_LABEL, PackedBatch, PackedRows, RowSpec, read_packed
from gnomon.text.document_files import DocumentSource
from gnomon.text.document_store import DocumentStore
from gnomon.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class DocumentPreparation:
    """Documents, encoded.

    Attributes:
        vocabulary: their tokens.
        sources: of the training and, where there is one, the validation text.
        train: the stream that is learned from.
        valid: the one that is measured.
        context: tokens of a row.
    """

    vocabulary: Vocabulary
    sources: tuple[DocumentSource, DocumentSource | None]
    train: DocumentStore
    valid: DocumentStore | None
    context: int

    def identity(self) -> dict[str, str | None]:
        """By name, hashes of what a run is made from."""
        train, valid = self.sources
        return {
            "training text": train.fingerprint,
            "validation text": None if valid is None else valid.fingerprint,
            "vocabulary": self.vocabulary.fingerprint,
        }


Predictor = Transformer | ClassifierNetwork
"""A stack with a head over the vocabulary, or with labels for each of its tokens."""


def stack_of(model: Predictor) -> Transformer:
    """What reads."""
    network = model.network if isinstance(model, ClassifierNetwork) else model
    assert isinstance(network, Transformer), "packed rows are read by a Transformer"
    return network


def predict_packed(model: Predictor, batch: PackedBatch, keep: Tensor) -> Tensor:
    """Logits [M, V] of packed rows where `keep`, bool [B, T], is True, in row order."""
    outputs = outputs_packed(model, batch, keep)
    return outputs.logits() if isinstance(outputs, Projection) else outputs


def outputs_packed(model: Predictor, batch: PackedBatch, keep: Tensor) -> Tensor | Projection:
    """These logits, or, over a vocabulary, what they are the product of."""
    network = stack_of(model)
    if network.config.family == "decoder":
        hidden = network.decode(batch.inputs, documents=batch.documents)
    else:
        hidden = read_packed(network, batch, batch.inputs)
    if isinstance(model, ClassifierNetwork):
        logits: Tensor = model.out(hidden[keep])
        return logits
    return network.projection(hidden[keep])


class DocumentTask(ABC):
    """A `training.task.Task` over packed documents, but for how it is measured and saved.

    Args:
        model: with its first weights.
        preparation: the text.
        tokens_per_batch: of a micro-batch; as many whole rows as fit, and at least one.
        seed: decides how rows are cut and their order.
    """

    pad_id = NO_LABEL
    unit = "tok"
    class_weights: Tensor | None = None

    def __init__(
        self,
        model: Predictor,
        preparation: DocumentPreparation,
        *,
        tokens_per_batch: int,
        seed: int,
    ) -> None:
        self.model = model
        self.network = stack_of(model)
        self.preparation = preparation
        self.rows = PackedRows(preparation.train, preparation.context, seed)
        self.rows_per_batch = max(1, tokens_per_batch // self.rows.length)

    def epoch(self, number: int) -> Sequence[list[RowSpec]]:
        """The epoch's batches; see `PackedRows.epoch`."""
        return self.rows.epoch(number, self.rows_per_batch)

    def collate(self, spec: RowSpec) -> PackedBatch:
        """The rows of a batch."""
        return self.rows.collate(spec)

    def lengths(self, spec: RowSpec) -> TextLengths:
        """See `Task`; documents that share a row see nothing of each other."""
        return TextLengths(self.rows.document_lengths(spec), is_packed=True)

    def sample(self, most: int) -> PackedBatch:
        """Up to `most` rows to look at; see `PackedRows.sample`."""
        return self.collate(self.rows.sample(most))

    def target(self, batch: PackedBatch) -> Tensor:
        """[B, 1 + T]: a column that is not looked at, then the labels."""
        return batch.target

    def outputs(self, batch: PackedBatch, inputs: Tensor, keep: Tensor) -> Tensor | Projection:
        """See `Task`; the ids read are the batch's own."""
        return outputs_packed(self.model, batch, keep)

    def predict(self, batch: PackedBatch, inputs: Tensor, keep: Tensor) -> Tensor:
        """Logits [M, V] at the positions with a label."""
        return predict_packed(self.model, batch, keep)

    def describe(self, batch: PackedBatch) -> str:
        """The file and the documents of a batch."""
        path = self.preparation.sources[0].path
        return f"{path}, documents {self.rows.describe(batch.places)}"

    @abstractmethod
    def validate(self, step: int) -> dict[str, float]:
        """Measure the model on the validation text."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write a model folder."""

    def load(self, folder: Path) -> None:
        """Take back the weights that `save` wrote."""
        load_weights(self.model, folder)

    def validation(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Logits [M, V] in fp32 and labels [M] of the validation text, batch by batch."""
        store = self.preparation.valid
        assert store is not None, "whoever asks for validation has validation text"
        rows = PackedRows(store, self.preparation.context)
        device = next(self.model.parameters()).device
        try:
            for spec in rows.in_order(self.rows_per_batch):
                batch = self.collate_valid(rows, spec).to(device)
                labels = batch.target[:, 1:]
                keep = labels != NO_LABEL
                yield self.predict(batch, batch.inputs, keep).float(), labels[keep]
        finally:
            store.release()

    def collate_valid(self, rows: PackedRows, spec: RowSpec) -> PackedBatch:
        """The rows of a batch of validation text."""
        return rows.collate(spec)

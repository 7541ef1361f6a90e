"""Language modelling as a training task: packed rows, logits at every token, validation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch.nn.functional as F
from torch import Tensor

from gnomon.evaluation.language import LanguageEvaluationConfig, language_metrics
from gnomon.model import Transformer
from gnomon.tasks.folder import load_weights
from gnomon.tasks.language_folder import save_language_model
from gnomon.tasks.language_model import LanguageModel
from gnomon.tasks.packing import NO_LABEL, PackedBatch, PackedRows, RowSpec
from gnomon.text.document_files import DocumentSource
from gnomon.text.document_store import DocumentStore
from gnomon.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class LanguagePreparation:
    """The text of a language model, encoded.

    Attributes:
        vocabulary: its tokens.
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


class LanguageModellingTask:
    """Trains a decoder to predict every token from those before it (see `training.task.Task`).

    Args:
        model: a decoder with its first weights.
        preparation: the text.
        tokens_per_batch: of a micro-batch; as many whole rows as fit, and at least one.
        seed: decides how rows are cut and their order.
        evaluation: what a validation reads.
    """

    pad_id = NO_LABEL
    unit = "tok"
    class_weights: Tensor | None = None

    def __init__(
        self,
        model: Transformer,
        preparation: LanguagePreparation,
        *,
        tokens_per_batch: int,
        seed: int,
        evaluation: LanguageEvaluationConfig,
    ) -> None:
        self.model = model
        self.preparation = preparation
        self.evaluation = evaluation
        self.rows = PackedRows(preparation.train, preparation.context, seed)
        self.rows_per_batch = max(1, tokens_per_batch // self.rows.length)
        self.language_model = LanguageModel(
            model, preparation.vocabulary, context=preparation.context
        )

    def epoch(self, number: int) -> Sequence[list[RowSpec]]:
        """The epoch's batches; see `PackedRows.epoch`."""
        return self.rows.epoch(number, self.rows_per_batch)

    def collate(self, spec: RowSpec) -> PackedBatch:
        """The rows of a batch."""
        return self.rows.collate(spec)

    def target(self, batch: PackedBatch) -> Tensor:
        """[B, 1 + T]: a column that is not looked at, then the labels."""
        return batch.target

    def predict(self, batch: PackedBatch, inputs: Tensor, keep: Tensor) -> Tensor:
        """Logits [M, V] at the positions with a label; the ids read are the batch's own."""
        hidden = self.model.decode(batch.inputs, documents=batch.documents)
        return self.model.project(hidden[keep])

    def describe(self, batch: PackedBatch) -> str:
        """The file and the documents of a batch."""
        path = self.preparation.sources[0].path
        return f"{path}, documents {self.rows.describe(batch.places)}"

    def validate(self, step: int) -> dict[str, float]:
        """Loss, perplexity and bits over the validation text, in rows as in training."""
        store = self.preparation.valid
        assert store is not None, "whoever asks for validation has validation text"
        rows = PackedRows(store, self.preparation.context)
        limit = self.evaluation.max_tokens or len(store)
        total, count = 0.0, 0
        for spec in rows.in_order(self.rows_per_batch):
            batch = rows.collate(spec).to(self.language_model.device)
            keep = batch.target[:, 1:] != NO_LABEL
            logits = self.predict(batch, batch.inputs, keep).float()
            labels = batch.target[:, 1:][keep]
            total += float(F.cross_entropy(logits, labels, reduction="none").double().sum())
            count += len(labels)
            if count >= limit:
                break
        store.release()
        share = count / len(store)
        return language_metrics(
            total,
            count,
            characters=share * store.counts.characters,
            num_bytes=share * store.counts.bytes,
        )

    def save(self, folder: Path) -> None:
        """Write a model folder that `gnomon.load` reads."""
        save_language_model(self.language_model, folder)

    def load(self, folder: Path) -> None:
        """Take back the weights that `save` wrote."""
        load_weights(self.model, folder)

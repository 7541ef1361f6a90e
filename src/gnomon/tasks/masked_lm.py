"""Masked language modelling as a training task: an encoder learns to guess hidden tokens."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F

from gnomon.model import Transformer
from gnomon.tasks.document_task import DocumentPreparation, DocumentTask
from gnomon.tasks.embedding import Encoder, EncoderConfig
from gnomon.tasks.encoder_folder import save_encoder
from gnomon.tasks.masking import Masker, MaskingConfig
from gnomon.tasks.packing import NO_LABEL, PackedBatch, PackedRows, RowSpec

VALIDATION = 1 << 32  # the epoch whose masks a validation sees, every time


class MaskedLanguageModellingTask(DocumentTask):
    """Trains an encoder to guess hidden tokens (see `training.task.Task`).

    Rows are packed as a language model's; masks are drawn anew in every epoch.

    Args:
        model: an encoder with a head over the vocabulary.
        preparation: the text, each document with what ends it.
        masking: which tokens are hidden.
        tokens_per_batch: see `DocumentTask`.
        seed: decides rows, their order and the masks.
    """

    def __init__(
        self,
        model: Transformer,
        preparation: DocumentPreparation,
        masking: MaskingConfig,
        *,
        tokens_per_batch: int,
        seed: int,
    ) -> None:
        super().__init__(model, preparation, tokens_per_batch=tokens_per_batch, seed=seed)
        self.masker = Masker(preparation.vocabulary, masking, seed)
        self.encoder = Encoder(
            model, preparation.vocabulary.framing, EncoderConfig(max_length=preparation.context)
        )

    def collate(self, spec: RowSpec) -> PackedBatch:
        """The rows of a batch, some tokens hidden."""
        return masked(self.masker, self.rows, spec, spec.epoch)

    def collate_valid(self, rows: PackedRows, spec: RowSpec) -> PackedBatch:
        """The rows of a batch of validation text, under masks that stay the same."""
        return masked(self.masker, rows, spec, VALIDATION)

    def validate(self, step: int) -> dict[str, float]:
        """Loss in nats a hidden token and how many are guessed, under masks that stay the same."""
        total, right, count = 0.0, 0, 0
        for logits, labels in self.validation():
            total += float(F.cross_entropy(logits, labels, reduction="none").double().sum())
            right += int((logits.argmax(-1) == labels).sum())
            count += len(labels)
        return {"nll": total / max(1, count), "accuracy": 100 * right / max(1, count)}

    def save(self, folder: Path) -> None:
        """Write the folder of an encoder: to embed texts, or to be fine-tuned."""
        save_encoder(self.encoder, folder)


def masked(masker: Masker, rows: PackedRows, spec: RowSpec, epoch: int) -> PackedBatch:
    """The rows of a batch with some tokens hidden, which are its labels.

    Args:
        epoch: whose masks.
    """
    batch = rows.collate(spec)
    read, labels = masker(batch.inputs.numpy(), rows.tokens_at(batch), epoch)
    labels[batch.target[:, 1:].numpy() == NO_LABEL] = NO_LABEL  # a second time in this epoch
    target = torch.cat([batch.target[:, :1], torch.from_numpy(labels)], dim=1)
    return replace(batch, inputs=torch.from_numpy(read), target=target)

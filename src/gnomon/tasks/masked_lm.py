"""Masked language modelling as a training task: an encoder learns to guess hidden tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from gnomon.model import Transformer
from gnomon.tasks.embedding import Encoder, EncoderConfig
from gnomon.tasks.encoder_folder import save_encoder
from gnomon.tasks.folder import load_weights
from gnomon.tasks.language_modelling import LanguagePreparation
from gnomon.tasks.masking import Masker, MaskingConfig
from gnomon.tasks.packing import NO_LABEL, PackedBatch, PackedRows, RowSpec, read_packed

VALIDATION = 1 << 32  # the epoch whose masks a validation sees, every time


class MaskedLanguageModellingTask:
    """Trains an encoder to guess hidden tokens (see `training.task.Task`).

    Rows are packed as a language model's; masks are drawn anew in every epoch.

    Args:
        model: an encoder with a head over the vocabulary.
        preparation: the text, each document with what ends it.
        masking: which tokens are hidden.
        tokens_per_batch: of a micro-batch; as many whole rows as fit, and at least one.
        seed: decides rows, their order and the masks.
    """

    pad_id = NO_LABEL
    unit = "tok"
    class_weights: Tensor | None = None

    def __init__(
        self,
        model: Transformer,
        preparation: LanguagePreparation,
        masking: MaskingConfig,
        *,
        tokens_per_batch: int,
        seed: int,
    ) -> None:
        self.model = model
        self.preparation = preparation
        self.rows = PackedRows(preparation.train, preparation.context, seed)
        self.rows_per_batch = max(1, tokens_per_batch // self.rows.length)
        self.masker = Masker(preparation.vocabulary, masking, seed)
        self.encoder = Encoder(
            model, preparation.vocabulary.framing, EncoderConfig(max_length=preparation.context)
        )

    def epoch(self, number: int) -> Sequence[list[RowSpec]]:
        """The epoch's batches; see `PackedRows.epoch`."""
        return self.rows.epoch(number, self.rows_per_batch)

    def collate(self, spec: RowSpec) -> PackedBatch:
        """The rows of a batch, some tokens hidden."""
        return self._masked(self.rows, spec, spec.epoch)

    def _masked(self, rows: PackedRows, spec: RowSpec, epoch: int) -> PackedBatch:
        batch = rows.collate(spec)
        read, labels = self.masker(batch.inputs.numpy(), rows.tokens_at(batch), epoch)
        labels[batch.target[:, 1:].numpy() == NO_LABEL] = NO_LABEL  # a second time in this epoch
        target = torch.cat([batch.target[:, :1], torch.from_numpy(labels)], dim=1)
        return replace(batch, inputs=torch.from_numpy(read), target=target)

    def target(self, batch: PackedBatch) -> Tensor:
        """[B, 1 + T]: a column that is not looked at, then the tokens to guess."""
        return batch.target

    def predict(self, batch: PackedBatch, inputs: Tensor, keep: Tensor) -> Tensor:
        """Logits [M, V] at the hidden tokens; the ids read are the batch's own."""
        return self.model.project(read_packed(self.model, batch, batch.inputs)[keep])

    def describe(self, batch: PackedBatch) -> str:
        """The file and the documents of a batch."""
        path = self.preparation.sources[0].path
        return f"{path}, documents {self.rows.describe(batch.places)}"

    def validate(self, step: int) -> dict[str, float]:
        """Loss in nats a hidden token and how many are guessed, under masks that stay the same."""
        store = self.preparation.valid
        assert store is not None, "whoever asks for validation has validation text"
        rows = PackedRows(store, self.preparation.context)
        total, right, count = 0.0, 0, 0
        for spec in rows.in_order(self.rows_per_batch):
            batch = self._masked(rows, spec, VALIDATION).to(self.encoder.device)
            labels = batch.target[:, 1:]
            keep = labels != NO_LABEL
            logits = self.predict(batch, batch.inputs, keep).float()
            losses = F.cross_entropy(logits, labels[keep], reduction="none")
            total += float(losses.double().sum())
            right += int((logits.argmax(-1) == labels[keep]).sum())
            count += len(losses)
        store.release()
        return {"nll": total / max(1, count), "accuracy": 100 * right / max(1, count)}

    def save(self, folder: Path) -> None:
        """Write the folder of an encoder: to embed texts, or to be fine-tuned."""
        save_encoder(self.encoder, folder)

    def load(self, folder: Path) -> None:
        """Take back the weights that `save` wrote."""
        load_weights(self.model, folder)

"""Replaced-token detection as a training task: an encoder learns which tokens do not belong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from gnomon.model import ClassifierNetwork, Transformer
from gnomon.tasks.classifier import Classifier
from gnomon.tasks.classifier_folder import save_classifier
from gnomon.tasks.folder import load_weights
from gnomon.tasks.language_modelling import LanguagePreparation
from gnomon.tasks.masked_lm import VALIDATION
from gnomon.tasks.packing import NO_LABEL, PackedBatch, PackedRows, RowSpec, read_packed
from gnomon.tasks.replacement import Replacer

LABELS = ("original", "replaced")


class ReplacedTokenTask:
    """Trains an encoder to tell drawn tokens from those that stood there (Clark et al., 2020).

    The generator stays as it is, as in the paper's two-stage training (§3.3) and in Fast-ELECTRA
    (Dong et al., 2023), so that a step costs one pass more and no second loss.

    Args:
        model: an encoder with two labels a token; begin it with the generator's weights.
        preparation: the text, each document with what ends it.
        replacer: draws.
        autocast: a context for the generator's pass, for its number format.
        tokens_per_batch: of a micro-batch; as many whole rows as fit, and at least one.
        seed: decides rows and their order.
    """

    pad_id = NO_LABEL
    unit = "tok"
    class_weights: Tensor | None = None

    def __init__(
        self,
        model: ClassifierNetwork,
        preparation: LanguagePreparation,
        replacer: Replacer,
        *,
        tokens_per_batch: int,
        seed: int,
        autocast: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        assert isinstance(model.network, Transformer), "a generator is a Transformer"
        self.model = model
        self.network = model.network
        self.preparation = preparation
        self.replacer = replacer
        self.autocast = autocast
        self.rows = PackedRows(preparation.train, preparation.context, seed)
        self.rows_per_batch = max(1, tokens_per_batch // self.rows.length)
        self.classifier = Classifier(
            model,
            preparation.vocabulary.framing,
            LABELS,
            kind="words",
            max_length=preparation.context,
            takes_pairs=False,
        )

    def epoch(self, number: int) -> Sequence[list[RowSpec]]:
        """The epoch's batches; see `PackedRows.epoch`."""
        return self.rows.epoch(number, self.rows_per_batch)

    def collate(self, spec: RowSpec) -> PackedBatch:
        """The rows of a batch, some tokens drawn anew, and which of them came out different."""
        return self._replaced(self.rows, spec, spec.epoch)

    def _replaced(self, rows: PackedRows, spec: RowSpec, epoch: int) -> PackedBatch:
        batch = rows.collate(spec)
        with self.autocast():
            read = self.replacer(batch, rows.tokens_at(batch), epoch)
        labels = (read != batch.inputs).long()
        labels[batch.target[:, 1:] == NO_LABEL] = NO_LABEL  # a second time in this epoch
        return replace(batch, inputs=read, target=torch.cat([batch.target[:, :1], labels], dim=1))

    def target(self, batch: PackedBatch) -> Tensor:
        """[B, 1 + T]: a column that is not looked at, then 1 where a token was replaced."""
        return batch.target

    def predict(self, batch: PackedBatch, inputs: Tensor, keep: Tensor) -> Tensor:
        """Logits [M, 2] at the tokens that `keep` [B, T] wants; the ids read are the batch's."""
        hidden = read_packed(self.network, batch, batch.inputs)
        logits: Tensor = self.model.out(hidden[keep])
        return logits

    def describe(self, batch: PackedBatch) -> str:
        """The file and the documents of a batch."""
        path = self.preparation.sources[0].path
        return f"{path}, documents {self.rows.describe(batch.places)}"

    def validate(self, step: int) -> dict[str, float]:
        """Loss in nats a token, tokens told right, and F1 of those that were replaced, in percent.

        The replacements are the same every time.
        """
        store = self.preparation.valid
        assert store is not None, "whoever asks for validation has validation text"
        rows = PackedRows(store, self.preparation.context)
        loss, count, right, found, wanted, both = 0.0, 0, 0, 0, 0, 0
        for spec in rows.in_order(self.rows_per_batch):
            batch = self._replaced(rows, spec, VALIDATION).to(self.classifier.device)
            labels = batch.target[:, 1:]
            keep = labels != NO_LABEL
            logits, labels = self.predict(batch, batch.inputs, keep).float(), labels[keep]
            told = logits.argmax(-1)
            loss += float(F.cross_entropy(logits, labels, reduction="none").double().sum())
            count += len(labels)
            right += int((told == labels).sum())
            found, wanted = found + int(told.sum()), wanted + int(labels.sum())
            both += int((told & labels).sum())
        store.release()
        return {
            "nll": loss / max(1, count),
            "accuracy": 100 * right / max(1, count),
            "f1": 200 * both / max(1, found + wanted),
        }

    def save(self, folder: Path) -> None:
        """Write the folder of a classifier of tokens: to be fine-tuned, or asked what is odd."""
        save_classifier(self.classifier, folder)

    def load(self, folder: Path) -> None:
        """Take back the weights that `save` wrote."""
        load_weights(self.model, folder)

"""Replaced-token detection as a training task: an encoder learns which tokens do not belong."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F

from gnomon.model import ClassifierNetwork
from gnomon.tasks.classifier import Classifier
from gnomon.tasks.classifier_folder import save_classifier
from gnomon.tasks.document_task import DocumentPreparation, DocumentTask
from gnomon.tasks.masked_lm import VALIDATION
from gnomon.tasks.packing import NO_LABEL, PackedBatch, PackedRows, RowSpec
from gnomon.tasks.replacement import Replacer

LABELS = ("original", "replaced")


class ReplacedTokenTask(DocumentTask):
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

    def __init__(
        self,
        model: ClassifierNetwork,
        preparation: DocumentPreparation,
        replacer: Replacer,
        *,
        tokens_per_batch: int,
        seed: int,
        autocast: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        super().__init__(model, preparation, tokens_per_batch=tokens_per_batch, seed=seed)
        self.replacer = replacer
        self.autocast = autocast
        self.classifier = Classifier(
            model,
            preparation.vocabulary.framing,
            LABELS,
            kind="words",
            max_length=preparation.context,
            takes_pairs=False,
        )

    def collate(self, spec: RowSpec) -> PackedBatch:
        """The rows of a batch, some tokens drawn anew, and which of them came out different."""
        return self._replaced(self.rows, spec, spec.epoch)

    def collate_valid(self, rows: PackedRows, spec: RowSpec) -> PackedBatch:
        """The rows of a batch of validation text; the replacements are the same every time."""
        return self._replaced(rows, spec, VALIDATION)

    def _replaced(self, rows: PackedRows, spec: RowSpec, epoch: int) -> PackedBatch:
        batch = rows.collate(spec)
        with self.autocast():
            read = self.replacer(batch, rows.tokens_at(batch), epoch)
        labels = (read != batch.inputs).long()
        labels[batch.target[:, 1:] == NO_LABEL] = NO_LABEL  # a second time in this epoch
        return replace(batch, inputs=read, target=torch.cat([batch.target[:, :1], labels], dim=1))

    def validate(self, step: int) -> dict[str, float]:
        """Loss in nats a token, tokens told right, and F1 of those that were replaced, in percent.

        The replacements are the same every time.
        """
        loss, count, right, found, wanted, both = 0.0, 0, 0, 0, 0, 0
        for logits, labels in self.validation():
            told = logits.argmax(-1)
            loss += float(F.cross_entropy(logits, labels, reduction="none").double().sum())
            count += len(labels)
            right += int((told == labels).sum())
            found, wanted = found + int(told.sum()), wanted + int(labels.sum())
            both += int((told & labels).sum())
        return {
            "nll": loss / max(1, count),
            "accuracy": 100 * right / max(1, count),
            "f1": 200 * both / max(1, found + wanted),
        }

    def save(self, folder: Path) -> None:
        """Write the folder of a classifier of tokens: to be fine-tuned, or asked what is odd."""
        save_classifier(self.classifier, folder)

"""Language modelling as a training task: every token is predicted from those before it."""

from __future__ import annotations

from pathlib import Path

import torch.nn.functional as F

from gnomon.evaluation.language import LanguageEvaluationConfig, language_metrics
from gnomon.model import Transformer
from gnomon.tasks.document_task import DocumentPreparation, DocumentTask
from gnomon.tasks.language_folder import Manner, save_language_model
from gnomon.tasks.language_model import LanguageModel


class LanguageModellingTask(DocumentTask):
    """Trains a decoder to predict every token from those before it (see `training.task.Task`).

    Args:
        model: a decoder with its first weights.
        preparation, tokens_per_batch, seed: see `DocumentTask`.
        evaluation: what a validation reads.
        manner: how its outputs are chosen and ended, which training does not change.
    """

    def __init__(
        self,
        model: Transformer,
        preparation: DocumentPreparation,
        *,
        tokens_per_batch: int,
        seed: int,
        evaluation: LanguageEvaluationConfig,
        manner: Manner | None = None,
    ) -> None:
        super().__init__(model, preparation, tokens_per_batch=tokens_per_batch, seed=seed)
        self.evaluation = evaluation
        manner = manner or Manner()
        self.language_model = LanguageModel(
            model,
            preparation.vocabulary,
            context=preparation.context,
            search=manner.search,
            ends=manner.ends,
        )

    def validate(self, step: int) -> dict[str, float]:
        """Loss, perplexity and bits over the validation text, in rows as in training."""
        store = self.preparation.valid
        assert store is not None, "whoever asks for validation has validation text"
        limit = self.evaluation.max_tokens or len(store)
        total, count = 0.0, 0
        for logits, labels in self.validation():
            total += float(F.cross_entropy(logits, labels, reduction="none").double().sum())
            count += len(labels)
            if count >= limit:
                break
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

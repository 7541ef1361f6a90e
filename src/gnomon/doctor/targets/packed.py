"""A model of packed documents as a patient: called with rows, and with labels for its loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from gnomon.doctor.patient import Patient
from gnomon.doctor.targets.same_parts import SameParts
from gnomon.doctor.targets.search import continued
from gnomon.model import ClassifierNetwork, Transformer
from gnomon.recipes import DocumentRecipe
from gnomon.tasks.document_task import DocumentTask, Predictor, predict_packed, stack_of
from gnomon.tasks.ids import SequenceIds
from gnomon.tasks.packing import NO_LABEL, PackedBatch
from gnomon.training import Objective, ObjectiveConfig
from gnomon.training.objective import LossSums

PADDING = -1
"""The number of the document that padding makes of its own."""

Road = Callable[[Tensor, Tensor | None, Tensor | None], Tensor]
"""Logits `[B, T, V]` of ids, real tokens and documents, each `[B, T]` or None."""


class Packed(SameParts):
    """The network on packed rows, with the loss of its training where labels are given.

    Args:
        road: how it is called.
        objective: see `training.Objective`, without R-Drop.
    """

    def __init__(self, network: Predictor, road: Road, objective: Objective) -> None:
        super().__init__(network, stack_of(network).config)
        self._road = road
        self.objective = objective

    def stock(self) -> Packed:
        """The same, its network built anew from its configuration; see `facts.beside.stock`."""
        stack = Transformer(self.config)
        network: Predictor = stack
        with self.whole() as own:
            if isinstance(own, ClassifierNetwork):
                num_labels = own.out.weight.size(0)
                network = ClassifierNetwork(stack, own.config, num_labels, per_token=True)
        return Packed(network, as_used(network), self.objective)

    def forward(
        self,
        ids: Tensor,
        keep: Tensor | None = None,
        documents: Tensor | None = None,
        labels: Tensor | None = None,
    ) -> Tensor | dict[str, Tensor]:
        """Logits `[B, T, V]`; with labels (below 0: none) also the mean loss of a label."""
        with self.whole():
            logits = self._road(ids, keep, documents)
        if labels is None:
            return logits
        sums = self._sums(logits, labels)
        return {"loss": sums.loss / max(1, sums.num_tokens), "logits": logits}

    def sums(self, batch: Mapping[str, Tensor]) -> LossSums:
        """The loss of one micro-batch as the training adds it up."""
        with self.whole():
            logits = self._road(batch["ids"], batch.get("keep"), batch.get("documents"))
        return self._sums(logits, batch["labels"])

    def count(self, batch: Mapping[str, Tensor]) -> int:
        """How many tokens of a micro-batch are predicted."""
        return int((batch["labels"] >= 0).sum())

    def _sums(self, logits: Tensor, labels: Tensor) -> LossSums:
        labels = labels.masked_fill(labels < 0, NO_LABEL)
        # The objective passes the first column over.
        return self.objective(
            torch.cat([labels[:, :1], labels], dim=1), lambda _, wanted: logits[wanted]
        )


def as_trained(task: DocumentTask) -> Road:
    """The road that training takes, of whole rows; padding, which it does not know, as in use."""
    otherwise = as_used(task.model)

    def road(ids: Tensor, keep: Tensor | None, documents: Tensor | None) -> Tensor:
        if keep is not None and not bool(keep.all()):
            return otherwise(ids, keep, documents)
        everything = torch.ones_like(ids, dtype=torch.bool)
        return task.predict(_packed(ids, keep, documents), ids, everything).view(*ids.shape, -1)

    return road


def as_used(model: Predictor) -> Road:
    """Rows of one document with their padding, as in use; rows of several as in training."""

    def road(ids: Tensor, keep: Tensor | None, documents: Tensor | None) -> Tensor:
        everything = torch.ones_like(ids, dtype=torch.bool)
        if documents is None or not _several(documents, keep):
            if keep is None and isinstance(model, ClassifierNetwork):
                keep = everything
            logits: Tensor = model(ids, keep=keep)
            return logits
        batch = _packed(ids, keep, documents)
        return predict_packed(model, batch, everything).view(*ids.shape, -1)

    return road


def _packed(ids: Tensor, keep: Tensor | None, documents: Tensor | None) -> PackedBatch:
    numbers = torch.zeros_like(ids) if documents is None else documents
    if keep is not None:
        numbers = numbers.masked_fill(~keep, PADDING)
    several = bool((numbers != numbers[:, :1]).any())
    return PackedBatch(ids, ids, numbers if several else None, [])


def _several(documents: Tensor, keep: Tensor | None) -> bool:
    """Whether any row holds more than one document beside its padding."""
    real = documents >= 0 if keep is None else keep
    high = documents.masked_fill(~real, PADDING).amax(1)
    low = torch.where(real, documents, high[:, None]).amin(1)
    return bool((high > low).any())


def packed_patient(
    network: Predictor,
    road: Road,
    recipe: DocumentRecipe | None,
    batch: PackedBatch | None,
    ids: SequenceIds,
    **fields: Any,
) -> Patient:
    """What is examined of a model of packed documents.

    Args:
        recipe: how it is trained.
        batch: some of its rows.
        ids: what pads, begins and ends its texts.
        fields: further fields of the patient.
    """
    objective = Objective(
        replace(recipe.objective, r_drop=0.0) if recipe is not None else ObjectiveConfig(),
        pad_id=NO_LABEL,
    )
    config = stack_of(network).config
    found: dict[str, Any] = {
        "module": Packed(network, road, objective),
        "config": config,
        "family": config.family,
        "pad_id": ids.pad,
        "padding_side": "right",
        "recipe": recipe,
    }
    if isinstance(network, Transformer) and config.family == "decoder":
        found["generate"] = partial(continued, network, ids)
        found["beam_generate"] = found["generate"]
    if batch is not None:
        found["batch"], found["document_key"] = as_inputs(batch), "documents"
    return Patient(**found | fields)


def as_inputs(batch: PackedBatch) -> dict[str, Tensor]:
    """The rows as `Packed` takes them."""
    ids = batch.inputs
    return {
        "ids": ids,
        "keep": torch.ones_like(ids, dtype=torch.bool),
        "documents": torch.zeros_like(ids) if batch.documents is None else batch.documents,
        "labels": batch.target[:, 1:],
    }

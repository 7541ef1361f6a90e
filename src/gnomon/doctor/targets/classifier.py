"""A classifier as a patient: called with texts, and with their labels for its loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from gnomon.doctor.patient import Patient
from gnomon.doctor.targets.same_parts import SameParts
from gnomon.model import ClassifierNetwork, Transformer
from gnomon.recipes import ClassificationRecipe
from gnomon.tasks import Classifier
from gnomon.tasks.label_rows import NO_LABEL, LabelRow, at_labels, collate
from gnomon.text.framing import Framing
from gnomon.text.labelled import LabelKind
from gnomon.training import Objective, ObjectiveConfig

_ROWS = 8


class Judged(SameParts):
    """The network with a loss of its own where labels are given, as Hugging Face's have it."""

    def __init__(
        self, network: ClassifierNetwork, kind: LabelKind, objective: Objective | None = None
    ) -> None:
        super().__init__(network, network.network.config)
        self._kind = kind
        self._objective = objective or Objective(ObjectiveConfig(), pad_id=NO_LABEL)

    def stock(self) -> Judged:
        """The same, its network built anew from its configuration; see `facts.beside.stock`."""
        with self.whole() as own:
            inner = type(own.network)(own.network.config)
            num_labels = own.out.weight.size(0)
            network = ClassifierNetwork(inner, own.config, num_labels, per_token=own.per_token)
            network.add_lora(own.lora)
        return Judged(network, self._kind, self._objective)

    def forward(
        self,
        ids: Tensor,
        keep: Tensor,
        segments: Tensor | None = None,
        labels: Tensor | None = None,
    ) -> Tensor | dict[str, Tensor]:
        """Logits `[B, C]`, or `[B, S, C]` where words are labelled; with labels also their loss.

        The loss is the training's mean over labels; of R-Drop the usual part alone.
        """
        with self.whole() as network:
            logits: Tensor = network(ids, keep, segments)
        if labels is None:
            return logits
        labels = labels.masked_fill(labels < 0, NO_LABEL)

        def predict(_: Tensor, wanted: Tensor) -> Tensor:
            return at_labels(logits, wanted, self._kind)

        # The objective passes the first column over.
        sums = self._objective(torch.cat([labels[:, :1], labels], dim=1), predict)
        return {"loss": sums.loss / max(1, sums.num_tokens), "logits": logits}


@dataclass(frozen=True)
class FramedText:
    """A framing in the form in which checks ask a tokenizer: Hugging Face's names."""

    framing: Framing

    def __len__(self) -> int:
        return self.framing.vocab_size

    @property
    def pad_token_id(self) -> int:
        """The id of padding."""
        return self.framing.pad_id

    def encode(self, text: str) -> list[int]:
        """The ids of one text, special ones included."""
        return self.framing.frame([text])[0].ids

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """The text of these ids."""
        return self.framing.decode([[int(index) for index in ids]])[0]


def classifier_patient(
    classifier: Classifier,
    rows: Sequence[LabelRow],
    texts: Sequence[str],
    recipe: ClassificationRecipe | None,
    **fields: Any,
) -> Patient:
    """What is examined of a classifier.

    Args:
        rows: some of its text, with labels; short and long ones are taken of them.
        texts: the same as texts.
        recipe: how it is trained.
        fields: further fields of the patient.
    """
    network = classifier.network
    objective = None
    if recipe is not None:
        plain = replace(recipe.objective, r_drop=0.0)
        objective = Objective(plain, pad_id=NO_LABEL)
    module = Judged(network, classifier.kind, objective)
    device = classifier.device
    transformer = network.network if isinstance(network.network, Transformer) else None
    found: dict[str, Any] = {
        "module": module,
        "config": network.network.config,
        "pad_id": classifier.framing.pad_id,
        "padding_side": "right",
        "max_length": classifier.max_length,
        "texts": list(texts),
        "recipe": recipe,
    }
    if not classifier.takes_pairs:  # else a row is two texts, which no tokenizer is asked for
        found["tokenizer"] = FramedText(classifier.framing)
    if transformer is not None:
        found["family"] = transformer.config.family
    if rows:
        order = sorted(range(len(rows)), key=lambda place: len(rows[place].ids))
        step = max(1, len(order) // _ROWS)
        batch = collate(rows, order[::step][:_ROWS], classifier.framing.pad_id).to(device)
        found["batch"] = {"ids": batch.ids, "keep": batch.keep, "labels": batch.target[:, 1:]}
        if transformer is not None and transformer.config.embedding.num_segments > 1:
            found["batch"]["segments"] = batch.segments
    return Patient(**found | fields)

"""Training a classifier."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from gnomon.api.jobs.base import Base, open_base
from gnomon.api.jobs.job import Say
from gnomon.api.jobs.vocabulary import kept, learned
from gnomon.doctor import Report
from gnomon.doctor.monitors.run import RunMonitors
from gnomon.doctor.preflight import preflight
from gnomon.errors import excerpt
from gnomon.model import BiLSTM, ClassifierNetwork, Transformer
from gnomon.recipes.classification import ClassificationRecipe
from gnomon.tasks.adaptation import adapt
from gnomon.tasks.classification import ClassificationTask, LabelPreparation
from gnomon.text.framing import Framing, load_framing
from gnomon.text.labelled import LabelledSplits, open_labelled
from gnomon.training import Monitors, RunFolder, Validate


class ClassificationJob:
    """Trains an encoder, a decoder or a BiLSTM to give labels (see `Job`)."""

    def __init__(self, recipe: ClassificationRecipe, say: Say) -> None:
        self.recipe = recipe
        self.say = say
        self._base: Base | None = None
        self._preparation: LabelPreparation | None = None

    def prepare(self, cache: Path, checkpoints: Sequence[Path], start_from: Path | None) -> None:
        """See `Job`."""
        splits = open_labelled(self.recipe.data)
        for sentence in _about(splits):
            self.say(sentence)
        if start_from is not None:
            framing = self._take_over(start_from, splits)
        elif checkpoints:
            framing = kept(checkpoints, load_framing)
        else:
            framing = self._vocabulary(splits, cache)
        self._preparation = LabelPreparation.of(splits, framing, self.recipe.data)
        for sentence in _about_rows(self._preparation):
            self.say(sentence)

    def _take_over(self, folder: Path, splits: LabelledSplits) -> Framing:
        """Begin with the network of a model folder; also with its labels, if they are the same."""
        base = open_base(folder)
        self._base = base
        if base.classifier is not None and base.classifier.labels != splits.labels:
            others = ", ".join(base.classifier.labels[:12])
            self.say(
                f"{folder} has other labels ({others}): its network is taken over, the labels are "
                "learned anew"
            )
        return base.framing

    def _vocabulary(self, splits: LabelledSplits, cache: Path) -> Framing:
        texts = [*splits.train.texts, *(splits.train.pairs or [])]
        return learned(self.recipe.tokenizer, texts, splits.train.fingerprint, cache, self.say)

    @property
    def preparation(self) -> LabelPreparation:
        """What `prepare` made."""
        assert self._preparation is not None, "a job is prepared first"
        return self._preparation

    def identity(self) -> dict[str, str | None]:
        """See `Job`."""
        splits = self.preparation.splits
        return {
            "training text": splits.train.fingerprint,
            "validation text": None if splits.valid is None else splits.valid.fingerprint,
            "vocabulary": self.preparation.framing.fingerprint,
            "labels": hashlib.sha256(json.dumps(splits.labels).encode()).hexdigest(),
        }

    @cached_property
    def task(self) -> ClassificationTask:
        """See `Job`."""
        recipe = self.recipe
        return ClassificationTask(
            self._first_network(),
            self.preparation,
            tokens_per_batch=recipe.training.tokens_per_batch,
            seed=recipe.training.seed,
            evaluation=recipe.evaluation,
            balanced=recipe.class_weights == "balanced",
        )

    def _first_network(self) -> ClassifierNetwork:
        recipe, size = self.recipe, self.preparation.framing.vocab_size
        base, labels = self._base, self.preparation.splits.labels
        per_token = recipe.data.labels_are == "words"
        network: Transformer | BiLSTM
        if base is not None:
            network = base.network_for(recipe)
        elif recipe.network == "bilstm":
            network = BiLSTM(replace(recipe.bilstm, vocab_size=size))
        else:
            network = Transformer(replace(recipe.model, vocab_size=size))
        found = ClassifierNetwork(network, recipe.classifier, len(labels), per_token=per_token)
        if base is not None and base.classifier is not None and base.classifier.labels == labels:
            base.put_labels_into(found)
        adapt(found, recipe.adaptation, recipe.lora)
        return found

    @property
    def validate(self) -> Validate | None:
        """See `Job`."""
        return None if self.preparation.splits.valid is None else self.task.validate

    def monitors(self, folder: RunFolder) -> Monitors | None:
        """See `Job`."""
        every = self.recipe.training.monitor_every
        return RunMonitors(self.task, folder, every=every) if every else None

    def preflight(self, accept: Collection[str], seconds: float) -> Report:
        """See `Job`."""
        return preflight(self.task, self.recipe, accept=accept, seconds=seconds)


def _about(splits: LabelledSplits) -> Iterator[str]:
    counts = splits.train.label_counts()
    shown = ", ".join(f"{excerpt(label, 40)} {counts[label]:,}" for label in splits.labels[:12])
    more = f" and {len(splits.labels) - 12} more" if len(splits.labels) > 12 else ""
    yield f"{len(splits.train.examples):,} training texts from {splits.train.path}: {shown}{more}"
    if unseen := [label for label in splits.labels if not counts[label]]:
        yield f"no training text has the label {', '.join(unseen[:12])}"
    if splits.valid is None:
        yield "no validation texts: nothing will say which checkpoint is best"
    elif splits.held_out:
        yield f"{splits.held_out:,} texts are held out for validation, by hash"
    else:
        yield f"{len(splits.valid.examples):,} validation texts from {splits.valid.path}"
    for split in (splits.train, splits.valid, splits.test):
        if split is not None and split.num_breaks:
            yield f"{split.num_breaks:,} {split.name} texts have line breaks, each now a blank"
    for name, rows in splits.seen_before.items():
        if rows:
            shown = ", ".join(map(str, rows[:5])) + (" …" if len(rows) > 5 else "")
            yield (
                f"{len(rows):,} {name} texts are trained on, so their scores flatter: rows {shown}"
            )


def _about_rows(preparation: LabelPreparation) -> Iterator[str]:
    rows = preparation.train
    tokens = sum(len(row.ids) for row in rows)
    yield f"{tokens:,} tokens in {len(rows):,} rows"
    splits = preparation.splits
    for split, own in ((splits.train, rows), (splits.valid, preparation.valid)):
        cut = [row for row in own if row.cut]
        if split is not None and cut:
            first = ", ".join(str(split.examples[row.text].row) for row in cut[:5])
            yield (
                f"{len(cut):,} {split.name} texts are longer than data.max_length = "
                f"{preparation.config.max_length} tokens, their end is not read: rows {first}"
                + (" …" if len(cut) > 5 else "")
            )

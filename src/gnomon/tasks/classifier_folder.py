"""A classifier as a folder that ships: config, labels, weights, vocabulary, card."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
from pydantic import PositiveInt

from gnomon.errors import ModelError
from gnomon.model import (
    BiLSTM,
    BiLSTMConfig,
    ClassifierConfig,
    ClassifierNetwork,
    LoraConfig,
    Transformer,
    count_parameters,
)
from gnomon.model.io import (
    CARD_FILE,
    CONFIG_FILE,
    FORMAT_VERSION,
    WEIGHTS_FILE,
    count_tensors,
    fill,
    read_config,
    read_object,
    read_table,
    refuse_unknown_keys,
    without_weights,
    write_weights,
)
from gnomon.tasks.classifier import Classifier
from gnomon.tasks.vocabulary_fit import VOCABULARY, check_fingerprint, check_vocabulary
from gnomon.text.framing import load_framing
from gnomon.text.labelled import LabelKind, is_plain

TASK = "classification"


@dataclass(frozen=True, kw_only=True)
class ClassifierSettings:
    """What the config.json of a classifier says beside its network.

    Attributes:
        classifier: what stands over the network.
        lora: whether the weights are beside low-rank additions.
        labels, labels_are, max_length, takes_pairs, threshold, label_counts: see `Classifier`.
    """

    classifier: ClassifierConfig
    lora: LoraConfig = field(default_factory=LoraConfig)
    labels: tuple[str, ...]
    labels_are: LabelKind = "single"
    max_length: PositiveInt | None = None
    takes_pairs: bool = False
    threshold: float = 0.5
    label_counts: tuple[int, ...] | None = None

    def problems(self) -> list[str]:
        """Everything that cannot be."""
        if len(set(self.labels)) < len(self.labels) or not self.labels:
            return [f"labels must be there, each once: {', '.join(self.labels)}"]
        if odd := [label for label in self.labels if not is_plain(label)]:
            return [f"labels must each be one line without TABs: {odd[0]!r}"]
        if not 0 < self.threshold < 1:
            return [f"threshold must be between 0 and 1, is {self.threshold}"]
        return []


def save_classifier(classifier: Classifier, folder: Path) -> None:
    """Write a model folder; give one from `gnomon.files.atomic_folder` where others may look."""
    folder.mkdir(parents=True, exist_ok=True)
    network = classifier.network.network
    name = "model" if isinstance(network, Transformer) else "bilstm"
    settings = ClassifierSettings(
        classifier=classifier.network.config,
        lora=classifier.network.lora,
        labels=classifier.labels,
        labels_are=classifier.kind,
        max_length=classifier.max_length,
        takes_pairs=classifier.takes_pairs,
        threshold=classifier.threshold,
        label_counts=classifier.label_counts,
    )
    config = {
        "format_version": FORMAT_VERSION,
        "task": TASK,
        name: asdict(network.config),
        **asdict(settings),
        VOCABULARY: classifier.framing.fingerprint,
    }
    text = json.dumps(config, indent=2, ensure_ascii=False) + "\n"
    (folder / CONFIG_FILE).write_text(text, encoding="utf-8")
    write_weights(classifier.network.state_dict(), folder / WEIGHTS_FILE)
    classifier.framing.save(folder)
    (folder / CARD_FILE).write_text(_card(classifier), encoding="utf-8")


def read_settings(folder: Path) -> ClassifierSettings:
    """What `save_classifier` wrote of a classifier, weights and vocabulary aside.

    Raises:
        ModelError: not a model folder, of another task, or damaged.
    """
    return _settings(folder, read_object(folder / CONFIG_FILE))


def _settings(folder: Path, config: dict[str, Any]) -> ClassifierSettings:
    if config.get("task") != TASK:
        raise ModelError(
            f"{folder} must hold a classifier",
            seen=config.get("task", "no task named in config.json"),
            mend="name a run or model folder of a classification",
        )
    names = [each.name for each in fields(ClassifierSettings)]
    refuse_unknown_keys(folder, config, ("model", "bilstm", VOCABULARY, *names))
    try:
        read_table(ClassifierConfig, config["classifier"])  # unknown keys in them are told, too
        read_table(LoraConfig, config.get("lora", {}))
        given = {name: config[name] for name in names if name not in _MAY_BE_MISSING}
        given |= {name: config[name] for name in _MAY_BE_MISSING if name in config}
        return read_table(ClassifierSettings, given)
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(f"{folder / CONFIG_FILE} is damaged", seen=error) from error


_MAY_BE_MISSING = ("lora", "label_counts")  # which came later


def load_classifier(folder: Path, device: torch.device | str = "cpu") -> Classifier:
    """The classifier that `save_classifier` wrote.

    Raises:
        ModelError: not a model folder, of another task, damaged, or its parts do not fit.
    """
    config = read_object(folder / CONFIG_FILE)
    settings = _settings(folder, config)
    labels, kind = settings.labels, settings.labels_are
    num_tensors = count_tensors(folder / WEIGHTS_FILE)
    try:
        with torch.device("meta"):
            if "bilstm" in config:
                network: Transformer | BiLSTM = BiLSTM(read_table(BiLSTMConfig, config["bilstm"]))
            else:
                network = without_weights(read_config(folder), num_tensors, folder / CONFIG_FILE)
            module = ClassifierNetwork(
                network, settings.classifier, len(labels), per_token=kind == "words"
            )
            module.add_lora(settings.lora)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        # RuntimeError: sizes that no tensor has.
        raise ModelError(f"{folder / CONFIG_FILE} is damaged", seen=error) from error
    fill(module, folder, device)
    counts = settings.label_counts
    if counts is not None and len(counts) != len(labels):
        raise ModelError(
            f"{folder / CONFIG_FILE} is damaged",
            seen=f"{len(counts)} label_counts for {len(labels)} labels",
        )
    module.merge_lora()  # what is used needs no second product
    framing = load_framing(folder)
    check_fingerprint(folder, framing.fingerprint, config)
    check_vocabulary(folder, framing, network.config.vocab_size)
    return Classifier(
        module,
        framing,
        labels,
        kind=kind,
        max_length=settings.max_length,
        takes_pairs=settings.takes_pairs,
        threshold=settings.threshold,
        label_counts=counts,
    )


def _card(classifier: Classifier) -> str:
    network = classifier.network.network
    what = "Transformer" if isinstance(network, Transformer) else "bidirectional LSTM"
    labels = ", ".join(f"`{label}`" for label in classifier.labels[:50])
    more = f" … ({len(classifier.labels)} in all)" if len(classifier.labels) > 50 else ""
    of = {
        "single": "one label a text",
        "multi": "any number of labels a text",
        "words": "one label a word",
    }
    return (
        "# A classifier trained with gnomon\n\n"
        f"- {count_parameters(classifier.network):,} parameters, a {what}\n"
        f"- {of[classifier.kind]}: {labels}{more}\n"
        f"- reads {'two texts' if classifier.takes_pairs else 'one text'} of up to "
        f"{classifier.max_length} tokens\n\n"
        "Use it: `gnomon classify FOLDER < texts.txt`, or in Python "
        "`gnomon.load('FOLDER').classify([\"…\"])`.\n\n"
        "Limits: it knows only the labels and the kind of text that it was trained on.\n"
    )

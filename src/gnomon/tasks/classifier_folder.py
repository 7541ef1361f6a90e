"""A classifier as a folder that ships: config, labels, weights, vocabulary, card."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

import torch
from pydantic import PositiveInt, TypeAdapter

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
    fill,
    read_config,
    read_table,
    write_weights,
)
from gnomon.tasks.classifier import Classifier
from gnomon.tasks.vocabulary_fit import VOCABULARY, check_fingerprint, check_vocabulary
from gnomon.text.framing import load_framing
from gnomon.text.labelled import LabelKind

TASK = "classification"


def save_classifier(classifier: Classifier, folder: Path) -> None:
    """Write a model folder; give one from `gnomon.files.atomic_folder` where others may look."""
    folder.mkdir(parents=True, exist_ok=True)
    network = classifier.network.network
    name = "model" if isinstance(network, Transformer) else "bilstm"
    config = {
        "format_version": FORMAT_VERSION,
        "task": TASK,
        name: asdict(network.config),
        "classifier": asdict(classifier.network.config),
        "lora": asdict(classifier.network.lora),
        "labels": list(classifier.labels),
        "labels_are": classifier.kind,
        "max_length": classifier.max_length,
        "takes_pairs": classifier.takes_pairs,
        "threshold": classifier.threshold,
        "label_counts": classifier.label_counts,
        VOCABULARY: classifier.framing.fingerprint,
    }
    text = json.dumps(config, indent=2, ensure_ascii=False) + "\n"
    (folder / CONFIG_FILE).write_text(text, encoding="utf-8")
    write_weights(classifier.network.state_dict(), folder / WEIGHTS_FILE)
    classifier.framing.save(folder)
    (folder / CARD_FILE).write_text(_card(classifier), encoding="utf-8")


def load_classifier(folder: Path, device: torch.device | str = "cpu") -> Classifier:
    """The classifier that `save_classifier` wrote.

    Raises:
        ModelError: not a model folder, of another task, damaged, or its parts do not fit.
    """
    try:
        config: dict[str, Any] = json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{folder / CONFIG_FILE} cannot be read", seen=error) from error
    if config.get("task") != TASK:
        raise ModelError(
            f"{folder} must hold a classifier",
            seen=config.get("task", "no task named in config.json"),
            mend="name a run or model folder of a classification",
        )
    try:
        labels = TypeAdapter(tuple[str, ...]).validate_python(config["labels"])
        head = read_table(ClassifierConfig, config["classifier"])
        kind: LabelKind = config["labels_are"]
        longest = TypeAdapter(PositiveInt | None).validate_python(config["max_length"])
        takes_pairs = TypeAdapter(bool).validate_python(config["takes_pairs"])
        threshold = TypeAdapter(float).validate_python(config["threshold"])
        if len(set(labels)) < len(labels) or not labels:
            raise ValueError(f"labels must be there, each once: {', '.join(labels)}")
        counts = TypeAdapter(tuple[int, ...] | None).validate_python(config.get("label_counts"))
        if kind not in get_args(LabelKind):
            raise ValueError(f"labels_are {kind!r}")
        with torch.device("meta"):
            if "bilstm" in config:
                network: Transformer | BiLSTM = BiLSTM(read_table(BiLSTMConfig, config["bilstm"]))
            else:
                network = Transformer(read_config(folder))
            module = ClassifierNetwork(network, head, len(labels), per_token=kind == "words")
            module.add_lora(read_table(LoraConfig, config.get("lora", {})))
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(f"{folder / CONFIG_FILE} is damaged", seen=error) from error
    fill(module, folder, device)
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
        max_length=longest,
        takes_pairs=takes_pairs,
        threshold=threshold,
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

"""An encoder as a folder that ships: config, weights, tokenizer, card."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import torch

from gnomon.errors import ModelError
from gnomon.model import TransformerConfig, count_parameters, load_model, save_model
from gnomon.model.io import CARD_FILE, CONFIG_FILE, read_object, read_table, refuse_unknown_keys
from gnomon.tasks.embedding import Encoder, EncoderConfig
from gnomon.tasks.vocabulary_fit import VOCABULARY, check_fingerprint, check_vocabulary
from gnomon.text.framing import load_framing

ENCODER = "encoder"


def save_encoder(encoder: Encoder, folder: Path) -> None:
    """Write a model folder; give one from `gnomon.files.atomic_folder` where others may look."""
    save_model(encoder.model, folder)
    config = json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8"))
    config |= {"task": ENCODER, "encoder": asdict(encoder.config)}
    config[VOCABULARY] = encoder.framing.fingerprint
    text = json.dumps(config, indent=2, ensure_ascii=False) + "\n"
    (folder / CONFIG_FILE).write_text(text, encoding="utf-8")
    encoder.framing.save(folder)
    card = encoder_card(encoder.model.config, count_parameters(encoder.model), encoder.config)
    (folder / CARD_FILE).write_text(card, encoding="utf-8")


def load_encoder(folder: Path, device: torch.device | str = "cpu") -> Encoder:
    """The encoder in a model folder.

    Raises:
        ModelError: not a model folder, of another task, damaged, or its parts do not fit.
    """
    model = load_model(folder, device)
    written = read_object(folder / CONFIG_FILE)
    if written.get("task") != ENCODER:
        raise ModelError(
            f"{folder} must hold an encoder",
            seen=written.get("task", "no task named in config.json"),
            mend="name a folder that `gnomon import` wrote of an encoder",
        )
    refuse_unknown_keys(folder, written, ("model", "encoder", VOCABULARY))
    try:
        config = read_table(EncoderConfig, written.get("encoder", {}))
    except (TypeError, ValueError) as error:
        raise ModelError(f"{folder / CONFIG_FILE} is damaged", seen=error) from error
    framing = load_framing(folder)
    check_fingerprint(folder, framing.fingerprint, written)
    check_vocabulary(folder, framing, model.config.vocab_size)
    return Encoder(model, framing, config)


def encoder_card(config: TransformerConfig, num_parameters: int, way: EncoderConfig) -> str:
    """What a person who finds the folder needs to know."""
    return (
        "# An encoder: texts as vectors\n\n"
        f"- {num_parameters:,} parameters: {config.num_encoder_layers} layers, "
        f"{config.d_model} wide, {config.attention.num_heads} heads\n"
        f"- vectors: {way.pooling} over tokens{', of length 1' if way.normalise else ''}\n\n"
        "Use it: `gnomon embed FOLDER < texts.txt`, or in Python "
        "`gnomon.load('FOLDER').embed([\"…\"])`.\n"
    )

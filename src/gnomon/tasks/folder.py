"""A translator as a folder that ships: config, weights, tokenizer, text profile, card."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch
from pydantic import TypeAdapter
from torch import nn

from gnomon.decoding import Combination, SearchConfig
from gnomon.errors import ModelError
from gnomon.model import load_model, save_model
from gnomon.model.io import (
    CARD_FILE,
    CONFIG_FILE,
    WEIGHTS_FILE,
    read_object,
    read_table,
    read_weights,
    refuse_unknown_keys,
)
from gnomon.tasks.card import model_card
from gnomon.tasks.ids import SequenceIds
from gnomon.tasks.translator import Translator
from gnomon.tasks.vocabulary_fit import VOCABULARY, check_fingerprint, check_vocabulary
from gnomon.text import Familiarity, TokenizerPair

TASK = "translation"

_LONGEST = ("longest_source", "longest_target")
_KEYS = ("model", "search", "ids", "tag_sets", "long_sources", *_LONGEST, VOCABULARY)


def save_translator(translator: Translator, folder: Path) -> None:
    """Write a model folder; give one from `gnomon.files.atomic_folder` where others may look."""
    save_model(translator.model, folder)
    config = read_object(folder / CONFIG_FILE)
    config |= {"task": TASK, "search": asdict(translator.search)}
    for name in _LONGEST:
        if (longest := getattr(translator, name)) is not None:
            config[name] = longest
    if translator.cuts_sources:
        config["long_sources"] = "cut"
    config |= {"tag_sets": [list(tags) for tags in translator.tag_sets]}
    config[VOCABULARY] = translator.tokenizers.fingerprint
    if translator.ids != SequenceIds():
        config["ids"] = asdict(translator.ids)
    text = json.dumps(config, indent=2, ensure_ascii=False) + "\n"
    (folder / CONFIG_FILE).write_text(text, encoding="utf-8")
    translator.tokenizers.save(folder)
    if translator.familiarity is not None:
        translator.familiarity.save(folder)
    (folder / CARD_FILE).write_text(model_card(translator), encoding="utf-8")


def load_translator(folder: Path, device: torch.device | str = "cpu") -> Translator:
    """The translator that `save_translator` wrote.

    Raises:
        ModelError: not a model folder, of another task, damaged, or its parts do not fit.
    """
    model = load_model(folder, device)
    config = read_object(folder / CONFIG_FILE)
    if config.get("task") != TASK:
        raise ModelError(
            f"{folder} must hold a translation model",
            seen=config.get("task", "no task named in config.json"),
            mend="name a run or model folder of a translation",
        )
    refuse_unknown_keys(folder, config, _KEYS)
    try:
        search = read_table(SearchConfig, config.get("search", {}))
        tag_sets = TypeAdapter(list[tuple[str, ...]]).validate_python(config.get("tag_sets", [()]))
        ids = read_table(SequenceIds, config.get("ids", {}))
    except (TypeError, ValueError) as error:
        raise ModelError(f"{folder / CONFIG_FILE} is damaged", seen=error) from error
    tokenizers = TokenizerPair.load(folder)
    check_fingerprint(folder, tokenizers.fingerprint, config)
    check_vocabulary(folder, tokenizers.source, model.config.vocab_size, "source")
    check_vocabulary(folder, tokenizers.target, model.config.output_vocab_size(), "target")
    for name in _LONGEST:
        longest = config.get(name)
        if not (longest is None or (isinstance(longest, int) and longest > 0)):
            raise ModelError(f"{folder / CONFIG_FILE} is damaged", seen=f"{name} {longest!r}")
    return Translator(
        model,
        tokenizers,
        search,
        familiarity=Familiarity.load_if_there(folder),
        longest_source=config.get("longest_source"),
        longest_target=config.get("longest_target"),
        tag_sets=tag_sets,
        ids=ids,
        cuts_sources=config.get("long_sources") == "cut",
    )


def ensemble(translators: Sequence[Translator], combination: Combination = "mean") -> Translator:
    """Several translators as one; search settings and text profile are the first one's.

    Raises:
        ModelError: their vocabularies differ.
    """
    first, *others = translators
    for number, other in enumerate(others, 2):
        if other.tokenizers.fingerprint != first.tokenizers.fingerprint:
            raise ModelError(
                "models decode together with one vocabulary",
                seen=f"model {number} has {other.tokenizers.target.vocab_size:,} tokens with "
                f"fingerprint {other.tokenizers.fingerprint[:12]}, model 1 has "
                f"{first.tokenizers.target.vocab_size:,} with {first.tokenizers.fingerprint[:12]}",
                mend="train them on one prepared corpus with one tokenizer, for example with "
                "another training.seed",
            )
    return Translator(
        first.model,
        first.tokenizers,
        first.search,
        familiarity=first.familiarity,
        longest_source=first.longest_source,
        longest_target=first.longest_target,
        tag_sets=first.tag_sets,
        members=[other.model for other in others],
        combination=combination,
        ids=first.ids,
        cuts_sources=first.cuts_sources,
    )


def task_of(folder: Path) -> str | None:
    """What a model folder says its model is for; None: nothing.

    Raises:
        ModelError: its config cannot be read.
    """
    task = read_object(folder / CONFIG_FILE).get("task")
    return None if task is None else str(task)


def load_weights(model: nn.Module, folder: Path) -> None:
    """Put the weights of a model folder into `model`, in place, bit for bit."""
    model.load_state_dict(read_weights(folder / WEIGHTS_FILE, "cpu"))

"""A language model as a folder that ships: config, weights, vocabulary, card."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from gnomon.decoding import SearchConfig
from gnomon.errors import ModelError
from gnomon.model import count_parameters, load_model, save_model
from gnomon.model.io import CARD_FILE, CONFIG_FILE, read_object, refuse_unknown_keys
from gnomon.tasks.language_model import LanguageModel
from gnomon.tasks.vocabulary_fit import VOCABULARY, check_fingerprint, check_vocabulary
from gnomon.text.framing import load_framing
from gnomon.text.vocabulary import Vocabulary

TASK = "language_model"
_SAMPLING = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty")


@dataclass(frozen=True)
class Manner:
    """How a model's outputs are chosen and what ends them, unless told otherwise.

    Attributes:
        search: see `LanguageModel`.
        ends: ids beside the vocabulary's own that end a text.
    """

    search: SearchConfig = field(default_factory=lambda: SearchConfig(beam=1))
    ends: tuple[int, ...] = ()


def read_manner(folder: Path, vocabulary: Vocabulary) -> Manner:
    """What a model folder says of its model's outputs.

    Raises:
        ModelError: its config cannot be read or is damaged.
    """
    path = folder / CONFIG_FILE
    return _manner(read_object(path), vocabulary, path)


def _manner(config: Mapping[str, Any], vocabulary: Vocabulary, path: Path) -> Manner:
    generation = config.get("generation") or {}
    if not isinstance(generation, dict):
        raise ModelError(f"{path} is damaged", seen=f"generation {generation!r}")
    return Manner(_search(generation, path), _ends(generation, vocabulary, path))


def save_language_model(model: LanguageModel, folder: Path) -> None:
    """Write a model folder; give one from `gnomon.files.atomic_folder` where others may look."""
    save_model(model.model, folder)
    config = json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8"))
    config |= {"task": TASK, "context": model.context, VOCABULARY: model.vocabulary.fingerprint}
    if generation := _generation(model):
        config["generation"] = generation
    text = json.dumps(config, indent=2, ensure_ascii=False) + "\n"
    (folder / CONFIG_FILE).write_text(text, encoding="utf-8")
    model.vocabulary.save(folder)
    (folder / CARD_FILE).write_text(_card(model), encoding="utf-8")


def load_language_model(folder: Path, device: torch.device | str = "cpu") -> LanguageModel:
    """The language model in a folder that training or an import wrote.

    Raises:
        ModelError: not a model folder, of another task, damaged, or its parts do not fit.
    """
    model = load_model(folder, device)
    config = read_object(folder / CONFIG_FILE)
    if config.get("task") != TASK:
        raise ModelError(
            f"{folder} must hold a language model",
            seen=config.get("task", "no task named in config.json"),
            mend="name a run or model folder of a language model",
        )
    refuse_unknown_keys(folder, config, ("model", "context", "generation", VOCABULARY))
    if model.config.family != "decoder":
        raise ModelError(
            f"{folder} must hold a decoder", seen=f"model.family {model.config.family}"
        )
    context = config.get("context")
    if not (context is None or (isinstance(context, int) and context > 0)):
        raise ModelError(f"{folder / CONFIG_FILE} is damaged", seen=f"context {context!r}")
    framing = load_framing(folder)
    vocabulary = Vocabulary(framing)
    check_fingerprint(folder, framing.fingerprint, config)
    check_vocabulary(folder, framing, model.config.vocab_size)
    manner = _manner(config, vocabulary, folder / CONFIG_FILE)
    return LanguageModel(
        model,
        vocabulary,
        context=context,
        search=manner.search,
        ends=manner.ends,
        chat_template=getattr(getattr(framing, "roles", None), "chat_template", None),
    )


def check_generation(generation: Mapping[str, Any], vocabulary: Vocabulary, folder: Path) -> None:
    """Whether these settings of generation can be read from a model folder later.

    Raises:
        ModelError: one is of another kind, or out of range.
    """
    _search(generation, folder / "generation_config.json")
    _ends(generation, vocabulary, folder / "generation_config.json")


def _generation(model: LanguageModel) -> dict[str, Any]:
    """What is not as usual in the way outputs are chosen, as `_search` and `_ends` read it."""
    found: dict[str, Any] = {}
    if model.search.sample:
        found = {"do_sample": True, **{name: getattr(model.search, name) for name in _SAMPLING}}
    if model.ends:
        found["eos_token_id"] = [model.vocabulary.end_id, *model.ends]
    return found


def _search(generation: Mapping[str, Any], place: Path) -> SearchConfig:
    """How outputs are chosen by default, in the words of a `generation_config.json`."""
    base = SearchConfig(beam=1)
    if not generation.get("do_sample"):
        return base
    known = {name: generation[name] for name in _SAMPLING if generation.get(name) is not None}
    try:
        return base.changed({"sample": True} | known)
    except (ValueError, TypeError) as error:
        raise ModelError(f"{place} is damaged", seen=error) from error


def _ends(generation: Mapping[str, Any], vocabulary: Vocabulary, place: Path) -> tuple[int, ...]:
    """Ids beside the vocabulary's own that end a text."""
    given = generation.get("eos_token_id")
    ids = given if isinstance(given, list) else [] if given is None else [given]
    if any(not isinstance(each, int) or each < 0 for each in ids):
        raise ModelError(f"{place} is damaged", seen=f"eos_token_id {given!r}")
    return tuple(each for each in ids if each != vocabulary.end_id)


def _card(model: LanguageModel) -> str:
    config = model.model.config
    return (
        "# A language model trained with gnomon\n\n"
        f"- {count_parameters(model.model):,} parameters: {config.num_decoder_layers} layers, "
        f"{config.d_model} wide, {config.attention.num_heads} heads\n"
        f"- vocabulary: {model.vocabulary.vocab_size:,} tokens\n"
        + (f"- saw {model.context:,} tokens at once in training\n" if model.context else "")
        + "\nUse it: `gnomon generate FOLDER < prompts.txt`, or in Python "
        "`gnomon.load('FOLDER').generate([\"…\"])`.\n\n"
        "Limits: it goes on as its training text does, true or not.\n"
    )

"""Sentence encoders in the form of sentence-transformers: modules.json, pooling, normalising."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gnomon.errors import ModelError
from gnomon.interop.keys import Keys
from gnomon.model.io import read_json, read_object
from gnomon.tasks.embedding import EncoderConfig, Pooling

_POOLINGS: dict[str, Pooling] = {
    "mean": "mean",
    "mean_tokens": "mean",
    "cls": "first",
    "cls_token": "first",
    "max": "max",
    "max_tokens": "max",
    "lasttoken": "last",
}


def read_sentence_encoder(folder: Path) -> EncoderConfig | None:
    """How the folder says that vectors are made; None: it is not of this form.

    Raises:
        ModelError: it holds a module or setting that gnomon does not have.
    """
    path = folder / "modules.json"
    if not path.is_file():
        return None
    modules = read_json(path)
    if not isinstance(modules, list) or not all(isinstance(each, dict) for each in modules):
        raise _refused(path, "no list of modules", "load the file anew")
    kinds = [str(module.get("type", "")).rpartition(".")[2] for module in modules]
    if not kinds or kinds[0] != "Transformer" or modules[0].get("path"):
        raise _refused(path, kinds, "a Transformer in the folder itself comes first")
    pooling: Pooling = "mean"
    normalise = False
    if kinds[1:2] != ["Pooling"] or kinds[2:] not in ([], ["Normalize"]):
        raise _refused(path, kinds, "Pooling comes second, then Normalize or nothing")
    pooling = _pooling(folder / str(modules[1].get("path")) / "config.json")
    normalise = kinds[2:] == ["Normalize"]
    settings_path = folder / "sentence_bert_config.json"
    settings = read_object(settings_path) if settings_path.is_file() else {}
    if settings.get("do_lower_case"):
        raise _refused(settings_path, "do_lower_case = true", "the tokenizer itself must do that")
    prompts_path = folder / "config_sentence_transformers.json"
    prompts = read_object(prompts_path) if prompts_path.is_file() else {}
    if prompts.get("default_prompt_name"):
        raise _refused(
            prompts_path,
            f"default_prompt_name = {prompts['default_prompt_name']!r}",
            "put the prompt before the texts yourself, and set it to null",
        )
    length = settings.get("max_seq_length")
    if length is not None and (type(length) is not int or length < 1):
        raise _refused(
            settings_path, f"max_seq_length = {length!r}", "it is a positive whole number, or null"
        )
    return EncoderConfig(
        pooling=pooling,
        normalise=normalise,
        max_length=length,
    )


def _pooling(path: Path) -> Pooling:
    keys = Keys(read_object(path), str(path))
    keys.silent("word_embedding_dimension", "embedding_dimension", "include_prompt")
    keys.only("include_prompt", True)
    named = keys.get("pooling_mode", None)
    on = [str(named)] if isinstance(named, str) else []
    for key in keys.values:
        if key.startswith("pooling_mode_") and keys.get(key):
            on.append(key.removeprefix("pooling_mode_"))
    keys.finish()
    if len(on) != 1 or on[0] not in _POOLINGS:
        raise _refused(path, f"pooling by {', '.join(on)}", f"one of {', '.join(_POOLINGS)}")
    return _POOLINGS[on[0]]


def write_sentence_encoder(config: EncoderConfig, width: int, folder: Path) -> None:
    """Write the files that make a folder a sentence encoder."""
    kinds = ["Transformer", "Pooling", *(["Normalize"] if config.normalise else [])]
    paths = ["", "1_Pooling", "2_Normalize"]
    modules = [
        {
            "idx": index,
            "name": str(index),
            "path": paths[index],
            "type": f"sentence_transformers.models.{kind}",
        }
        for index, kind in enumerate(kinds)
    ]
    _write(folder / "modules.json", modules)
    if config.pooling == "pooler":
        raise ModelError(
            "a sentence encoder's vectors are pooled over tokens",
            seen="pooling by the model's own dense layer (pooler)",
            mend="set encoder.pooling in its config.json to mean, first, max or last",
        )
    mode = {"mean": "mean_tokens", "first": "cls_token", "max": "max_tokens", "last": "lasttoken"}
    flags = {
        f"pooling_mode_{name}": name == mode[config.pooling]
        for name in ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "lasttoken")
    }
    (folder / "1_Pooling").mkdir()
    _write(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": width, **flags})
    _write(
        folder / "sentence_bert_config.json",
        {"max_seq_length": config.max_length, "do_lower_case": False},
    )


def _write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def _refused(path: Path, seen: object, mend: str) -> ModelError:
    return ModelError(
        "this sentence encoder computes something that gnomon does not",
        seen=f"{path}: {seen}",
        mend=mend,
    )

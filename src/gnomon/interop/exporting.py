"""A model folder of gnomon becomes a Hugging Face folder, where one of its architectures fits."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from gnomon.errors import CheckError, ModelError
from gnomon.files import atomic_folder
from gnomon.interop.architecture import Architecture
from gnomon.interop.convert import Foreign, copy_tensors, first_difference, parts_of, plan
from gnomon.interop.importing import KEPT_FILE, LAYOUT_FILE, ORIGIN
from gnomon.interop.keys import Keys
from gnomon.interop.own_vocabulary import write_own
from gnomon.interop.parts import Parts
from gnomon.interop.registry import ARCHITECTURES, architecture_of
from gnomon.interop.sentence import read_json, write_sentence_encoder
from gnomon.interop.stream import SafetensorsFile
from gnomon.model import TransformerConfig, read_config
from gnomon.model.io import CONFIG_FILE, WEIGHTS_FILE, read_table
from gnomon.model.rope import without_ntk
from gnomon.tasks.embedding import EncoderConfig
from gnomon.tasks.ids import SequenceIds
from gnomon.text import PretrainedTokenizer
from gnomon.text.framing import OwnFraming
from gnomon.text.tokenizer_pair import load_tokenizer


@dataclass(frozen=True)
class Exported:
    """What was written.

    Attributes:
        folder: the Hugging Face folder.
        model_type: its architecture.
        num_tensors: read back and found equal, bit for bit.
    """

    folder: Path
    model_type: str
    num_tensors: int


def export_model(folder: str | Path, out: str | Path) -> Exported:
    """Write a Hugging Face folder, read it back and compare.

    A model that was taken in gives back what came: its config.json where nothing was changed, all
    tensors by their names, those without a use included, tokenizer and settings. Any other model
    is written as the first architecture that computes the same.

    Args:
        folder: a model folder.
        out: the folder to write; it must not exist.

    Raises:
        ModelError: no architecture computes what the model does; the message names what is in
            the way.
        CheckError: what was written is not what was read.
    """
    folder, out = Path(folder), Path(out)
    if out.exists():
        raise ModelError("a model is exported into a new folder", seen=f"{out} exists")
    written = read_json(folder / CONFIG_FILE)
    if isinstance(written, dict) and written.get("task") == "classification":
        raise ModelError(
            "an encoder, a language model or a translator is exported",
            seen=f"{folder} is a classifier, whose labels have no place there",
            mend="export the model that it was fine-tuned from; use it here with gnomon classify",
        )
    config = _without_ntk(read_config(folder))
    origin = folder / ORIGIN
    layout = read_json(origin / LAYOUT_FILE) if (origin / LAYOUT_FILE).is_file() else None
    if layout is None:
        architecture, theirs = _fitting(config, written)
        base_only, aliases = config.head.kind == "none", {}
    else:
        architecture = architecture_of(layout["architecture"], str(origin / LAYOUT_FILE))
        theirs = _changed(architecture, config, read_json(origin / CONFIG_FILE), layout)
        base_only, aliases = layout["base_only"], layout["aliases"]
    parts = parts_of(architecture, config, "" if base_only else architecture.prefix)
    kept = SafetensorsFile(origin / KEPT_FILE) if (origin / KEPT_FILE).is_file() else None
    source = Foreign(parts, aliases, SafetensorsFile(folder / WEIGHTS_FILE), kept)
    with atomic_folder(out) as new:
        if layout is None:
            _write_surroundings(folder, written, config, theirs, new)
        else:
            shutil.copytree(
                origin,
                new,
                dirs_exist_ok=True,
                ignore=shutil.ignore_patterns(LAYOUT_FILE, KEPT_FILE),
            )
        _write_json(new / CONFIG_FILE, theirs)
        copy_tensors(source, list(source.shapes()), new / WEIGHTS_FILE)
        _compare(architecture, config, source, new)
    return Exported(out, architecture.model_type, len(source.shapes()))


def _compare(
    architecture: Architecture, config: TransformerConfig, source: Foreign, new: Path
) -> None:
    """Read back what was written.

    Raises:
        CheckError: the configuration or a tensor is another.
    """
    back = SafetensorsFile(new / WEIGHTS_FILE)
    if (name := first_difference(source, back)) is not None:
        raise CheckError("what is exported must be what was there", seen=f"{name} differs")
    theirs = read_json(new / CONFIG_FILE)
    # All keys are known, or were passed over when the model was taken in.
    keys = Keys(theirs, CONFIG_FILE, ignored=list(theirs))
    again = plan(architecture, keys, back).config
    if different := differences(normal(again), normal(config)):
        raise CheckError("what is exported must compute what was there", seen="; ".join(different))


def _changed(
    architecture: Architecture,
    config: TransformerConfig,
    original: Mapping[str, Any],
    layout: Mapping[str, Any],
) -> dict[str, Any]:
    """The config.json that came, with those keys changed that the model was changed in."""
    as_it_came = dict(original)
    different: list[str] = []
    for theirs in (as_it_came, as_it_came | architecture.write(config)):
        keys = Keys(theirs, CONFIG_FILE, ignored=list(theirs))
        try:
            different = _in_the_way(architecture, keys, config)
        except ModelError as error:
            different = [str(error.seen)]
        if not different:
            return theirs
    raise ModelError(
        "a model that was taken in is exported as what it was",
        seen=f"it was changed since; {architecture.model_type} has not: {'; '.join(different)}",
        mend="export the model as it was before the change",
    )


def _in_the_way(architecture: Architecture, keys: Keys, config: TransformerConfig) -> list[str]:
    """What a config.json of this architecture does not say of `config`; empty: it says all.

    Raises:
        ModelError: it describes no model.
    """
    to = Parts(config, architecture.prefix)
    try:
        architecture.parts(to)
        fits = to.fits
    except (AssertionError, AttributeError):  # a module that ours has not
        fits = False
    names = {name for part in to.found for name in part.theirs}
    different = differences(normal(config), normal(architecture.read(keys, names)))
    return different if different or fits else ["some of its weights"]


def _without_ntk(config: TransformerConfig) -> TransformerConfig:
    """NTK scaling is a larger theta, which is how it is written there."""
    if config.position.kind != "rope":
        return config
    rope = without_ntk(config.position.rope, config.attention.width(config.d_model))
    return replace(config, position=replace(config.position, rope=rope))


def _fitting(
    config: TransformerConfig, written: Mapping[str, Any]
) -> tuple[Architecture, dict[str, Any]]:
    """The first architecture whose config.json can say what `config` says.

    Raises:
        ModelError: there is none; the nearest one and what is in its way are named.
    """
    nearest: tuple[list[str], str] | None = None
    for architecture in ARCHITECTURES.values():
        if architecture.model_type in ("xlm-roberta",):  # as roberta, but for its tokenizer
            continue
        try:
            theirs = architecture.write(config)
            different = _in_the_way(architecture, Keys(theirs, CONFIG_FILE), config)
        except (KeyError, ModelError):
            continue  # it has no words for this model at all
        if not different:
            head, bare = architecture.classes
            theirs |= {
                "model_type": architecture.model_type,
                "architectures": [bare if config.head.kind == "none" else head],
            }
            return architecture, theirs
        if nearest is None or len(different) < len(nearest[0]):
            nearest = (different, architecture.model_type)
    seen = "no architecture has such a model"
    if nearest is not None:
        seen = f"the nearest, {nearest[1]}, has not: {'; '.join(nearest[0])}"
    raise ModelError(
        "a model is exported as an architecture that computes the same",
        seen=seen,
        mend=f"architectures: {', '.join(ARCHITECTURES)}; see docs/how-to/hugging-face.md",
    )


def normal(config: TransformerConfig) -> TransformerConfig:
    """The same model with defaults filled in and keys without effect at their defaults.

    Dropout is of training: it is written where an architecture has a key for it, and in nobody's
    way where it has none.
    """
    attention, default = config.attention, TransformerConfig()
    position = config.position
    attention = replace(
        attention,
        head_size=attention.width(config.d_model),
        num_key_value_heads=attention.key_value_heads(),
        window=attention.window if attention.pattern == "sliding_window" else 0,
        num_global_tokens=0 if attention.pattern == "full" else attention.num_global_tokens,
        dilation=attention.dilation if attention.pattern == "dilated" else 0,
        block_size=attention.block_size if attention.pattern == "block_sparse" else 0,
        dropout=0.0,
    )
    if position.kind != "learned":
        position = replace(position, max_length=default.position.max_length)
    if position.kind != "rope":
        position = replace(position, rope=default.position.rope)
    if position.kind != "relative":
        position = replace(position, relative=default.position.relative)
    if position.kind != "sinusoidal":
        position = replace(position, layout="interleaved")
    embedding = replace(config.embedding, dropout=None, sparse_gradient=False)
    target = config.target_vocab_size
    tie = config.tie
    if tie == "decoder" and config.family == "decoder":
        tie = "all"
    if config.head.kind == "none":
        tie = "all"
    return replace(
        config,
        attention=attention,
        feedforward=replace(config.feedforward, dropout=0.0),
        position=position,
        embedding=embedding,
        target_vocab_size=config.vocab_size if target is None else target,
        norm=replace(config.norm, bias=config.norm.bias or config.norm.kind == "rms"),
        dropout=0.0,
        layer_drop=0.0,
        tie=tie,
        num_encoder_layers=config.num_encoder_layers if config.has_encoder() else 0,
        num_decoder_layers=config.num_decoder_layers if config.has_decoder() else 0,
    )


def differences(a: Any, b: Any, prefix: str = "model.") -> list[str]:
    """Keys in which two configurations differ, with both values."""
    found = []
    for field in fields(a):
        left, right = getattr(a, field.name), getattr(b, field.name)
        if is_dataclass(left) and is_dataclass(right):
            found += differences(left, right, f"{prefix}{field.name}.")
        elif left != right:
            found.append(f"{prefix}{field.name} = {left!r} (there: {right!r})")
    return found


def _write_surroundings(
    folder: Path,
    written: Mapping[str, Any],
    config: TransformerConfig,
    theirs: dict[str, Any],
    new: Path,
) -> None:
    """Tokenizer and settings of a model that was not taken in."""
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise ModelError(
            "a Hugging Face folder has one tokenizer",
            seen=f"{folder} has one a side",
            mend="train with one vocabulary: tokenizer.joint = true",
        )
    tokenizer = load_tokenizer(path)
    names = {"pad": tokenizer.pad_id, "unk": tokenizer.unk_id, "bos": tokenizer.bos_id}
    names["eos"] = tokenizer.eos_id
    settings: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast"}
    try:
        ids = read_table(SequenceIds, written.get("ids", {}))
        way = read_table(EncoderConfig, written.get("encoder", {}))
    except (TypeError, ValueError) as error:
        raise ModelError(f"{folder / CONFIG_FILE} is damaged", seen=error) from error
    if isinstance(tokenizer, PretrainedTokenizer):
        names |= {"mask": tokenizer.mask_id, "cls": tokenizer.roles.cls, "sep": tokenizer.roles.sep}
        shutil.copyfile(path, new / "tokenizer.json")
    else:
        names["mask"] = OwnFraming(tokenizer).mask_id
        segments = config.embedding.num_segments > 1
        task = str(written.get("task"))
        write_own(tokenizer, new / "tokenizer.json", task, ids, segments=segments)
        inputs = ["input_ids", *(["token_type_ids"] if segments else []), "attention_mask"]
        settings |= {"model_input_names": inputs, "clean_up_tokenization_spaces": False}
    for role, index in names.items():
        if index is not None:
            settings[f"{role}_token"] = tokenizer.pieces([index])[0]
            if role in ("bos", "eos"):
                theirs[f"{role}_token_id"] = index
    if (longest := config.max_positions()) is not None:
        settings["model_max_length"] = longest
    if isinstance(tokenizer, PretrainedTokenizer) and tokenizer.roles.chat_template:
        settings["chat_template"] = tokenizer.roles.chat_template
    _write_json(new / "tokenizer_config.json", settings)
    if config.family == "encoder_decoder":
        theirs["decoder_start_token_id"] = ids.start
    if written.get("task") == "encoder":
        write_sentence_encoder(way, config.d_model, new)


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")

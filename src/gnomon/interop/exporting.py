"""A model folder of gnomon becomes a Hugging Face folder, where one of its architectures fits."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gnomon.errors import CheckError, ModelError
from gnomon.files import atomic_folder
from gnomon.interop.convert import Foreign, copy_tensors, first_difference, parts_of, plan
from gnomon.interop.fitting import Fit, changed, differences, fitting, normal, ntk_as_theta
from gnomon.interop.importing import KEPT_FILE, LAYOUT_FILE, ORIGIN
from gnomon.interop.keys import Keys
from gnomon.interop.label_heads import Labelling, check_last_token
from gnomon.interop.own_vocabulary import write_own
from gnomon.interop.registry import architecture_of
from gnomon.interop.sentence import write_sentence_encoder
from gnomon.interop.stream import SafetensorsFile
from gnomon.model import TransformerConfig, read_config
from gnomon.model.io import (
    CONFIG_FILE,
    WEIGHTS_FILE,
    count_tensors,
    read_json,
    read_table,
    without_weights,
)
from gnomon.tasks.classifier_folder import TASK as CLASSIFICATION
from gnomon.tasks.classifier_folder import (
    ClassifierSettings,
    load_classifier,
    read_settings,
    save_classifier,
)
from gnomon.tasks.embedding import EncoderConfig
from gnomon.tasks.ids import SequenceIds
from gnomon.text import PretrainedTokenizer
from gnomon.text.framing import OwnFraming
from gnomon.text.reserved import EOS_ID
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
    settings = None
    if isinstance(written, dict) and written.get("task") == CLASSIFICATION:
        settings = _transformer_settings(folder, written)
        if settings.lora.rank:
            return _export_merged(folder, out)
    config = ntk_as_theta(read_config(folder))
    without_weights(config, count_tensors(folder / WEIGHTS_FILE), folder / CONFIG_FILE)
    origin = folder / ORIGIN
    layout = read_json(origin / LAYOUT_FILE) if (origin / LAYOUT_FILE).is_file() else None
    if layout is None:
        fit = fitting(config, settings)
        base_only, aliases = config.head.kind == "none" and settings is None, {}
    else:
        architecture = architecture_of(layout["architecture"], str(origin / LAYOUT_FILE))
        fit = changed(architecture, config, settings, read_json(origin / CONFIG_FILE))
        base_only, aliases = layout["base_only"], layout["aliases"]
    architecture = fit.architecture
    prefix = "" if base_only else architecture.prefix
    parts = parts_of(architecture, config, prefix, fit.labelling)
    kept = SafetensorsFile(origin / KEPT_FILE) if (origin / KEPT_FILE).is_file() else None
    source = Foreign(parts, aliases, SafetensorsFile(folder / WEIGHTS_FILE), kept)
    with atomic_folder(out) as new:
        if layout is None:
            _write_surroundings(folder, written, config, fit, new)
        else:
            shutil.copytree(
                origin,
                new,
                dirs_exist_ok=True,
                ignore=shutil.ignore_patterns(LAYOUT_FILE, KEPT_FILE),
            )
        _write_json(new / CONFIG_FILE, fit.keys)
        copy_tensors(source, list(source.shapes()), new / WEIGHTS_FILE)
        _compare(fit, config, source, new)
    return Exported(out, architecture.model_type, len(source.shapes()))


def _transformer_settings(folder: Path, written: Mapping[str, Any]) -> ClassifierSettings:
    """What a classifier's folder says of it.

    Raises:
        ModelError: it is no Transformer.
    """
    if "model" not in written:
        raise ModelError(
            "a Transformer is exported",
            seen=f"{folder} is a bidirectional LSTM, which no architecture there computes",
            mend="use it here with gnomon classify, or train a Transformer",
        )
    return read_settings(folder)


def _export_merged(folder: Path, out: Path) -> Exported:
    """Export a classifier whose low-rank additions are put into its weights first."""
    with tempfile.TemporaryDirectory() as merged:
        save_classifier(load_classifier(folder), Path(merged))
        return export_model(merged, out)


def _compare(fit: Fit, config: TransformerConfig, source: Foreign, new: Path) -> None:
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
    again = plan(fit.architecture, keys, back, with_labels=fit.labelling is not None)
    different = differences(normal(again.config), normal(config))
    for one, other in zip(_labels(again.labelling), _labels(fit.labelling), strict=True):
        if one != other:
            different.append(f"{one!r} (there: {other!r})")
    if different:
        raise CheckError("what is exported must compute what was there", seen="; ".join(different))


def _labels(labelling: Labelling | None) -> tuple[object, ...]:
    """What of a classifier must come back."""
    if labelling is None:
        return ()
    return labelling.head, labelling.labels, labelling.kind


def _write_surroundings(
    folder: Path,
    written: Mapping[str, Any],
    config: TransformerConfig,
    fit: Fit,
    new: Path,
) -> None:
    """Tokenizer and settings of a model that was not taken in."""
    theirs = fit.keys
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
    segments = config.embedding.num_segments > 1  # some models take no ids of segments at all
    settings: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_input_names": [
            *("input_ids", *(["token_type_ids"] if segments else []), "attention_mask")
        ],
    }
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
        task = str(written.get("task"))
        write_own(tokenizer, new / "tokenizer.json", task, ids, segments=segments)
        settings["clean_up_tokenization_spaces"] = False
    if fit.labelling is not None:
        suffix = tokenizer.suffix if isinstance(tokenizer, PretrainedTokenizer) else (EOS_ID,)
        check_last_token(fit.labelling, config.pad_id, suffix)
    for role, index in names.items():
        if index is not None:
            settings[f"{role}_token"] = tokenizer.pieces([index])[0]
            if role in ("bos", "eos"):
                theirs[f"{role}_token_id"] = index
    reach = (config.max_positions(), written.get("max_length"))  # a classifier may read less
    if longest := [each for each in reach if each is not None]:
        settings["model_max_length"] = min(longest)
    if isinstance(tokenizer, PretrainedTokenizer) and tokenizer.roles.chat_template:
        settings["chat_template"] = tokenizer.roles.chat_template
    _write_json(new / "tokenizer_config.json", settings)
    if generation := written.get("generation"):  # in the words of just such a file
        _write_json(new / "generation_config.json", generation)
    if config.family == "encoder_decoder":
        theirs["decoder_start_token_id"] = ids.start
    if written.get("task") == "encoder":
        write_sentence_encoder(way, config.d_model, new)


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")

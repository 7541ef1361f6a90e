"""A Hugging Face folder becomes a model folder of gnomon."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from gnomon.decoding import SearchConfig
from gnomon.errors import ModelError, RecipeError
from gnomon.files import atomic_folder
from gnomon.interop.architecture import Architecture
from gnomon.interop.convert import Plan, plan, write_kept, write_ours
from gnomon.interop.keys import Keys
from gnomon.interop.label_heads import check_last_token, settings_for
from gnomon.interop.places import find_folder
from gnomon.interop.registry import architecture_of
from gnomon.interop.sentence import read_sentence_encoder
from gnomon.interop.sentencepieces import marian
from gnomon.interop.stream import open_weights
from gnomon.interop.vocabulary import Vocabulary
from gnomon.model import TransformerConfig
from gnomon.model.io import (
    CARD_FILE,
    CONFIG_FILE,
    WEIGHTS_FILE,
    read_config,
    read_object,
    write_config,
)
from gnomon.tasks.classifier_folder import TASK as CLASSIFICATION
from gnomon.tasks.embedding import EncoderConfig
from gnomon.tasks.ids import SequenceIds
from gnomon.tasks.language_folder import check_generation
from gnomon.tasks.vocabulary_fit import VOCABULARY, check_vocabulary
from gnomon.text import PretrainedTokenizer, TokenizerPair
from gnomon.text.vocabulary import Vocabulary as TokenVocabulary

ORIGIN = "huggingface"
"""Folder within a model folder: what the foreign folder held beside its weights."""
LAYOUT_FILE = "layout.json"
KEPT_FILE = "kept.safetensors"
# What is kept of a foreign folder: settings, vocabularies, the card and the licence; no code.
_KEPT_FILES = ("*.json", "*.txt", "*.model", "*.spm", "*.jinja", "README.md", "LICENSE*")
_GENERATION = """
    pad_token_id bos_token_id eos_token_id decoder_start_token_id forced_bos_token_id
    forced_eos_token_id num_beams length_penalty no_repeat_ngram_size repetition_penalty
    min_length max_length max_new_tokens do_sample temperature top_k top_p
"""
_LARGEST = 64 << 20  # bytes of such a file
_NO_LENGTH = 1 << 30  # a tokenizer without a longest text names a larger number


@dataclass(frozen=True)
class Imported:
    """What was taken in.

    Attributes:
        folder: the model folder.
        model_type: the architecture.
        task: what the model is for.
        num_parameters: in tensors of the model.
        kept: foreign tensors that the model has no place for; an export gives them back.
        notes: what a person should know.
    """

    folder: Path
    model_type: str
    task: str
    num_parameters: int
    kept: tuple[str, ...]
    notes: tuple[str, ...]


def import_model(
    name: str | Path,
    out: str | Path,
    *,
    ignore: Collection[str] = (),
    head: bool = True,
    pairs: bool = False,
) -> Imported:
    """Write the model folder of a foreign model, or nothing at all.

    No code that lies beside the model is run.

    Args:
        name: a Hugging Face folder, `pkg:PACKAGE`, or a name on the hub.
        out: the folder to write; it must not exist.
        ignore: keys of config.json to pass over.
        head: take a classifier as one; otherwise the model that it was made of.
        pairs: the classifier judges two texts at a time, which no file says.

    Raises:
        ModelError: something there that gnomon does not have, by name; or the folder is damaged.
        RecipeError: `pairs` of what is no classifier.
    """
    out = Path(out)
    if out.exists():
        raise ModelError("a model is taken into a new folder", seen=f"{out} exists")
    folder = find_folder(str(name))
    place = str(folder / CONFIG_FILE)
    config = read_object(folder / CONFIG_FILE)
    if "format_version" in config and "model" in config:
        raise ModelError("this is a model folder of gnomon already", seen=folder)
    architecture = architecture_of(config.get("model_type"), place)
    source = open_weights(folder)
    keys = Keys(config, place, ignore)
    found = plan(architecture, keys, source, with_labels=head)
    if pairs and found.labelling is None:
        raise RecipeError(
            "pairs are for a model that is taken in as a classifier",
            seen=f"{place}: architectures = {config.get('architectures')!r}",
        )
    notes: list[str] = []
    task = architecture.task if found.labelling is None else CLASSIFICATION
    with atomic_folder(out) as new:
        pair = _tokenizers(architecture, found.config, folder, config, new, notes)
        if found.labelling is None:
            extra = _task(architecture, found.config, folder, config, pair, notes)
        else:
            extra = _classifier(found, keys, folder, pair, pairs=pairs)
        write_config(found.config, new, extra)
        _check_config(new, place)
        write_ours(found, source, new / WEIGHTS_FILE)
        _write_origin(architecture, found, source, folder, new / ORIGIN)
        number = sum(_size(part.size) for part in found.parts)
        (new / CARD_FILE).write_text(_card(architecture, task, number), encoding="utf-8")
    kept = tuple(found.kept)
    return Imported(out, architecture.model_type, task, number, kept, tuple(notes))


def _check_config(new: Path, place: str) -> None:
    """What was written can be read: values that came through untouched are of their kinds."""
    try:
        read_config(new)
    except ModelError as error:
        raise ModelError(
            f"every key of {place} must have a value of its kind", seen=error.seen
        ) from error


def _size(shape: tuple[int, ...]) -> int:
    number = 1
    for length in shape:
        number *= length
    return number


def _tokenizers(
    architecture: Architecture,
    config: TransformerConfig,
    folder: Path,
    theirs: Mapping[str, Any],
    new: Path,
    notes: list[str],
) -> TokenizerPair:
    """Write the tokenizer into `new`."""
    if architecture.model_type == "marian" and not (folder / "tokenizer.json").is_file():
        pair = TokenizerPair(*marian(folder, theirs))
        notes.append(
            "Marian's own programs normalise punctuation before a text is cut (sacremoses); "
            "gnomon does not"
        )
    else:
        tokenizer = Vocabulary(folder, theirs).open()
        pair = TokenizerPair(tokenizer, tokenizer)
    pair.save(new)
    check_vocabulary(folder, pair.source, config.vocab_size, "source")
    check_vocabulary(folder, pair.target, config.output_vocab_size(), "target")
    return pair


def _classifier(
    found: Plan, keys: Keys, folder: Path, pair: TokenizerPair, *, pairs: bool
) -> dict[str, Any]:
    """What config.json says of a classifier beside its network."""
    assert found.labelling is not None and isinstance(pair.source, PretrainedTokenizer)
    check_last_token(found.labelling, found.config.pad_id, pair.source.suffix)
    longest = found.config.max_positions()
    path = folder / "tokenizer_config.json"
    named = read_object(path).get("model_max_length") if path.is_file() else None
    if isinstance(named, int) and 0 < named < _NO_LENGTH:
        longest = named if longest is None else min(named, longest)
    settings = settings_for(found.labelling, keys, longest)
    if pairs:
        settings = replace(settings, takes_pairs=True)
    return {"task": CLASSIFICATION, **asdict(settings), VOCABULARY: pair.source.fingerprint}


def _task(
    architecture: Architecture,
    config: TransformerConfig,
    folder: Path,
    theirs: Mapping[str, Any],
    pair: TokenizerPair,
    notes: list[str],
) -> dict[str, Any]:
    """What config.json says beside the model itself."""
    assert isinstance(pair.source, PretrainedTokenizer)
    generation = _generation(folder, theirs)
    known = {VOCABULARY: pair.source.fingerprint}
    if architecture.task == "encoder":
        way = read_sentence_encoder(folder) or EncoderConfig()
        return {"task": "encoder", "encoder": asdict(way), **known}
    if architecture.task == "language_model":
        check_generation(generation, TokenVocabulary(pair.source), folder)
        return {"task": "language_model", "generation": generation, **known}
    ids = _ids(pair.source, generation, config)
    return {
        "task": "translation",
        "search": asdict(_search(generation, notes)),
        "ids": asdict(ids),
        # Marian's positions are computed and have no end, but it has seen no longer text.
        "longest_source": config.position.max_length,
        "longest_target": config.position.max_length,
        "tag_sets": [[]],
        VOCABULARY: pair.fingerprint,
    }


def _generation(folder: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """What generation does by default: generation_config.json, else config.json."""
    path = folder / "generation_config.json"
    own = read_object(path) if path.is_file() else {}
    found = {name: own.get(name, config.get(name)) for name in _GENERATION.split()}
    return {name: value for name, value in found.items() if value is not None}


def _ids(
    tokenizer: PretrainedTokenizer, generation: Mapping[str, Any], config: TransformerConfig
) -> SequenceIds:
    """Between what a translation stands.

    Raises:
        ModelError: it is not named what the decoder begins with, or what ends it.
    """
    end = generation.get("eos_token_id", tokenizer.eos_id)
    end = end[0] if isinstance(end, list) and len(end) == 1 else end
    start = generation.get("decoder_start_token_id", generation.get("bos_token_id"))
    if start is None and config.position.kind == "relative":
        start = config.pad_id  # T5's code says so, where its config does not
    for name, value in (("eos_token_id", end), ("decoder_start_token_id", start)):
        if not _is_id(value, config.output_vocab_size()):
            raise ModelError(
                "a model that translates must name the ids that its output stands between",
                seen=f"{name} = {value!r}",
                mend="add it to its generation_config.json or config.json",
            )
    first = generation.get("forced_bos_token_id")
    if first is not None and not _is_id(first, config.output_vocab_size()):
        raise ModelError(
            "what a translation is to begin with must be an id of its vocabulary",
            seen=f"forced_bos_token_id = {first!r}",
            mend="mend it in its generation_config.json or config.json, or set it to null",
        )
    assert isinstance(end, int) and isinstance(start, int)
    return SequenceIds(
        pad=tokenizer.pad_id if config.pad_id is None else config.pad_id,
        start=start,
        end=end,
        first=first,
        source_prefix=tokenizer.prefix,
        source_suffix=tokenizer.suffix,
    )


def _is_id(value: object, vocab_size: int) -> bool:
    return type(value) is int and 0 <= value < vocab_size


def _search(generation: Mapping[str, Any], notes: list[str]) -> SearchConfig:
    """The search settings that say the same; what has no counterpart is told."""
    try:
        beam = int(generation.get("num_beams", 1))
        power = float(generation.get("length_penalty", 1.0))
        no_repeat = int(generation.get("no_repeat_ngram_size", 0))
        repetition = float(generation.get("repetition_penalty", 1.0))
    except (TypeError, ValueError) as error:
        raise ModelError(
            "settings of generation must be numbers",
            seen=error,
            mend="mend generation_config.json (or config.json, where there is none)",
        ) from error
    if beam > 1 and power not in (0.0, 1.0):
        notes.append(f"length_penalty = {power:g} has no counterpart: scores are averages")
    search = SearchConfig(
        beam=beam,
        length_penalty="none" if power == 0.0 else "average",
        alpha=0.0,
        no_repeat_ngram=no_repeat,
        repetition_penalty=repetition,
    )
    if problems := search.problems():
        raise ModelError(
            "settings of generation must be in range",
            seen="; ".join(problems),
            mend="mend generation_config.json (or config.json, where there is none)",
        )
    return search


def _write_origin(
    architecture: Architecture, found: Plan, source: Any, folder: Path, origin: Path
) -> None:
    """Keep all that an export needs to give back what came."""
    origin.mkdir()
    files = [path for pattern in _KEPT_FILES for path in folder.glob(pattern)]
    files += folder.glob("*_Pooling/config.json")
    for path in files:
        if path.name.endswith(".index.json") or path.stat().st_size > _LARGEST:
            continue
        target = origin / path.relative_to(folder)
        target.parent.mkdir(exist_ok=True)
        shutil.copyfile(path, target)
    layout = {
        "architecture": architecture.model_type,
        "base_only": found.base_only,
        "aliases": dict(found.aliases),
    }
    (origin / LAYOUT_FILE).write_text(json.dumps(layout, indent=2) + "\n", encoding="utf-8")
    if found.kept:
        write_kept(found, source, origin / KEPT_FILE)


def _card(architecture: Architecture, task: str, number: int) -> str:
    verb = {
        "encoder": "embed",
        "language_model": "generate",
        "translation": "translate",
        CLASSIFICATION: "classify",
    }
    return (
        f"# A {architecture.model_type} model, taken in from Hugging Face's form\n\n"
        f"- {number:,} parameters\n"
        f"- what came with it, its own card and licence included: `{ORIGIN}/`\n\n"
        f"Use it: `gnomon {verb[task]} FOLDER`. "
        "Back: `gnomon export FOLDER --to huggingface OUT`.\n"
    )

"""From a batch as its user passes it to a `Call`: which tensor is what, by name, type and shape."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gnomon.doctor.call import IGNORED_LABEL, Call, Entry, Key, Role, Stream, StreamName
from gnomon.doctor.finding import Skip
from gnomon.doctor.patient import Batch, Patient

_TARGET = re.compile(r"(^|_)(decoder|dec|tgt|target|trg|y)(_|$)")
_LABELS = re.compile(r"(^|_)(labels?|gold|targets)(_|$)")
_SEGMENTS = re.compile(r"token_type|segment|document|(^|_)(doc|seq)(_|$)")


def named(module: nn.Module, batch: Batch | Tensor) -> dict[Key, Any]:
    """The inputs by the parameter names of `forward`, or by place where it does not name them."""
    values = _named(module, batch)
    return {
        # What was made in inference mode cannot be kept for a backward pass.
        key: value.clone() if isinstance(value, Tensor) and value.is_inference() else value
        for key, value in values.items()
    }


def _named(module: nn.Module, batch: Batch | Tensor) -> dict[Key, Any]:
    if isinstance(batch, Tensor):
        batch = (batch,)
    if isinstance(batch, Mapping):
        return {str(key): value for key, value in batch.items()}
    if not isinstance(batch, Sequence) or isinstance(batch, str):
        raise Skip(f"a batch is a mapping or a sequence of inputs, here a {type(batch).__name__}")
    names = list(inspect.signature(module.forward).parameters.values())
    values: dict[Key, Any] = {}
    for place, value in enumerate(batch):
        kind = names[place].kind if place < len(names) else inspect.Parameter.VAR_POSITIONAL
        keyword = kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        values[names[place].name if keyword else place] = value
    by_place = any(isinstance(key, int) for key in values)  # all, or Python would refuse them
    if by_place or isinstance(module, torch.fx.GraphModule):  # it insists on how it was exported
        return dict(enumerate(batch))
    return values


def with_decoder_inputs(patient: Patient, values: Mapping[Key, Any]) -> dict[Key, Any]:
    """Hugging Face's encoder-decoders make the decoder's inputs of the labels when they are called;
    here they are made before, so that checks can change a target without its labels.
    """
    module, labels = patient.module, values.get("labels")
    assert module is not None
    config = config_of(patient)
    if (
        not getattr(config, "is_encoder_decoder", False)
        or not isinstance(labels, Tensor)
        or labels.dim() != 2
        or {"decoder_input_ids", "decoder_inputs_embeds"} & set(values)
        or "decoder_input_ids" not in inspect.signature(module.forward).parameters
    ):
        return dict(values)
    own = getattr(module, "prepare_decoder_input_ids_from_labels", None)
    if own is not None:
        return {**values, "decoder_input_ids": own(labels=labels)}
    start, pad_id = getattr(config, "decoder_start_token_id", None), known_pad_id(patient)
    if start is None or pad_id is None:
        return dict(values)
    shifted = labels.roll(1, 1)
    shifted[:, 0] = start
    return {**values, "decoder_input_ids": shifted.masked_fill(shifted == IGNORED_LABEL, pad_id)}


def call_of(patient: Patient, values: Mapping[Key, Any]) -> Call:
    """Say of each input which text it runs along.

    Raises:
        Skip: no input looks like token ids or vectors.
    """
    assert patient.module is not None
    batch_first = is_batch_first(patient.module)
    texts = _texts({k: v for k, v in values.items() if k != patient.document_key}, batch_first)
    if not texts:
        shapes = {
            key: tuple(v.shape) if isinstance(v, Tensor) else f"a {type(v).__name__}, no tensor"
            for key, v in values.items()
        }
        raise Skip(f"no input looks like ids [B, T] or vectors [B, T, D]: {shapes}")
    for text in texts.values():
        if not values[text.key].numel():
            raise Skip(f"the batch is empty: {text.key} is {tuple(values[text.key].shape)}")
    entries = list(texts.values())
    for key, value in values.items():
        if isinstance(value, Tensor) and key not in {entry.key for entry in entries}:
            found = _entry(key, value, texts, values, patient)
            if found is not None:
                entries.append(found)
    streams = {
        name: _stream(name, entry, entries, values, patient) for name, entry in texts.items()
    }
    return Call(dict(values), tuple(entries), streams)


def is_batch_first(module: nn.Module) -> bool:
    """Whether the vectors that it reads have their rows first, as its attention says."""
    for each in module.modules():
        if isinstance(each, nn.MultiheadAttention):
            return bool(each.batch_first)
    return True


def _texts(values: Mapping[Key, Any], batch_first: bool) -> dict[StreamName, Entry]:
    """The inputs that are read: up to two, the target being named so or the second."""
    found: list[Entry] = []
    for key, value in values.items():
        if not isinstance(value, Tensor) or not _is_text(str(key), value):
            continue
        role: Role = "vectors" if value.is_floating_point() else "ids"
        rows = 0 if batch_first or role == "ids" else 1
        if value.dim() == 1 or (role == "vectors" and value.dim() == 2):
            continue  # one text without rows: not batched
        found.append(Entry(key, role, "source", rows, (1 - rows,)))
    # Ids and vectors of one text at once: the ids are it.
    texts: dict[StreamName, Entry] = {}
    for entry in found:
        is_target = bool(_TARGET.search(str(entry.key)))
        name: StreamName = "target" if is_target else "source"
        if name == "source" and "source" in texts:
            name = "target"
        if name not in texts:
            texts[name] = Entry(entry.key, entry.role, name, entry.batch, entry.times)
    if "target" in texts and "source" not in texts:
        only = texts.pop("target")
        texts["source"] = Entry(only.key, only.role, "source", only.batch, only.times)
    return texts


def _is_text(name: str, value: Tensor) -> bool:
    if "mask" in name or "position" in name or "keep" in name or _SEGMENTS.search(name):
        return False
    if _LABELS.search(name) or value.dtype == torch.bool or "bias" in name:
        return False
    return value.dim() == (3 if value.is_floating_point() else 2)


def _entry(
    key: Key,
    value: Tensor,
    texts: Mapping[StreamName, Entry],
    values: Mapping[Key, Any],
    patient: Patient,
) -> Entry | None:
    name = str(key)
    sizes = {}
    for each, text in texts.items():
        read: Tensor = values[text.key]
        sizes[each] = (read.size(text.batch or 0), read.size(text.times[0]))
    stream = _belongs_to(name, value, sizes)
    rows, length = sizes[stream]
    if "mask" in name or "keep" in name or value.dtype == torch.bool:
        return _mask(key, value, stream, rows, length, texts[stream], values, patient)
    if value.dim() >= 2 and value.size(0) == rows and value.size(1) == length:
        role: Role = "numbers"
        if _LABELS.search(name):
            role = "labels"
        elif key == patient.document_key:
            role = "documents"
        elif "position" in name:
            role = "positions"
        return Entry(key, role, stream, 0, (1,))
    if value.dim() >= 1 and value.size(0) == rows:
        return Entry(key, "labels" if _LABELS.search(name) else "numbers", stream, 0, ())
    if value.dim() <= 2 and value.size(-1) == length and "position" in name:
        return Entry(key, "positions", stream, None, (value.dim() - 1,))
    return None


def _belongs_to(
    name: str, value: Tensor, sizes: Mapping[StreamName, tuple[int, int]]
) -> StreamName:
    if len(sizes) == 1:
        return "source"
    if "memory" in name or "src" in name or "encoder" in name.replace("decoder", ""):
        return "source"
    if _TARGET.search(name) or _LABELS.search(name):
        return "target"
    fits = [stream for stream, (_, length) in sizes.items() if length in value.shape]
    return "source" if "source" in fits or not fits else "target"


def _mask(
    key: Key,
    value: Tensor,
    stream: StreamName,
    rows: int,
    length: int,
    text: Entry,
    values: Mapping[Key, Any],
    patient: Patient,
) -> Entry | None:
    shape, last = tuple(value.shape), value.dim() - 1
    if (
        len(shape) >= 2
        and shape[-2:] == (length, length)
        and not (len(shape) == 2 and rows == length and "padding" in str(key))
    ):
        return Entry(
            key,
            "square",
            stream,
            0 if len(shape) > 2 and shape[0] == rows else None,
            (last - 1, last),
        )
    if shape[-1:] != (length,):
        return None
    batch = 0 if len(shape) > 1 and shape[0] == rows else None
    return Entry(key, _polarity(str(key), value, text, values, patient), stream, batch, (last,))


def _polarity(
    name: str, value: Tensor, text: Entry, values: Mapping[Key, Any], patient: Patient
) -> Role:
    if value.is_floating_point() and bool((value <= 0).all()):
        return "ignore"  # it is added to the scores, whatever it is called
    if "key_padding_mask" in name or "ignore" in name:
        return "ignore"
    if "attention_mask" in name or "keep" in name:
        return "keep"
    pad_id = known_pad_id(patient)
    ids: Tensor = values[text.key]
    flat = value.reshape(value.size(0), -1)
    if (
        pad_id is not None
        and ids.dim() == 2
        and flat.shape == ids.shape
        and bool((ids == pad_id).any())
    ):
        agree = (flat.bool() == (ids != pad_id)).float().mean()
        return "keep" if float(agree) > 0.5 else "ignore"
    # Most positions of a batch are tokens.
    return "keep" if float(flat.float().mean()) >= 0.5 else "ignore"


def known_pad_id(patient: Patient) -> int | None:
    """The id of padding: as declared, else the tokenizer's, the configuration's, the table's."""
    if patient.pad_id is not None:
        return patient.pad_id
    for owner, name in (
        (patient.tokenizer, "pad_token_id"),
        (config_of(patient), "pad_token_id"),
        (config_of(patient), "pad_id"),
        (patient.module, "pad_id"),
        (patient.module, "pad_idx"),
        (patient.module, "pad_token_id"),
    ):
        found = getattr(owner, name, None)
        if isinstance(found, int) and found >= 0:
            return found
    if patient.module is not None:
        for each in patient.module.modules():
            if isinstance(each, nn.Embedding) and each.padding_idx is not None:
                return int(each.padding_idx)
    return None


def text_ends(patient: Patient) -> set[int]:
    """Ids that end a text, by the tokenizer and the configuration; empty: not known."""
    found: set[Any] = set()
    for owner in (patient.tokenizer, config_of(patient)):
        for name in ("eos_token_id", "eos_id"):
            value: Any = getattr(owner, name, None)
            found |= set(value) if isinstance(value, list | tuple) else {value}
    return {each for each in found if isinstance(each, int)}


def config_of(patient: Patient) -> Any:
    """The model's configuration: as handed over, else what the module carries."""
    if patient.config is not None:
        return patient.config
    return getattr(patient.module, "config", None)


def _stream(
    name: StreamName,
    entry: Entry,
    entries: Sequence[Entry],
    values: Mapping[Key, Any],
    patient: Patient,
) -> Stream:
    masked = any(each.stream == name and each.role in ("keep", "ignore") for each in entries)
    if entry.role == "vectors":
        return Stream(name, entry.key, hides_padding=masked)
    pad_id = known_pad_id(patient)
    ids: Tensor = values[entry.key]
    size = vocabulary(patient, name) or int(ids.max()) + 1
    return Stream(
        name,
        entry.key,
        vocab_size=max(size, 1),
        special=special_ids(patient),
        pad_id=pad_id,
        hides_padding=masked or pad_id is not None,
        begins_with_pad=not masked and pad_id is not None and _begins_with(ids, pad_id),
    )


def _begins_with(ids: Tensor, pad_id: int) -> bool:
    """Whether this id stands before each text once: a column of nothing but padding is no batch."""
    return bool((ids[:, 0] == pad_id).all()) and bool((ids[:, 1:2] != pad_id).all())


def vocabulary(patient: Patient, stream: StreamName) -> int | None:
    """V: ids of this text are below it; None where nothing says so."""
    config = config_of(patient)
    if stream == "target":
        for name in ("target_vocab_size", "decoder_vocab_size"):
            if isinstance(size := getattr(config, name, None), int):
                return size
    if isinstance(size := getattr(config, "vocab_size", None), int):
        return size
    assert patient.module is not None
    tables = [each for each in patient.module.modules() if isinstance(each, nn.Embedding)]
    if not tables:
        return None
    # Source and target tables that differ: the smaller is safe for either.
    largest = max(each.num_embeddings for each in tables)
    near = [each.num_embeddings for each in tables if each.num_embeddings * 2 > largest]
    return min(near) if near else largest


def special_ids(patient: Patient) -> frozenset[int]:
    """Ids that stand for no text: padding, begin, end, mask, unknown …"""
    found = set(getattr(patient.tokenizer, "all_special_ids", None) or ())
    for config in (config_of(patient), getattr(patient.module, "generation_config", None)):
        for name in ("pad", "bos", "eos", "decoder_start", "mask", "sep", "cls", "unk"):
            value = getattr(config, f"{name}_token_id", None)
            found |= set(value) if isinstance(value, list) else {value}
    found.add(known_pad_id(patient))
    return frozenset(each for each in found if isinstance(each, int) and each >= 0)

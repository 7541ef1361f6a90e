"""Weights from a foreign file into ours and back, tensor by tensor, every one accounted for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from gnomon.errors import ModelError
from gnomon.interop.architecture import Architecture
from gnomon.interop.keys import Keys
from gnomon.interop.label_heads import Labelling, head_named, read_labelling
from gnomon.interop.parts import Part, Parts
from gnomon.interop.stream import SafetensorsFile, Shape, TensorSource, writing
from gnomon.model import Transformer, TransformerConfig
from gnomon.model.io import without_weights
from gnomon.model.positions import sinusoids


@dataclass(frozen=True)
class Plan:
    """How the tensors of one checkpoint become one model.

    Attributes:
        config: ours.
        parts: which foreign tensors make up which of ours.
        aliases: foreign names that repeat one of ours.
        kept: foreign names that the model has no place for.
        base_only: whether the checkpoint is of the base model, whose names go without its prefix.
        labelling: what stands over the base model of a classifier; None: it is none.
    """

    config: TransformerConfig
    parts: Sequence[Part]
    aliases: Mapping[str, str]
    kept: Sequence[str]
    base_only: bool
    labelling: Labelling | None = None


def plan(
    architecture: Architecture, keys: Keys, source: TensorSource, *, with_labels: bool = True
) -> Plan:
    """Account for every tensor and every key.

    Args:
        with_labels: a classifier is taken as one; otherwise its base model alone.

    Raises:
        ModelError: a key or tensor is unknown, missing, of another size, or a copy that differs.
    """
    shapes = source.shapes()
    prefix = architecture.prefix
    base_only = bool(prefix) and not any(name.startswith(prefix) for name in shapes)
    full = {prefix + name: name for name in shapes} if base_only else {n: n for n in shapes}
    head = head_named(architecture.label_heads, keys) if with_labels else None
    try:
        config = architecture.read(keys, full.keys())
        labelling = None if head is None else read_labelling(head, keys, config)
        if labelling is not None:
            config = config.without_head()
        problems = config.problems()
        problems += [] if labelling is None else labelling.config.problems()
    except (TypeError, ValueError, AttributeError) as error:
        raise ModelError(
            f"every key of {keys.place} must have a value of its kind",
            seen=error,
            mend="load the file anew",
        ) from error
    keys.finish()
    if problems:
        raise ModelError(f"{keys.place} describes no model", seen="; ".join(problems))
    model = without_weights(config, len(shapes), keys.place)
    parts = parts_of(architecture, config, "" if base_only else prefix, labelling, model)
    used = {name for part in parts for name in part.theirs}
    _refuse_misfits(parts, shapes, keys.place)
    stripped = len(prefix) if base_only else 0
    aliases = {}
    for name, ours in ({} if labelling else architecture.aliases(config)).items():
        short = name[stripped:] if base_only and name.startswith(prefix) else name
        if short in shapes and short not in used:
            aliases[short] = ours
    kept, unknown = [], []
    known = [*architecture.kept, *(architecture.without_head if labelling else ())]
    tables = {name[stripped:] if base_only else name for name in architecture.sinusoids}
    for name in sorted(shapes.keys() - used - aliases.keys()):
        if name in tables:
            _refuse_other_sinusoids(name, source.read(name), config)
        elif not any(re.fullmatch(pattern, name) for pattern in known):
            unknown.append(name)
            continue
        kept.append(name)
    if unknown:
        raise ModelError(
            f"every tensor must have a place in a model of type {architecture.model_type}",
            seen=f"{len(unknown)} that have none: {', '.join(unknown[:8])}"
            + (" …" if len(unknown) > 8 else ""),
            mend="what they compute gnomon's blocks do not",
        )
    return Plan(config, parts, aliases, kept, base_only, labelling)


def parts_of(
    architecture: Architecture,
    config: TransformerConfig,
    prefix: str,
    labelling: Labelling | None = None,
    model: Transformer | None = None,
) -> Sequence[Part]:
    """Which foreign tensors make up which of ours; `model` is ours, where it is there already."""
    to = Parts(config, prefix, model)
    architecture.parts(to)
    found = to.complete()
    if labelling is None:
        return found
    inside = [replace(part, ours=f"network.{part.ours}") for part in found]
    return [*inside, *labelling.parts(config.d_model)]


def _refuse_misfits(parts: Sequence[Part], shapes: Mapping[str, Shape], place: str) -> None:
    wrong = []
    for part in parts:
        for index, name in enumerate(part.theirs):
            size = part.foreign_size(index)
            if name not in shapes:
                wrong.append(f"{name}: missing, {size} expected")
            elif shapes[name].size != size:
                wrong.append(f"{name}: {shapes[name].size}, {size} expected")
        dtypes = {shapes[name].dtype for name in part.theirs if name in shapes}
        if len(dtypes) > 1:
            wrong.append(f"{', '.join(part.theirs)}: of several types {sorted(map(str, dtypes))}")
        elif not all(dtype.is_floating_point for dtype in dtypes):
            wrong.append(f"{', '.join(part.theirs)}: of type {dtypes.pop()}, a real one expected")
    if wrong:
        raise ModelError(
            f"the weights must be those that {place} describes",
            seen="\n        ".join([*wrong[:8], *(["…"] if len(wrong) > 8 else [])]),
            mend="use the files of one and the same model",
        )


def _refuse_other_sinusoids(name: str, table: Tensor, config: TransformerConfig) -> None:
    ours = sinusoids(torch.arange(table.shape[0]), config.d_model, config.position.layout)
    if table.shape != ours.shape or (table.float() - ours).abs().max() > 1e-3:
        raise ModelError(
            "positions that are stored must be the sinusoids that are computed here",
            seen=f"{name} holds others",
            mend="a model with trained positions of this kind cannot be taken in",
        )


def write_ours(found: Plan, source: TensorSource, path: Path) -> None:
    """Write our `model.safetensors`; copies of a table are compared with it on the way.

    Raises:
        ModelError: a copy of a tied table differs from it.
    """
    shapes = source.shapes()
    parts = {part.ours: part for part in found.parts}
    sizes = {name: Shape(shapes[part.theirs[0]].dtype, part.size) for name, part in parts.items()}
    for alias, ours in found.aliases.items():
        if not torch.equal(source.read(alias), source.read(parts[ours].theirs[0])):
            raise ModelError(
                "tables that are tied must be equal",
                seen=f"{alias} differs from {parts[ours].theirs[0]}",
                mend="the tie came apart when the model was saved; if they are meant to differ, "
                "set tie_word_embeddings to false in its config.json",
            )
    with writing(path, sizes) as (order, writer):
        for name in order:
            part = parts[name]
            for foreign in part.theirs:
                tensor = source.read(foreign)
                if part.leading:
                    tensor = tensor[0]
                writer.write(tensor.t() if part.transposed else tensor)


def write_kept(found: Plan, source: TensorSource, path: Path) -> None:
    """Write the tensors that the model has no place for, as they are."""
    copy_tensors(source, found.kept, path)


def copy_tensors(source: TensorSource, names: Sequence[str], path: Path) -> None:
    """Write some tensors to a file of their own."""
    shapes = source.shapes()
    with writing(path, {name: shapes[name] for name in names}) as (order, writer):
        for name in order:
            writer.write(source.read(name))


class Foreign:
    """Our weights under foreign names: a `TensorSource` that splits what we have fused.

    Args:
        parts: which foreign tensors make up which of ours.
        aliases: foreign names that repeat one of ours.
        ours: our weights.
        kept: tensors that the model has no place for, if there are any.
    """

    def __init__(
        self,
        parts: Sequence[Part],
        aliases: Mapping[str, str],
        ours: SafetensorsFile,
        kept: TensorSource | None = None,
    ) -> None:
        self._ours, self._kept = ours, kept
        self._places = {
            name: (part, index) for part in parts for index, name in enumerate(part.theirs)
        }
        whole = {part.ours: (part, 0) for part in parts}
        self._places |= {alias: whole[name] for alias, name in aliases.items()}
        self._last: tuple[str, Tensor] | None = None

    def shapes(self) -> Mapping[str, Shape]:
        """See `TensorSource`."""
        have = self._ours.shapes()
        found = {} if self._kept is None else dict(self._kept.shapes())
        for name, (part, index) in self._places.items():
            found[name] = Shape(have[part.ours].dtype, part.foreign_size(index))
        return found

    def read(self, name: str) -> Tensor:
        """See `TensorSource`."""
        if name not in self._places:
            assert self._kept is not None
            return self._kept.read(name)
        part, index = self._places[name]
        if self._last is None or self._last[0] != part.ours:
            self._last = None  # one at a time
            self._last = (part.ours, self._ours.read(part.ours))
        rows = torch.split(self._last[1], list(part.rows))[index]
        if part.transposed:
            rows = rows.t()
        return rows[None] if part.leading else rows


def first_difference(a: TensorSource, b: TensorSource) -> str | None:
    """Name of a tensor that is not the same, bit for bit, in both; None: all are."""
    if (mine := a.shapes()).keys() != (other := b.shapes()).keys():
        return min(mine.keys() ^ other.keys())
    for name in sorted(mine):
        left, right = a.read(name).contiguous(), b.read(name).contiguous()
        same = left.dtype == right.dtype and left.shape == right.shape
        if not same or not torch.equal(_bits(left), _bits(right)):
            return name
    return None


def _bits(tensor: Tensor) -> Tensor:
    """The bytes, so that NaN equals NaN."""
    return tensor.flatten().view(torch.uint8)

"""Weights from file to file, tensor by tensor: memory holds one tensor, whatever the model's size.

Files of the safetensors format are read and written plainly, without mapping them into memory,
since pages of a mapped file count as the process's own; older `pytorch_model.bin` files are mapped
by PyTorch and unpickled with weights only, which runs no code.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol

import torch
from torch import Tensor

from gnomon.errors import ModelError

_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_LONGEST_HEADER = 100 << 20  # bytes; the format's own limit


class Shape(NamedTuple):
    """What is known of a tensor before it is read."""

    dtype: torch.dtype
    size: tuple[int, ...]

    @property
    def num_bytes(self) -> int:
        """Bytes on disk."""
        return math.prod(self.size) * self.dtype.itemsize


class TensorSource(Protocol):
    """Tensors by name, each read when it is asked for."""

    def shapes(self) -> Mapping[str, Shape]:
        """What there is."""

    def read(self, name: str) -> Tensor:
        """One tensor, on the CPU, as it is on disk."""


class SafetensorsFile:
    """One `.safetensors` file.

    Raises:
        ModelError: it is damaged, or holds numbers of a kind that is not read here.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._shapes: dict[str, Shape] = {}
        self._starts: dict[str, int] = {}
        try:
            with path.open("rb") as file:
                self._index(file, path.stat().st_size)
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise self._damaged(error) from error

    def _index(self, file: BinaryIO, size: int) -> None:
        length = int.from_bytes(file.read(8), "little")
        if length > min(_LONGEST_HEADER, size - 8):
            raise ValueError("its header is longer than the file")
        header: dict[str, Any] = json.loads(file.read(length))
        if not isinstance(header, dict) or not all(isinstance(v, dict) for v in header.values()):
            raise ValueError("its header is no table of tensors")
        header.pop("__metadata__", None)
        for name, about in header.items():
            if about["dtype"] not in _DTYPES:
                raise ModelError(
                    "weights must be plain numbers",
                    seen=f"{self.path}: {name} is of type {about['dtype']}",
                    mend="take the checkpoint that is not quantised",
                )
            shape = Shape(_DTYPES[about["dtype"]], tuple(map(int, about["shape"])))
            if any(length < 0 for length in shape.size):
                raise ValueError(f"{name} has a negative size")
            start, end = about["data_offsets"]
            if not 0 <= start <= end <= size - 8 - length or end - start != shape.num_bytes:
                raise ValueError(f"{name} lies outside the file")
            self._shapes[name], self._starts[name] = shape, 8 + length + start

    def shapes(self) -> Mapping[str, Shape]:
        """See `TensorSource`."""
        return self._shapes

    def read(self, name: str) -> Tensor:
        """See `TensorSource`."""
        shape = self._shapes[name]
        content = bytearray(shape.num_bytes)
        with self.path.open("rb", buffering=0) as file:
            file.seek(self._starts[name])
            view, done = memoryview(content), 0
            while done < len(content) and (count := file.readinto(view[done:])):
                done += count
        if done < len(content):
            raise self._damaged("it ends too early")
        if not content:
            return torch.empty(shape.size, dtype=shape.dtype)
        return torch.frombuffer(content, dtype=shape.dtype).view(shape.size)

    def _damaged(self, what: object) -> ModelError:
        return ModelError(
            f"{self.path} cannot be read.", seen=what, mend="take it from a backup, or load it anew"
        )


class PickleFile:
    """One `pytorch_model.bin`, unpickled with weights only.

    Raises:
        ModelError: it is damaged, or holds anything but weights.
    """

    def __init__(self, path: Path) -> None:
        try:
            try:
                found = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
            except RuntimeError:  # written before the zip format, which alone can be mapped
                found = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:  # unpickling raises whatever it meets
            raise ModelError(
                "a file of weights must hold weights and nothing else",
                seen=f"{path}: {' '.join(str(error).split())[:200]}",
                mend="take the model.safetensors of the same model",
            ) from error
        if not isinstance(found, dict) or not all(isinstance(t, Tensor) for t in found.values()):
            raise ModelError("a file of weights must hold tensors by name", seen=path)
        self._tensors: dict[str, Tensor] = found

    def shapes(self) -> Mapping[str, Shape]:
        """See `TensorSource`."""
        return {name: Shape(t.dtype, tuple(t.shape)) for name, t in self._tensors.items()}

    def read(self, name: str) -> Tensor:
        """See `TensorSource`."""
        return self._tensors[name].detach().contiguous()


class Several:
    """Several files as one, such as the shards of a large model.

    Args:
        sources: in order; a name in two of them is a mistake.

    Raises:
        ModelError: a name is there twice.
    """

    def __init__(self, sources: Sequence[TensorSource]) -> None:
        self._home: dict[str, TensorSource] = {}
        for source in sources:
            if twice := sorted(self._home.keys() & source.shapes().keys()):
                raise ModelError("each tensor must be in one file", seen=", ".join(twice[:5]))
            self._home |= dict.fromkeys(source.shapes(), source)

    def shapes(self) -> Mapping[str, Shape]:
        """See `TensorSource`."""
        return {name: source.shapes()[name] for name, source in self._home.items()}

    def read(self, name: str) -> Tensor:
        """See `TensorSource`."""
        return self._home[name].read(name)


def open_weights(folder: Path) -> TensorSource:
    """The weights in a Hugging Face folder: one safetensors file, shards, or `pytorch_model.bin`.

    Raises:
        ModelError: there are none, or a shard is missing.
    """
    for stem, suffix, kind in (
        ("model", "safetensors", SafetensorsFile),
        ("pytorch_model", "bin", PickleFile),
    ):
        if (path := folder / f"{stem}.{suffix}").is_file():
            return kind(path)
        if (index := folder / f"{stem}.{suffix}.index.json").is_file():
            return Several([kind(path) for path in _shards(index)])
    raise ModelError(
        "a model folder holds weights",
        seen=f"{folder} has no model.safetensors and no pytorch_model.bin, whole or in shards",
        mend="name a folder that save_pretrained wrote; weights of other programs (TensorFlow, "
        "Flax, ONNX, GGUF) and adapters alone are not read",
    )


def _shards(index: Path) -> list[Path]:
    try:
        named = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
        names = sorted(set(map(str, named)))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ModelError(f"{index} is damaged", seen=error, mend="load it anew") from error
    for name in names:
        if Path(name).name != name:
            raise ModelError(f"{index} names files outside its folder", seen=name)
        if not (index.parent / name).is_file():
            raise ModelError(
                "all shards of a model must be there",
                seen=f"{index.parent} has no {name}",
                mend="load the missing file",
            )
    return [index.parent / name for name in names]


class TensorWriter:
    """Writes a safetensors file piece by piece; made by `writing`."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file = file
        self._path = path

    def write(self, piece: Tensor) -> None:
        """Append the bytes of `piece`: the next rows of the tensor whose turn it is."""
        if piece.numel():
            self._file.write(piece.contiguous().view(torch.uint8).numpy().data)


@contextmanager
def writing(path: Path, shapes: Mapping[str, Shape]) -> Iterator[tuple[list[str], TensorWriter]]:
    """Write a safetensors file whose tensors are known by shape and come one after another.

    Yields:
        The names in the order in which their bytes must be written, and the writer.
    """
    # Wide numbers first, so that each begins at a multiple of its width.
    order = sorted(shapes, key=lambda name: (-shapes[name].dtype.itemsize, name))
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    place = 0
    for name in order:
        dtype, size = shapes[name]
        end = place + shapes[name].num_bytes
        header[name] = {"dtype": _NAMES[dtype], "shape": list(size), "data_offsets": [place, end]}
        place = end
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        yield order, TensorWriter(file, path)
        assert file.tell() == 8 + len(text) + place, "not all tensors were written"

"""The mean of several models' weights."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from gnomon.errors import ModelError


def mean_weights(files: Sequence[Path]) -> dict[str, Tensor]:
    """Mean of every floating tensor over weight files, each summed in float64 and rounded once.

    A table shared by several uses is one tensor in the files and stays one. Tensors of whole
    numbers, which have no mean, are the last file's. One tensor per file is in memory at a time.

    Raises:
        ModelError: when a file cannot be read, or names, shapes or dtypes differ.
    """
    with ExitStack() as opened:
        sources = [opened.enter_context(_opened(path)) for path in files]
        names = _common_names(sources, files)
        return {name: _mean(name, sources, files) for name in names}


def _opened(path: Path) -> Any:
    try:
        return safe_open(path, framework="pt")
    except (SafetensorError, OSError) as error:
        raise ModelError(
            f"{path} cannot be read.", seen=error, mend="leave this model out of the average."
        ) from error


def _common_names(sources: Sequence[Any], files: Sequence[Path]) -> list[str]:
    names = set(sources[0].keys())
    for source, path in zip(sources, files, strict=True):
        if differing := names ^ set(source.keys()):
            raise ModelError(
                "Only models of one architecture can be averaged.",
                seen=f"{files[0]} and {path} do not both have {', '.join(sorted(differing)[:5])}",
                mend="name checkpoints of one training, or models that began as one.",
            )
    return sorted(names)


def _mean(name: str, sources: Sequence[Any], files: Sequence[Path]) -> Tensor:
    first: Tensor = sources[0].get_tensor(name)
    total = torch.zeros_like(first, dtype=torch.float64)
    tensor = first
    for source, path in zip(sources, files, strict=True):
        tensor = source.get_tensor(name)
        if tensor.shape != first.shape or tensor.dtype != first.dtype:
            raise ModelError(
                "Only models of one architecture can be averaged.",
                seen=f"{name} is {_kind(first)} in {files[0]} and {_kind(tensor)} in {path}",
                mend="name checkpoints of one training, or models that began as one.",
            )
        total += tensor
    return (total / len(sources)).to(first.dtype) if first.is_floating_point() else tensor


def _kind(tensor: Tensor) -> str:
    return f"{list(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}"

"""What a forward pass leaves behind for the backward pass, in bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gnomon.model.stack import Stack
from gnomon.training.memory.activations import Activations
from gnomon.training.memory.config import MemoryConfig
from gnomon.training.memory.count import Storages


def kept_bytes(config: MemoryConfig, model: nn.Module, forward: Callable[[], object]) -> int:
    """Bytes that `forward` leaves behind, each storage counted once, parameters not.

    The casts of weights that autocast makes count; what `memory.activations = "host"` moves away
    from the device counts, too. Which layers are computed again `keeping` has told the model.
    """
    if config.recompute == "selective" or config.activations == "int8":
        activations = Activations(
            model,
            recompute=config.recompute == "selective",
            to_int8=config.activations == "int8",
        )
        with activations.forward():
            result = forward()
        del result  # held until all is counted: an address must not be used again
        return activations.kept_bytes
    storages = Storages(model)

    def keep(tensor: Tensor) -> Tensor:
        storages.add(tensor)
        return tensor

    hooks = torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor)
    with _inputs_of_recomputed_layers(model, keep), hooks:
        result = forward()
    del result
    return storages.nbytes


@contextmanager
def _inputs_of_recomputed_layers(
    model: nn.Module, keep: Callable[[Tensor], object]
) -> Iterator[None]:
    """Layers that are computed again hold their inputs, which autograd does not save."""

    def note(layer: nn.Module, inputs: tuple[Any, ...]) -> None:
        for each in inputs:
            if isinstance(each, Tensor):
                keep(each)

    handles = [
        stack.layers[index].register_forward_pre_hook(note)
        for stack in model.modules()
        if isinstance(stack, Stack)
        for index in stack.recomputed
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@dataclass(frozen=True)
class Line:
    """Bytes as a function of the number of rows, all of one length."""

    fixed: float
    per_row: float

    @classmethod
    def through(cls, rows: tuple[int, int], sizes: tuple[int, int]) -> Line:
        """The line through two counts."""
        slope = (sizes[1] - sizes[0]) / (rows[1] - rows[0])
        return cls(sizes[0] - slope * rows[0], slope)

    def __call__(self, rows: int) -> int:
        """Bytes of so many rows."""
        return round(self.fixed + self.per_row * rows)

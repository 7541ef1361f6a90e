"""A network that is called otherwise than by its own `forward`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn


class SameParts(nn.Module):
    """Base of modules whose parts are a network's own, under the same names.

    Args:
        network: whose; it stays what it is.
        config: see `Patient`.
    """

    def __init__(self, network: nn.Module, config: Any) -> None:
        super().__init__()
        self._network = [network]  # in a list, so that it is no second set of the same parameters
        self.config = config
        for name, child in network.named_children():
            self.add_module(name, child)
        for name, parameter in network.named_parameters(recurse=False):
            self.register_parameter(name, parameter)
        self.training = network.training

    @contextmanager
    def whole(self) -> Iterator[Any]:
        """The network, inside the block in the mode of this module."""
        network = self._network[0]
        mode = network.training
        network.training = self.training
        try:
            yield network
        finally:
            network.training = mode

"""Which foreign tensors make up which of ours: import reads the list forwards, export backwards.

Ours are fused where they share an input (query, key and value; gate and up): their rows are the
foreign tensors' rows, one after another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from gnomon.model import Transformer, TransformerConfig
from gnomon.model.linear import FusedLinear


@dataclass(frozen=True)
class Part:
    """One tensor of ours.

    Attributes:
        ours: its name in `Transformer.state_dict()`.
        theirs: the foreign tensors that its rows are made of, in order.
        rows: how many rows each of these gives.
        size: ours.
        transposed: theirs is ours transposed (GPT-2 keeps weights as [in, out]).
        leading: theirs has a first dimension of 1 that ours has not (Marian's logits bias).
    """

    ours: str
    theirs: tuple[str, ...]
    rows: tuple[int, ...]
    size: tuple[int, ...]
    transposed: bool = False
    leading: bool = False

    def foreign_size(self, index: int) -> tuple[int, ...]:
        """Size of foreign tensor number `index`."""
        size = (self.rows[index], *self.size[1:])
        if self.transposed:
            size = size[::-1]
        return (1, *size) if self.leading else size


_OUTPUT_TABLE = "lm_head.weight"


def shared_table(config: TransformerConfig) -> Mapping[str, str]:
    """The name under which a language model's files may hold the table that it shares again."""
    return {} if config.tie == "none" else {_OUTPUT_TABLE: "tables.target"}


class Parts:
    """Collects the parts of one model; names of modules are ours, then theirs.

    Args:
        config: of our model.
        prefix: in front of the foreign names that have the base model's prefix.
        model: of that configuration, where it is there already.
    """

    def __init__(
        self, config: TransformerConfig, prefix: str = "", model: Transformer | None = None
    ) -> None:
        if model is None:
            with torch.device("meta"):
                model = Transformer(config)
        self.model = model
        self.prefix = prefix
        self.found: list[Part] = []
        self.missing: list[str] = []  # of ours: the architecture has them, this model has not
        self._state = self.model.state_dict()

    def tensor(self, ours: str, theirs: str, *, leading: bool = False) -> None:
        """One tensor that is the same on both sides."""
        if ours not in self._state:
            self.missing.append(ours)
            return
        size = tuple(self._state[ours].shape)
        self.found.append(Part(ours, (theirs,), size[:1], size, leading=leading))

    def linear(self, ours: str, *theirs: str, transposed: bool = False) -> None:
        """A projection, fused of the foreign layers `theirs`, with those biases that ours has."""
        module = self.model.get_submodule(ours)
        assert isinstance(module, FusedLinear)
        sizes, biases = module.sizes, module.biases
        if len(theirs) == 1:  # theirs is fused, too
            sizes, biases = (sum(sizes),), (any(biases),)
        if len(theirs) != len(sizes):  # one with a gate, one without
            self.missing.append(f"{ours}.weight")
            return
        names = tuple(f"{name}.weight" for name in theirs)
        size = tuple(module.weight.shape)
        self.found.append(Part(f"{ours}.weight", names, sizes, size, transposed=transposed))
        if module.bias is not None:
            with_bias = [
                (f"{name}.bias", rows)
                for name, rows, bias in zip(theirs, sizes, biases, strict=True)
                if bias
            ]
            self.found.append(
                Part(
                    f"{ours}.bias",
                    tuple(name for name, _ in with_bias),
                    tuple(rows for _, rows in with_bias),
                    tuple(module.bias.shape),
                )
            )

    def norm(self, ours: str, theirs: str) -> None:
        """A normalisation: its gain, and its bias where there is one."""
        module = self.model.get_submodule(ours)
        self.tensor(f"{ours}.weight", f"{theirs}.weight")
        if isinstance(module, nn.LayerNorm) and module.bias is not None:
            self.tensor(f"{ours}.bias", f"{theirs}.bias")

    def output_table(self) -> None:
        """A language model's output table, where it has a head and a table of its own."""
        if self.model.head is not None and self.model.config.tie == "none":
            self.tensor("tables.output", _OUTPUT_TABLE)

    def complete(self) -> Sequence[Part]:
        """All parts; a tensor that one side alone has is a mistake in the architecture's file."""
        assert self.fits, f"no counterparts: {sorted(self.left())} here, {self.missing} there"
        return self.found

    def left(self) -> set[str]:
        """Tensors of ours for which nothing foreign is named."""
        return self._state.keys() - {part.ours for part in self.found}

    @property
    def fits(self) -> bool:
        """Whether every tensor has its counterpart."""
        return not self.left() and not self.missing

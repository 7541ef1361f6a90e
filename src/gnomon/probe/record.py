"""What an observation leaves: plain lists of what was called, in order, with its owner."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

from gnomon.probe.attention import AttentionCall
from gnomon.probe.kept import Kept
from gnomon.probe.quiet import quiet


class Statistics:
    """Size and spread of a tensor's values, measured when it was seen.

    Whole numbers and booleans have statistics too; an empty tensor has NaN.
    """

    __slots__ = ("_values", "dtype", "shape")

    def __init__(self, tensor: Tensor) -> None:
        self.shape = tuple(tensor.shape)
        self.dtype = tensor.dtype
        with quiet():
            tensor = tensor.detach()
            if tensor.numel() == 0:
                self._values = torch.full((4,), torch.nan)
                return
            wide = tensor if tensor.dtype == torch.float64 else tensor.float()
            low, high = torch.aminmax(wide)
            # torch.std_mean takes 30 times as long on a CPU
            mean = wide.mean()
            std = torch.linalg.vector_norm(wide - mean) / math.sqrt(wide.numel())
            # stays on the device until asked for, so that watching does not wait for it
            self._values = torch.stack([low, high, mean, std])

    @property
    def absmax(self) -> float:
        """Largest magnitude; NaN if any value is NaN."""
        low, high = self._values[0].item(), self._values[1].item()
        return max(-low, high) if low == low and high == high else float("nan")

    @property
    def mean(self) -> float:
        """Over all values."""
        return self._values[2].item()

    @property
    def std(self) -> float:
        """Population standard deviation over all values."""
        return self._values[3].item()

    @property
    def finite(self) -> bool:
        """No NaN and no infinity."""
        return bool(torch.isfinite(self._values[:2]).all())

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.shape))
        return (
            f"Statistics({shape} {self.dtype}, absmax {self.absmax:.3g}, mean {self.mean:.3g}, "
            f"std {self.std:.3g})"
        )


@dataclass(eq=False)
class ModuleCall:
    """One forward call of a submodule."""

    module: str
    # place among all module calls of the record, by the time they began
    order: int
    training: bool
    # of the floating-point tensors among the arguments and results, also in lists, dicts, tuples
    inputs: tuple[Statistics, ...]
    outputs: tuple[Statistics, ...] = ()
    # it ended with an exception
    failed: bool = False
    _given: tuple[Kept, ...] = field(default=(), repr=False)
    _tensors: tuple[Kept, ...] = field(default=(), repr=False)

    @property
    def given(self) -> tuple[Tensor, ...]:
        """The floating-point arguments, detached; only with keep_outputs=True."""
        return tuple(kept.tensor for kept in self._given)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The floating-point results, detached; only with keep_outputs=True."""
        return tuple(kept.tensor for kept in self._tensors)


@dataclass(eq=False)
class ProjectionCall:
    """A product with a parameter outside of `nn.Linear`: `F.linear(x, self.w)`, `x @ self.w` …"""

    # dotted name of the innermost module that made the call
    module: str
    # how many module calls had begun before it
    order: int
    # the same product of another tensor of the shape of `given`, bias included
    again: Callable[[Tensor], Tensor] = field(repr=False)
    _given: Kept = field(repr=False)
    _output: Kept = field(repr=False)

    @property
    def given(self) -> Tensor:
        """What was projected, detached."""
        return self._given.tensor

    @property
    def output(self) -> Tensor:
        """Detached."""
        return self._output.tensor


@dataclass(eq=False)
class NormCall:
    """One call of a normalisation."""

    # dotted name of the innermost module that made the call
    module: str
    # "layer", "rms", "batch", "group"; None: a module built like a norm whose output is not
    # normalised
    kind: Literal["layer", "rms", "batch", "group"] | None
    # axes of the input that are normalised together, counted from the start
    dims: tuple[int, ...]
    eps: float | None
    weight: Tensor | None
    bias: Tensor | None
    input_statistics: Statistics
    output_statistics: Statistics
    # the code of a module, recognised by what it does, not a function of PyTorch's
    handwritten: bool
    _input: Kept = field(repr=False)
    _output: Kept = field(repr=False)

    @property
    def input(self) -> Tensor:
        """Detached."""
        return self._input.tensor

    @property
    def output(self) -> Tensor:
        """Detached."""
        return self._output.tensor


@dataclass(eq=False)
class EmbeddingCall:
    """One look-up in a table."""

    module: str
    # the table `[V, D]` itself, so that it can be told whose parameter it is
    table: Tensor = field(repr=False)
    padding_idx: int | None
    _ids: Kept = field(repr=False)
    _output: Kept = field(repr=False)

    @property
    def ids(self) -> Tensor:
        """Whole numbers, any shape."""
        return self._ids.tensor

    @property
    def output(self) -> Tensor:
        """`[..., D]`, detached."""
        return self._output.tensor


@dataclass(eq=False)
class SoftmaxCall:
    """A softmax that no attention was seen around."""

    module: str
    # as it was given, counted from the start
    dim: int
    log: bool
    _input: Kept = field(repr=False)
    _output: Kept = field(repr=False)

    @property
    def input(self) -> Tensor:
        """Detached."""
        return self._input.tensor

    @property
    def output(self) -> Tensor:
        """Detached."""
        return self._output.tensor


@dataclass(eq=False)
class DropoutCall:
    """One call of dropout, alive or not."""

    module: str
    p: float
    # what the call itself was told
    training: bool
    # on an attention path: applied to the scores or to the weights
    position: Literal["before softmax", "weights"] | None
    shape: tuple[int, ...]


@dataclass(eq=False)
class ActivationCall:
    """One call of a pointwise nonlinearity."""

    module: str
    # "relu", "gelu", "silu" …
    name: str
    output: Statistics
    # share of the last axis's units that are exactly 0 at every position
    _dead: Tensor = field(repr=False)

    @cached_property
    def dead(self) -> float:
        """Share of units (last axis) whose output is 0 for all tokens."""
        return self._dead.item()


@dataclass(frozen=True)
class RandomOp:
    """One draw of random numbers."""

    module: str
    # operator, as "bernoulli_"
    name: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class FusedKernel:
    """One fused kernel of attention or of a whole layer."""

    module: str
    # operator, as "_scaled_dot_product_flash_attention_for_cpu"
    name: str


@dataclass(eq=False)
class Record:
    """All that was seen, in order of the calls. Filled while the observation runs."""

    attention: list[AttentionCall] = field(default_factory=list)
    norms: list[NormCall] = field(default_factory=list)
    # only with keep_outputs=True
    projections: list[ProjectionCall] = field(default_factory=list)
    embeddings: list[EmbeddingCall] = field(default_factory=list)
    softmaxes: list[SoftmaxCall] = field(default_factory=list)
    dropouts: list[DropoutCall] = field(default_factory=list)
    activations: list[ActivationCall] = field(default_factory=list)
    # by dotted name; "" is the root
    modules: dict[str, list[ModuleCall]] = field(default_factory=dict)
    random_ops: list[RandomOp] = field(default_factory=list)
    fused: list[FusedKernel] = field(default_factory=list)
    # what could not be observed, in sentences, each once
    notes: list[str] = field(default_factory=list)

    def note(self, sentence: str) -> None:
        """Add a sentence to the notes."""
        if sentence not in self.notes:
            self.notes.append(sentence)

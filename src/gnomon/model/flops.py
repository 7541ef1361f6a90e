"""Floating-point operations of a forward and a backward pass, by part of the network.

Only matrix products count, a multiplication and an addition as two: 2 a token for each weight of a
matrix in the forward pass and 4 in the backward pass (2 for the gradient of its input, 2 for its
own), as in Kaplan et al. 2020 (arXiv 2001.08361, §2.1). For each query and key of each head of
width K attention adds 4 K forward (scores, weighted sum) and 8 K backward (Chowdhery et al. 2022,
PaLM, appendix B: 12 a layer, width and pair of tokens). As there, a look-ahead mask halves
nothing, and what is computed a second time to save memory is not counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from torch import nn

from gnomon.model.attention import Attention, AttentionConfig
from gnomon.model.bilstm import BiLSTM
from gnomon.model.classifier import ClassifierNetwork
from gnomon.model.layer import Layer
from gnomon.model.linear import FusedLinear
from gnomon.model.stack import Stack
from gnomon.model.transformer import Transformer

Per = Literal["source", "target", "labels", "texts", "source pairs", "target pairs", "cross pairs"]
"""What a part's operations are proportional to: tokens of a side, predictions, texts, or queries
times keys within a side or across."""


Network = Transformer | BiLSTM | ClassifierNetwork


@dataclass(frozen=True)
class TextLengths:
    """Tokens of the texts of a pass.

    Attributes:
        source: int64 [B], of each text; of a model of one stack its only text.
        target: int64 [B], what the decoder of an encoder-decoder reads; None for one stack.
        is_packed: the texts share rows, so that nothing is filled up.
    """

    source: NDArray[np.int64]
    target: NDArray[np.int64] | None = None
    is_packed: bool = False

    def padded(self) -> TextLengths:
        """With every text as long as the longest of its side."""
        if self.is_packed:
            return self
        filled = [
            None if side is None else np.full_like(side, side.max(initial=0))
            for side in (self.source, self.target)
        ]
        assert filled[0] is not None, "there is a text"
        return TextLengths(filled[0], filled[1])

    @property
    def num_tokens(self) -> int:
        """Of both sides."""
        return int(self.source.sum()) + (0 if self.target is None else int(self.target.sum()))

    def counts(self, num_labels: int, reach: int | None) -> dict[Per, float]:
        """How many there are of everything that operations are proportional to.

        Args:
            num_labels: predictions.
            reach: keys that a query sees at most in its own text; None: all.
        """
        source = self.source
        target = np.zeros_like(source) if self.target is None else self.target
        seen = [side if reach is None else np.minimum(side, reach) for side in (source, target)]
        return {
            "source": float(source.sum()),
            "target": float(target.sum()),
            "labels": float(num_labels),
            "texts": float(len(source)),
            "source pairs": float((source * seen[0]).sum()),
            "target pairs": float((target * seen[1]).sum()),
            "cross pairs": float((source * target).sum()),
        }


@dataclass(frozen=True)
class Operations:
    """Floating-point operations.

    Attributes:
        forward, backward: by part of the network.
    """

    forward: Mapping[str, float]
    backward: Mapping[str, float]

    @property
    def total(self) -> float:
        """Of both passes."""
        return sum(self.forward.values()) + sum(self.backward.values())

    def __add__(self, other: Operations) -> Operations:
        def summed(one: Mapping[str, float], two: Mapping[str, float]) -> dict[str, float]:
            return {part: one.get(part, 0.0) + two.get(part, 0.0) for part in {**one, **two}}

        return Operations(
            summed(self.forward, other.forward), summed(self.backward, other.backward)
        )

    def __mul__(self, factor: float) -> Operations:
        return Operations(
            {part: count * factor for part, count in self.forward.items()},
            {part: count * factor for part, count in self.backward.items()},
        )


@dataclass(frozen=True)
class _Part:
    name: str
    per: Per
    forward: float
    backward: float


class Flops:
    """Counts the operations of a network from the lengths of what it reads.

    Args:
        network: reads texts of given lengths.
        num_passes: how often each text goes through it in a step.
    """

    def __init__(self, network: Network, *, num_passes: int = 1) -> None:
        sums: dict[tuple[str, Per], tuple[float, float]] = {}
        for part in _parts(network):
            forward, backward = sums.get((part.name, part.per), (0.0, 0.0))
            sums[part.name, part.per] = forward + part.forward, backward + part.backward
        self._parts = [_Part(name, per, *both) for (name, per), both in sums.items()]
        self._num_passes = num_passes
        inner = network.network if isinstance(network, ClassifierNetwork) else network
        self._reach = _reach(inner.config.attention) if isinstance(inner, Transformer) else None

    def __call__(self, lengths: TextLengths, num_labels: int) -> Operations:
        """Of one forward and backward pass.

        Args:
            num_labels: predictions that the loss is taken of; nothing is projected elsewhere.
        """
        counts = lengths.counts(num_labels, self._reach)
        forward: dict[str, float] = {}
        backward: dict[str, float] = {}
        for part in self._parts:
            count = counts[part.per] * self._num_passes
            forward[part.name] = forward.get(part.name, 0.0) + part.forward * count
            backward[part.name] = backward.get(part.name, 0.0) + part.backward * count
        return Operations(forward, backward)


def _reach(config: AttentionConfig) -> int | None:
    """Keys that a query sees at most under a sparse pattern."""
    if config.pattern == "full":
        return None
    sides = 3 * config.block_size if config.pattern == "block_sparse" else 2 * config.window - 1
    return sides + config.num_global_tokens


def _parts(network: Network) -> Iterator[_Part]:
    if isinstance(network, ClassifierNetwork):
        yield from _parts(network.network)
        for layer in (network.dense, network.out):
            if layer is not None:
                yield from _matrices(layer, "labels", "source" if network.per_token else "texts")
    elif isinstance(network, BiLSTM):
        for parameter in network.lstm.parameters():
            if parameter.dim() == 2:
                yield _matrix(parameter, "LSTM", "source")
    else:
        yield from _of_transformer(network)


def _of_transformer(network: Transformer) -> Iterator[_Part]:
    has_encoder = network.encoder is not None
    if network.encoder is not None:
        yield from _of_stack(network.encoder, "source", "source pairs")
    if network.decoder is not None:
        own: Per = "target" if has_encoder else "source"
        pairs: Per = "target pairs" if has_encoder else "source pairs"
        yield from _of_stack(network.decoder, own, pairs)
    if network.head is not None:
        if network.head.dense is not None:
            yield from _matrices(network.head.dense, "output", "labels")
        yield _matrix(network.tables[network.owners["output"]], "output", "labels")


def _of_stack(stack: Stack, own: Per, pairs: Per) -> Iterator[_Part]:
    share = 1.0 - stack.layer_drop  # of the layers that a step runs, on average
    matrices = partial(_matrices, share=share)
    for layer in stack.layers:
        assert isinstance(layer, Layer)
        attention, cross = layer.attention, layer.cross
        yield from matrices(attention.query_key_value, "attention projections", own)
        yield from matrices(attention.out, "attention projections", own)
        yield _scores(attention, pairs, share)
        if cross is not None:
            yield from matrices(cross.query, "attention projections", own)
            yield from matrices(cross.key_value, "attention projections", "source")
            yield from matrices(cross.out, "attention projections", own)
            yield _scores(cross, "cross pairs", share)
        yield from matrices(layer.feedforward.up, "feed-forward", own)
        yield from matrices(layer.feedforward.down, "feed-forward", own)


def _matrices(linear: nn.Module, name: str, per: Per, share: float = 1.0) -> Iterator[_Part]:
    """A projection, with what LoRA adds to it."""
    assert isinstance(linear, FusedLinear)
    yield _matrix(linear.weight, name, per, share)
    if linear.low_rank is not None:
        for parameter in linear.low_rank.parameters():
            yield _matrix(parameter, name, per, share)


def _matrix(weight: nn.Parameter, name: str, per: Per, share: float = 1.0) -> _Part:
    once = 2.0 * weight.numel() * share
    return _Part(name, per, once, once * (2 if weight.requires_grad else 1))


def _scores(attention: Attention, pairs: Per, share: float) -> _Part:
    width = attention.num_heads * attention.head_size
    return _Part("attention scores", pairs, 4.0 * width * share, 8.0 * width * share)

"""From hidden states to labels: of a text, or of each of its tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gnomon.errors import ModelError
from gnomon.model.bilstm import BiLSTM
from gnomon.model.dropout import dropout
from gnomon.model.linear import FusedLinear
from gnomon.model.lora import LoraConfig, add_lora, merge_lora
from gnomon.model.transformer import Transformer

Pooling = Literal["first", "mean", "max", "last"]
DenseActivation = Literal["tanh", "relu", "gelu"]
ACTIVATIONS: dict[DenseActivation, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "relu": torch.relu,
    "gelu": F.gelu,
}


@dataclass(frozen=True, kw_only=True)
class ClassifierConfig:
    """What stands between a text's hidden states and its labels."""

    # one vector for the text: of its first token (BERT's [CLS]), the mean or the greatest of all
    # tokens, or of the last one (what a decoder knows of the whole text)
    pooling: Pooling = "mean"
    # a dense layer before the labels, as BERT has it
    dense: bool = False
    # behind it: tanh (BERT, RoBERTa), relu (DistilBERT), gelu
    activation: DenseActivation = "tanh"
    # of the labels; classifiers made of decoders elsewhere (GPT-2, Llama) have none
    bias: bool = True
    # on the text's vector
    dropout: float = 0.1

    def problems(self) -> list[str]:
        """Everything that cannot work, one sentence each with the value seen and the mend."""
        if not 0 <= self.dropout < 1:
            return [f"classifier.dropout must be from 0 to below 1, seen {self.dropout}"]
        return []

    def unused(self) -> list[str]:
        """Keys without effect beside the others."""
        if not self.dense and self.activation != "tanh":
            return ["classifier.activation has no effect: classifier.dense = false"]
        return []


class ClassifierNetwork(nn.Module):
    """A network that reads text, and a linear layer over what it read.

    Args:
        network: a Transformer encoder or decoder, or a BiLSTM.
        num_labels: size of the output.
        per_token: labels for each token instead of one set for the text.
    """

    def __init__(
        self,
        network: Transformer | BiLSTM,
        config: ClassifierConfig,
        num_labels: int,
        *,
        per_token: bool,
    ) -> None:
        super().__init__()
        family = network.config.family if isinstance(network, Transformer) else "encoder"
        if family == "encoder_decoder":
            raise ModelError(
                "A text is classified by one stack, an encoder or a decoder.",
                seen=f"family {family}",
                mend="set model.family = 'encoder'",
            )
        d_model = network.config.d_model
        self.network = network
        self.config = config
        self.lora = LoraConfig()
        self.per_token = per_token
        with_dense = config.dense and not per_token
        self.dense = FusedLinear(d_model, (d_model,), (True,)) if with_dense else None
        self.activation = ACTIVATIONS[config.activation]
        self.out = FusedLinear(d_model, (num_labels,), (config.bias,))
        self.initialise()

    def initialise(self) -> None:
        """Draw the parameters of the head anew; the network's stay."""
        for layer in (self.dense, self.out):
            if layer is not None:
                layer.initialise()

    def add_lora(self, config: LoraConfig) -> None:
        """Give the network's projections low-rank additions (see `gnomon.model.lora`)."""
        add_lora(self.network, config)
        self.lora = config

    def merge_lora(self) -> None:
        """Put the additions into the network's weights."""
        merge_lora(self.network)
        self.lora = LoraConfig()

    def forward(self, ids: Tensor, keep: Tensor, segments: Tensor | None = None) -> Tensor:
        """Logits `[B, num_labels]`, or `[B, S, num_labels]` for each token.

        Args:
            ids: int64 `[B, S]`.
            keep: bool `[B, S]`, True at real tokens.
            segments: int64 `[B, S]`, where the network has segment embeddings.
        """
        hidden = self.read(ids, keep, segments)
        x = hidden if self.per_token else pool(hidden, keep, self.config.pooling)
        x = dropout(x, self.config.dropout, self.training)
        if self.dense is not None:
            x = dropout(self.activation(self.dense(x)), self.config.dropout, self.training)
        logits: Tensor = self.out(x)
        return logits

    def read(self, ids: Tensor, keep: Tensor, segments: Tensor | None = None) -> Tensor:
        """The network's hidden states `[B, S, D]`."""
        network = self.network
        if isinstance(network, BiLSTM):
            return network.encode(ids, keep)
        if network.config.embedding.num_segments < 2:
            segments = None  # one there is may be all texts' (RoBERTa)
        if network.config.family == "decoder":
            return network.decode(ids, keep=keep, segments=segments)
        return network.encode(ids, keep, segments=segments)


def pool(hidden: Tensor, keep: Tensor, pooling: Pooling) -> Tensor:
    """One vector `[B, D]` of hidden states `[B, S, D]`, padding never among them.

    The mean and the greatest of no token at all are zeros.

    Args:
        keep: bool `[B, S]`, True at real tokens.
    """
    if pooling == "first":
        place = keep.int().argmax(dim=1)
    elif pooling == "last":
        place = keep.shape[1] - 1 - keep.flip(1).int().argmax(dim=1)
    else:
        outside = ~keep[..., None]
        if pooling == "max":
            highest = hidden.masked_fill(outside, torch.finfo(hidden.dtype).min).amax(dim=1)
            return highest.masked_fill(~keep.any(dim=1, keepdim=True), 0.0)
        # In fp32: a mean over a long text loses digits in half precision.
        total = hidden.float().masked_fill(outside, 0.0).sum(dim=1)
        return (total / keep.sum(dim=1, keepdim=True).clamp(min=1)).to(hidden.dtype)
    return hidden[torch.arange(len(hidden), device=hidden.device), place]

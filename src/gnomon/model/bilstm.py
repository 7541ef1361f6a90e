"""A bidirectional LSTM that reads a text: what a Transformer encoder is to be better than."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from gnomon.model.dropout import dropout


@dataclass(frozen=True, kw_only=True)
class BiLSTMConfig:
    """The network of Graves & Schmidhuber (2005), as text classification has used it since."""

    vocab_size: int = 8000
    d_model: int = 256  # of the output: half of it for each direction
    embedding_size: int = 128
    num_layers: int = 1
    dropout: float = 0.3  # on embeddings, between layers and on the output
    pad_id: int = 0

    def problems(self) -> list[str]:
        """Everything that cannot work, one sentence each with the value seen and the mend."""
        found = [
            f"bilstm.{name} must be at least 1, seen {value}"
            for name in ("vocab_size", "d_model", "embedding_size", "num_layers")
            if (value := getattr(self, name)) < 1
        ]
        if self.d_model % 2:
            found.append(f"bilstm.d_model must be even (two directions), seen {self.d_model}")
        if not 0 <= self.dropout < 1:
            found.append(f"bilstm.dropout must be from 0 to below 1, seen {self.dropout}")
        return found


class BiLSTM(nn.Module):
    """Token ids to hidden states, each of what stands before and behind it."""

    def __init__(self, config: BiLSTMConfig) -> None:
        super().__init__()
        self.config = config
        self.tables = nn.ParameterDict(
            {"source": nn.Parameter(torch.empty(config.vocab_size, config.embedding_size))}
        )
        self.lstm = nn.LSTM(
            config.embedding_size,
            config.d_model // 2,
            config.num_layers,
            batch_first=True,
            bidirectional=True,
            dropout=config.dropout if config.num_layers > 1 else 0.0,
        )
        self.initialise()

    @torch.no_grad()
    def initialise(self) -> None:
        """Draw all parameters anew: embeddings of unit variance, forget gates open."""
        nn.init.normal_(self.tables["source"])
        bound = 1 / math.sqrt(self.config.d_model // 2)
        for name, parameter in self.lstm.named_parameters():
            if "bias" in name:
                nn.init.zeros_(parameter)
                if "bias_ih" in name:
                    parameter.chunk(4)[1].fill_(1.0)  # Jozefowicz et al. 2015
            else:
                nn.init.uniform_(parameter, -bound, bound)

    def encode(self, ids: Tensor, keep: Tensor, *, segments: Tensor | None = None) -> Tensor:
        """Hidden states `[B, S, D]`, zero at padding.

        Args:
            ids: int64 `[B, S]`.
            keep: bool `[B, S]`, True at real tokens, which stand first in each row.
            segments: not read; a second text is told by the token between the two.
        """
        x = nn.functional.embedding(ids, self.tables["source"])
        x = dropout(x, self.config.dropout, self.training)
        lengths = keep.sum(dim=1).cpu()
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        hidden, _ = pad_packed_sequence(
            self.lstm(packed)[0], batch_first=True, total_length=ids.shape[1]
        )
        return dropout(hidden, self.config.dropout, self.training)

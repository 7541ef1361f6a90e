"""Models that users write on `torch.nn`'s Transformer modules, in each norm order and layout."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from benchmarks.patients.text import BOS, IGNORED, PAD, VOCAB_SIZE
from torch import Tensor, nn

WIDTH, LAYERS, HEADS, INNER, POSITIONS = 32, 2, 4, 64, 128


@dataclass
class Output:
    """`loss` where labels were given; logits `[B, T, V]`."""

    loss: Tensor | None
    logits: Tensor


class Embedding(nn.Module):
    """Tokens × √D plus sinusoids, as in the paper: int64 `[B, T]` → `[B, T, D]`."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(VOCAB_SIZE, WIDTH, padding_idx=PAD)
        nn.init.normal_(self.table.weight, std=WIDTH**-0.5)
        with torch.no_grad():
            self.table.weight[PAD].zero_()
        angles = torch.arange(POSITIONS)[:, None] * torch.exp(
            torch.arange(0, WIDTH, 2) * (-math.log(10000.0) / WIDTH)
        )
        sinusoids = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        self.register_buffer("sinusoids", sinusoids, persistent=False)
        self.dropout = nn.Dropout(0.1)

    def forward(self, ids: Tensor) -> Tensor:
        out: Tensor = self.dropout(
            self.table(ids) * math.sqrt(WIDTH) + self.sinusoids[: ids.shape[1]]  # type: ignore[index]
        )
        return out


def _ahead(length: int, device: torch.device) -> Tensor:
    """bool `[T, T]`, True = must not attend."""
    return torch.ones(length, length, dtype=torch.bool, device=device).triu(1)


def _mean_loss(logits: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED)


class TextModel(nn.Module):
    """`nn.TransformerEncoder` over text: a masked language model, or with `causal` a decoder."""

    def __init__(self, *, causal: bool, norm_first: bool, batch_first: bool) -> None:
        super().__init__()
        self.causal = causal
        self.batch_first = batch_first
        self.embedding = Embedding()
        layer = nn.TransformerEncoderLayer(
            WIDTH, HEADS, INNER, batch_first=batch_first, norm_first=norm_first
        )
        norm = nn.LayerNorm(WIDTH) if norm_first else None
        self.encoder = nn.TransformerEncoder(layer, LAYERS, norm, enable_nested_tensor=False)
        self.encoder.apply(_fresh)
        self.head = nn.Linear(WIDTH, VOCAB_SIZE, bias=False)
        self.head.weight = self.embedding.table.weight

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, labels: Tensor | None = None
    ) -> Output:
        x = self.embedding(input_ids)
        mask = _ahead(input_ids.shape[1], input_ids.device) if self.causal else None
        padding = None if attention_mask is None else attention_mask == 0
        if not self.batch_first:
            x = x.transpose(0, 1)
        x = self.encoder(x, mask=mask, src_key_padding_mask=padding)
        if not self.batch_first:
            x = x.transpose(0, 1)
        logits = self.head(x)
        if labels is None:
            return Output(None, logits)
        if self.causal:
            return Output(_mean_loss(logits[:, :-1], labels[:, 1:]), logits)
        return Output(_mean_loss(logits, labels), logits)


class Translator(nn.Module):
    """`nn.Transformer` from text to text."""

    def __init__(self, *, norm_first: bool, batch_first: bool) -> None:
        super().__init__()
        self.batch_first = batch_first
        self.embedding = Embedding()
        self.transformer = nn.Transformer(
            WIDTH, HEADS, LAYERS, LAYERS, INNER, batch_first=batch_first, norm_first=norm_first
        )
        self.head = nn.Linear(WIDTH, VOCAB_SIZE, bias=False)
        self.head.weight = self.embedding.table.weight

    def forward(
        self,
        input_ids: Tensor,
        decoder_input_ids: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
    ) -> Output:
        source, target = self.embedding(input_ids), self.embedding(decoder_input_ids)
        padding = None if attention_mask is None else attention_mask == 0
        if not self.batch_first:
            source, target = source.transpose(0, 1), target.transpose(0, 1)
        x = self.transformer(
            source,
            target,
            tgt_mask=_ahead(decoder_input_ids.shape[1], input_ids.device),
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
        )
        logits = self.head(x if self.batch_first else x.transpose(0, 1))
        return Output(None if labels is None else _mean_loss(logits, labels), logits)


@torch.no_grad()
def continued(module: nn.Module, batch: dict[str, Tensor], num_tokens: int) -> Tensor:
    """Greedy, row by row, each step reading the whole text anew: only the new tokens."""
    ids = batch["input_ids"]
    mask = batch.get("attention_mask", torch.ones_like(ids)).bool()
    rows = []
    for row, real in zip(ids, mask, strict=True):
        text = row[real][None]
        for _ in range(num_tokens):
            text = torch.cat((text, module(text).logits[:, -1:].argmax(-1)), dim=1)
        rows.append(text[0, -num_tokens:])
    return torch.stack(rows)


@torch.no_grad()
def translated(module: nn.Module, batch: dict[str, Tensor], num_tokens: int) -> Tensor:
    """Greedy, each step reading the whole target anew: only the new tokens."""
    ids, mask = batch["input_ids"], batch.get("attention_mask")
    text = torch.full_like(ids[:, :1], BOS)
    for _ in range(num_tokens):
        following = module(ids, text, attention_mask=mask).logits[:, -1:].argmax(-1)
        text = torch.cat((text, following), dim=1)
    return text[:, 1:]


def _fresh(module: nn.Module) -> None:
    """`nn.TransformerEncoder` copies one layer; draw each anew, as `nn.Transformer` does."""
    for parameter in module.parameters(recurse=False):
        if parameter.dim() > 1:
            nn.init.xavier_uniform_(parameter)

"""Texts as vectors: what `gnomon.load` gives for an encoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gnomon.errors import DataError, RecipeError
from gnomon.model import Transformer
from gnomon.model.classifier import pool
from gnomon.tasks.finite import check_finite
from gnomon.tasks.progress import Progress, silent
from gnomon.tasks.rows import batches, longest_first, padded
from gnomon.text.framing import Framed, Framing

Pooling = Literal["mean", "first", "last", "max", "pooler"]
POOLINGS = ("mean", "first", "last", "max", "pooler")


@dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """How hidden states become one vector."""

    # mean, max: over all tokens, special ones included; first: of the first token (BERT's [CLS]);
    # last: of the last one; pooler: the model's own dense layer over the first one
    pooling: Pooling = "mean"
    # vectors of length 1, so that their product is their cosine
    normalise: bool = False
    # the longest text in tokens that the vectors were trained for; None: what the model reaches
    max_length: int | None = None

    def problems(self) -> list[str]:
        """Values that cannot be used."""
        found = []
        if self.pooling not in POOLINGS:
            found.append(f"pooling is one of {', '.join(POOLINGS)}, not {self.pooling!r}")
        if self.max_length is not None and self.max_length < 1:
            found.append(f"max_length must be at least 1, not {self.max_length}")
        return found


class Encoder:
    """An encoder with its tokenizer.

    The vector of a text does not depend on the texts given with it, but for rounding.

    Args:
        model: of family encoder, or decoder (whose last token has seen the whole text).
        framing: its tokenizer.
        config: how vectors are made unless a call says otherwise.
    """

    def __init__(self, model: Transformer, framing: Framing, config: EncoderConfig) -> None:
        self.model = model
        self.framing = framing
        self.config = config

    @property
    def longest(self) -> int | None:
        """The longest text in tokens, special ones included; None: any."""
        bounds = (self.config.max_length, self.model.config.max_positions())
        return min((bound for bound in bounds if bound is not None), default=None)

    @property
    def device(self) -> torch.device:
        """Where the model's parameters are."""
        return next(self.model.parameters()).device

    def embed(
        self,
        texts: Sequence[str],
        pairs: Sequence[str] | None = None,
        *,
        pooling: Pooling | None = None,
        normalise: bool | None = None,
        truncate: bool = False,
        batch_tokens: int = 4096,
        numbers: Sequence[int] | None = None,
        progress: Progress = silent,
    ) -> NDArray[np.float32]:
        """One vector per text, fp32 `[N, D]`, in the order of `texts`.

        An empty text has the vector of its special tokens, or zeros where there are none.

        Args:
            pairs: second texts, one for one, each read with its first one.
            pooling, normalise: other than the model's own; see `EncoderConfig`.
            truncate: read the beginning of a text that is longer than the model; else it is a
                mistake.
            batch_tokens: padded tokens at once: memory and speed, not results.
            numbers: what messages call the texts, such as their lines; by default 1, 2, 3 …
            progress: is told how many more texts are done, now and then.

        Raises:
            DataError: a text is too long, cannot be encoded, or has no second one.
            ModelError: the weights are broken, so that there is no result.
            RecipeError: no such pooling, or the model has no pooler.
        """
        if isinstance(texts, str):
            raise RecipeError("texts is a list of texts", seen="one str", mend="give [text]")
        if batch_tokens < 1:
            raise RecipeError("batch_tokens must be at least 1", seen=batch_tokens)
        way = self._way(pooling, normalise)
        rows = self.rows(texts, pairs, truncate=truncate, numbers=numbers)
        lengths = [max(len(row.ids), 1) for row in rows]
        width = self.model.config.d_model
        found = np.zeros((len(rows), width), dtype=np.float32)
        filled = [place for place, row in enumerate(rows) if row.ids]
        was_training = self.model.training
        self.model.eval()
        try:
            for batch in batches(longest_first(filled, lengths), lengths, batch_tokens):
                found[batch] = self._vectors([rows[place] for place in batch], way).cpu().numpy()
                progress(len(batch))
        finally:
            self.model.train(was_training)
        check_finite(found, "vectors")
        progress(len(rows) - len(filled))
        return found

    def rows(
        self,
        texts: Sequence[str],
        pairs: Sequence[str] | None = None,
        *,
        truncate: bool = False,
        numbers: Sequence[int] | None = None,
    ) -> list[Framed]:
        """The texts as the model reads them.

        Raises:
            DataError: a text is too long and `truncate` is off, or cannot be encoded.
        """
        longest = self.longest
        if truncate:
            return self.framing.frame(texts, pairs, max_length=longest)
        rows = self.framing.frame(texts, pairs)
        if longest is None:
            return rows
        over = [place for place, row in enumerate(rows) if len(row.ids) > longest]
        if over:
            name = over[0] + 1 if numbers is None else numbers[over[0]]
            raise DataError(
                f"a text may have {longest} tokens, special ones included",
                seen=f"text {name} has {len(rows[over[0]].ids)}"
                + (f", and {len(over) - 1} others are too long" if len(over) > 1 else ""),
                mend="shorten it, or have the beginning read: truncate=True, on the command line "
                "--truncate",
            )
        return rows

    def _way(self, pooling: Pooling | None, normalise: bool | None) -> EncoderConfig:
        way = EncoderConfig(
            pooling=self.config.pooling if pooling is None else pooling,
            normalise=self.config.normalise if normalise is None else normalise,
        )
        if problems := way.problems():
            raise RecipeError("vectors are made in one of several ways", seen="; ".join(problems))
        if way.pooling == "pooler" and self.model.pooler is None:
            raise RecipeError(
                "pooling = pooler needs a model with a pooler",
                seen="model.pooler = false",
                mend="choose mean or first",
            )
        return way

    @torch.no_grad()
    def _vectors(self, rows: Sequence[Framed], way: EncoderConfig) -> Tensor:
        """fp32 `[B, D]`."""
        ids = padded([row.ids for row in rows], self.framing.pad_id).to(self.device)
        lengths = torch.tensor([len(row.ids) for row in rows], device=self.device)
        keep = torch.arange(ids.shape[1], device=self.device) < lengths[:, None]
        segments = None
        if self.model.config.embedding.num_segments > 1:
            segments = padded([row.segments for row in rows], 0).to(self.device)
        if self.model.encoder is None:
            hidden = self.model.decode(ids, keep=keep, segments=segments)
        else:
            hidden = self.model.encode(ids, keep, segments=segments)
        if way.pooling == "pooler":
            vectors = self.model.pool(hidden).float()
        else:
            vectors = pool(hidden.float(), keep, way.pooling)
        if way.normalise:
            vectors = torch.nn.functional.normalize(vectors, dim=-1)
        return vectors

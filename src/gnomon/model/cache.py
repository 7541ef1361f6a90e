"""Keys and values of earlier tokens, kept between decoding steps."""

from __future__ import annotations

import torch
from torch import Tensor

from gnomon.errors import ModelError


class LayerCache:
    """One decoder layer's keys and values `[R, G, length, K]`: its own and the memory's.

    Appending copies. Buffers with spare room were measured: a third faster at 200 tokens without
    reordering, but a third slower at 40 tokens with it, which is where beam search lives.
    """

    def __init__(self) -> None:
        self.key: Tensor | None = None
        self.value: Tensor | None = None
        self.memory_key: Tensor | None = None
        self.memory_value: Tensor | None = None

    def append(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Add `[R, G, T, K]` keys and values; returns all so far."""
        if self.key is not None and self.value is not None:
            key = torch.cat((self.key, key), dim=2)
            value = torch.cat((self.value, value), dim=2)
        self.key, self.value = key, value
        return key, value

    def reorder(self, rows: Tensor, memory_rows: Tensor | None) -> None:
        """Keep, repeat or drop rows; `memory_rows` None leaves the memory's as they are."""
        if self.key is not None and self.value is not None:
            self.key = self.key.index_select(0, rows)
            self.value = self.value.index_select(0, rows)
        if memory_rows is not None and self.memory_key is not None:
            assert self.memory_value is not None
            self.memory_key = self.memory_key.index_select(0, memory_rows)
            self.memory_value = self.memory_value.index_select(0, memory_rows)


class Cache:
    """What decoding keeps of the tokens so far, for all layers and rows.

    Rows may be repeated, dropped or reordered between steps (beam search); the encoder's keys
    and values are computed once, at the first step.
    """

    def __init__(self, num_layers: int, max_length: int | None = None) -> None:
        self.max_length = max_length
        self.layers = [LayerCache() for _ in range(num_layers)]
        self.keep: Tensor | None = None  # bool [R, length] once any token was padding
        self.memory_keep: Tensor | None = None  # bool [R, S]
        self.sentences: Tensor | None = None  # [R], which of the first step's rows each one is

    @property
    def length(self) -> int:
        """How many tokens of each row are in the cache."""
        key = self.layers[0].key
        return 0 if key is None else key.shape[2]

    @property
    def has_memory(self) -> bool:
        """Whether the encoder's keys and values are in the cache."""
        return self.layers[0].memory_key is not None

    def extend(
        self, new: Tensor, keep: Tensor | None, memory_keep: Tensor | None
    ) -> tuple[Tensor | None, Tensor | None]:
        """Note which of the `new [R, T]` tokens are real; returns the masks over all so far.

        Args:
            new: ids about to be added.
            keep: bool `[R, T]`, True at real tokens; None: all real.
            memory_keep: bool `[R, S]` at the first call, kept from then on.
        """
        if self.sentences is None:
            self.sentences = torch.arange(new.shape[0], device=new.device)
            self.memory_keep = memory_keep
        if keep is not None or self.keep is not None:
            past = self.keep
            if past is None:
                past = new.new_ones((new.shape[0], self.length), dtype=torch.bool)
            keep = torch.ones_like(new, dtype=torch.bool) if keep is None else keep
            self.keep = torch.cat((past, keep), dim=1)
        return self.keep, self.memory_keep

    def fixed_length(self, needed: int, trained: int) -> int:
        """The one text length that angles depending on it are computed for.

        Raises:
            ModelError: past the trained length without a large enough `max_length`: the angles
                would change under the keys that are in the cache already.
        """
        length = max(self.max_length or 0, trained)
        if needed > length:
            raise ModelError(
                "dynamic_ntk positions need to know the final length before the first token.",
                seen=f"{needed} tokens in a cache for {length}",
                mend="pass max_length to new_cache, or use yarn scaling.",
            )
        return length

    def reorder(self, rows: Tensor) -> None:
        """Make row i what row `rows[i]` was; rows may repeat or be left out.

        Args:
            rows: int64 `[R']`, numbers of present rows.
        """
        memory_rows: Tensor | None = rows
        if self.sentences is not None:
            sentences = self.sentences[rows]
            if torch.equal(sentences, self.sentences):
                memory_rows = None  # hypotheses changed places within their own sentence
            self.sentences = sentences
        for layer in self.layers:
            layer.reorder(rows, memory_rows)
        if self.keep is not None:
            self.keep = self.keep[rows]
        if memory_rows is not None and self.memory_keep is not None:
            self.memory_keep = self.memory_keep[rows]

"""Keys and values of earlier tokens, kept between decoding steps."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gnomon.errors import ModelError
from gnomon.model.masks import Mask
from gnomon.model.patterns import Pattern


class LayerCache:
    """One decoder layer's keys and values `[R, G, length, K]`, and the memory's `[M, G, S, K]`.

    R may be a multiple of M: then R / M neighbouring rows share one memory, and read it together.
    Appending copies. Buffers with spare room were measured: a third faster at 200 tokens without
    reordering, but a third slower at 40 tokens with it, which is where beam search lives.
    """

    def __init__(self) -> None:
        self.key: Tensor | None = None
        self.value: Tensor | None = None
        self.memory_key: Tensor | None = None
        self.memory_value: Tensor | None = None
        # Where asked for: the attention to the memory at the newest call, [M, R / M * T, S],
        # the mean over heads.
        self.keeps_attention = False
        self.memory_attention: Tensor | None = None

    def append(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Add `[R, G, T, K]` keys and values; returns all so far."""
        if self.key is not None and self.value is not None:
            key = torch.cat((self.key, key), dim=2)
            value = torch.cat((self.value, value), dim=2)
        self.key, self.value = key, value
        return key, value

    def forget(self, first: int, count: int) -> None:
        """Drop the keys and values of `count` tokens, from the one at `first` on."""
        if self.key is not None and self.value is not None:
            self.key, self.value = (
                torch.cat((x[:, :, :first], x[:, :, first + count :]), dim=2)
                for x in (self.key, self.value)
            )

    def take_rows(self, rows: Tensor) -> None:
        """Keep, repeat or drop rows of the layer's own keys and values."""
        if self.key is not None and self.value is not None:
            self.key = self.key.index_select(0, rows)
            self.value = self.value.index_select(0, rows)

    def take_memory(self, rows: Tensor) -> None:
        """Keep, repeat or drop rows of the memory's keys and values."""
        if self.memory_key is not None and self.memory_value is not None:
            self.memory_key = self.memory_key.index_select(0, rows)
            self.memory_value = self.memory_value.index_select(0, rows)


class Cache:
    """What decoding keeps of the tokens so far, for all layers and rows.

    Rows may be repeated, dropped or reordered between steps (beam search); the encoder's keys
    and values are computed once, at the first step, and kept once per sentence.
    """

    def __init__(self, num_layers: int, max_length: int | None = None) -> None:
        self.max_length = max_length
        self.layers = [LayerCache() for _ in range(num_layers)]
        # Tokens whose keys and values were dropped; they stood behind the first `num_global`.
        self.num_forgotten = 0
        self.num_global = 0
        self.num_groups = 0  # M: sentences, each with R / M neighbouring rows
        self.keep: Tensor | None = None  # bool [R, length] once any token was padding
        self.memory_keep: Tensor | None = None  # bool [M, S]
        self.memory_mask: Mask | None = None  # the same, made once for all steps and layers

    @property
    def num_kept(self) -> int:
        """How many tokens of each row have their keys and values here."""
        key = self.layers[0].key
        return 0 if key is None else key.shape[2]

    @property
    def length(self) -> int:
        """How many tokens of each row the cache has seen."""
        return self.num_kept + self.num_forgotten

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
        if self.length == 0:
            self.num_groups = new.shape[0]
            self.memory_keep = memory_keep
        if keep is not None or self.keep is not None:
            past = self.keep
            if past is None:
                past = new.new_ones((new.shape[0], self.length), dtype=torch.bool)
            keep = torch.ones_like(new, dtype=torch.bool) if keep is None else keep
            self.keep = torch.cat((past, keep), dim=1)
        return self.keep, self.memory_keep

    def forget(self, patterns: Sequence[Pattern]) -> None:
        """Drop keys and values that no later token sees under any of the layers' patterns.

        What is kept is at most twice what is needed, so that a step seldom pays for it. Rows that
        begin with padding keep all, as their global tokens stand at different places.
        """
        if self.keep is not None and not bool(self.keep.all()):
            return
        self.num_global = max(pattern.num_global for pattern in patterns)
        oldest = min(pattern.oldest(self.length) for pattern in patterns)
        count = oldest - self.num_global - self.num_forgotten
        if count > self.num_kept - count:
            for layer in self.layers:
                layer.forget(self.num_global, count)
            self.num_forgotten += count

    def kept(
        self, num_new: int, keep: Tensor | None, device: torch.device
    ) -> tuple[Tensor | None, Tensor | None]:
        """`keep` of the tokens that are still here and the new ones, and their places in the text.

        Args:
            num_new: tokens about to be added.
            keep: bool `[R, length + num_new]` over all tokens, dropped ones included.
            device: where the places are wanted.

        Returns:
            Bool `[R, S]`, or None as given; int `[S]` or `[R, S]`, or None where nothing was
            dropped, so that places are counted as ever.
        """
        if self.num_forgotten == 0:
            return keep, None
        first, total = self.num_global, self.length + num_new
        columns = torch.cat(
            (
                torch.arange(first, device=device),
                torch.arange(first + self.num_forgotten, total, device=device),
            )
        )
        if keep is None:
            return None, columns
        return keep[:, columns], (keep.cumsum(dim=-1) - 1).clamp(min=0)[:, columns]

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

    def select(self, sentences: Tensor | None, parents: Tensor) -> None:
        """Reorder rows that come grouped by sentence; the memory stays one row per sentence.

        Args:
            sentences: int64 `[B']`, places of the sentences that stay, in any order and number;
                None if all do.
            parents: int64 `[B', k']`, places among each sentence's present rows.
        """
        key = self.layers[0].key
        if key is not None:
            stay = torch.arange(len(parents), device=parents.device)
            first = (stay if sentences is None else sentences) * (key.shape[0] // self.num_groups)
            self._take_rows((first.unsqueeze(1) + parents).flatten())
        if sentences is not None:
            self._take_memory(sentences)
        self.num_groups = len(parents)

    def _take_rows(self, rows: Tensor) -> None:
        for layer in self.layers:
            layer.take_rows(rows)
        if self.keep is not None:
            self.keep = self.keep[rows]

    def _take_memory(self, rows: Tensor) -> None:
        for layer in self.layers:
            layer.take_memory(rows)
        if self.memory_keep is not None:
            self.memory_keep = self.memory_keep[rows]
        self.memory_mask = None

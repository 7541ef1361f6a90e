"""The Transformer: token ids to hidden states to logits, for all three families."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from gnomon.errors import ModelError
from gnomon.model.cache import Cache
from gnomon.model.config import StackName, TransformerConfig
from gnomon.model.documents import Documents
from gnomon.model.embedding import Embedding, table_owners
from gnomon.model.head import Head, Projection
from gnomon.model.init import initialise
from gnomon.model.layer import LayerConfig
from gnomon.model.pooler import Pooler
from gnomon.model.roles import Role, parameter_roles
from gnomon.model.stack import Stack


class Transformer(nn.Module):
    """Encoder-decoder, encoder or decoder, as the configuration says.

    Args:
        config: all choices; raises `ModelError` when they cannot work together.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        if problems := config.problems():
            raise ModelError("This model cannot be built.", seen="\n  ".join(problems))
        self.config = config
        self.owners = table_owners(config.tie, config.roles())
        sizes = {"source": config.vocab_size}
        sizes["target"] = sizes["output"] = config.output_vocab_size()
        self.tables = nn.ParameterDict(
            {
                owner: nn.Parameter(torch.empty(sizes[owner], config.d_model))
                for owner in sorted(set(self.owners.values()))
            }
        )
        self.source_embedding = self._embedding() if config.has_encoder() else None
        self.encoder = self._stack("encoder") if config.has_encoder() else None
        self.target_embedding = self._embedding() if config.has_decoder() else None
        self.decoder = self._stack("decoder") if config.has_decoder() else None
        self.head: Head | None = None
        if config.head.kind != "none":
            self.head = Head(
                config.head,
                config.norm,
                config.feedforward.activation,
                config.d_model,
                config.output_vocab_size(),
            )
        self.pooler = Pooler(config.d_model) if config.pooler else None
        self.initialise()

    def _embedding(self) -> Embedding:
        config = self.config
        return Embedding(
            config.embedding, config.position, config.norm, config.d_model, config.dropout
        )

    def _stack(self, name: StackName) -> Stack:
        config = self.config
        is_decoder = name == "decoder"
        layer = LayerConfig(
            d_model=config.d_model,
            attention=config.attention,
            feedforward=config.feedforward,
            norm=config.norm,
            dropout=config.dropout,
            cross=is_decoder and config.has_encoder(),
            alpha=config.residual_scales(name)[0],
        )
        num_layers = config.num_decoder_layers if is_decoder else config.num_encoder_layers
        return Stack(
            layer,
            num_layers,
            config.position,
            causal=is_decoder,
            layer_drop=config.layer_drop,
        )

    def initialise(self) -> None:
        """Draw all parameters anew from PyTorch's generator (also after a meta device)."""
        initialise(self)

    def parameter_roles(self) -> dict[str, Role]:
        """Role of every parameter by its name; see `gnomon.model.roles`."""
        return parameter_roles(self)

    def table(self, role: str) -> Tensor:
        """The token table `[V, D]` used as `source`, `target` or `output`."""
        table: Tensor = self.tables[self.owners[role]]
        return table

    def keep(self, ids: Tensor) -> Tensor | None:
        """`[B, L]` bool, True at real tokens; None if the model knows no padding."""
        return None if self.config.pad_id is None else ids != self.config.pad_id

    def forward(
        self,
        ids: Tensor,
        target: Tensor | None = None,
        *,
        keep: Tensor | None = None,
        segments: Tensor | None = None,
        global_tokens: Tensor | None = None,
    ) -> Tensor:
        """Logits `[B, L, V]` at every position; without a head hidden states `[B, L, D]`.

        Args:
            ids: int64 `[B, S]`, the source (encoder_decoder), or the only text.
            target: int64 `[B, T]`, the decoder's input (encoder_decoder only).
            keep: bool `[B, S]` of `ids`; None: where they are not `pad_id`.
            segments: int64 `[B, S]`, with segment embeddings only.
            global_tokens: bool `[B, S]` of `ids`; see `encode`.
        """
        if self.config.family == "decoder":
            if global_tokens is not None:
                raise ModelError(
                    "In a decoder the global tokens are the first ones of the text.",
                    seen="global_tokens",
                    mend="set model.attention.num_global_tokens.",
                )
            hidden = self.decode(ids, keep=keep, segments=segments)
            return hidden if self.head is None else self.project(hidden)
        if keep is None:
            keep = self.keep(ids)
        hidden = self.encode(ids, keep, segments=segments, global_tokens=global_tokens)
        if self.config.family == "encoder_decoder":
            if target is None:
                raise ModelError(
                    "An encoder-decoder needs a target text beside the source.",
                    mend="call model(source, target), or model.encode(source) for the encoder.",
                )
            hidden = self.decode(target, hidden, keep)
        return hidden if self.head is None else self.project(hidden)

    def encode(
        self,
        source: Tensor,
        keep: Tensor | None = None,
        *,
        positions: Tensor | None = None,
        segments: Tensor | None = None,
        global_tokens: Tensor | None = None,
        documents: Tensor | None = None,
    ) -> Tensor:
        """Hidden states `[B, S, D]` of the encoder.

        Args:
            source: int64 `[B, S]`.
            keep: bool `[B, S]`, True at real tokens; None: where `source` is not `pad_id`.
            positions: int64 `[S]` or `[B, S]`; None: 0, 1, 2 …
            segments: int64 `[B, S]`, with segment embeddings only; None: all 0.
            global_tokens: bool `[B, S]`, with a sparse attention pattern only: tokens that see
                all and are seen by all (a question before its document), beside the first
                `num_global_tokens`.
            documents: int64 `[B, S]`, of packed rows; see `decode`.
        """
        if global_tokens is not None and self.config.attention.pattern == "full":
            raise ModelError(
                "Global tokens belong to a sparse attention pattern.",
                seen="model.attention.pattern = full, in which all tokens see all",
                mend="leave global_tokens out, or choose another pattern.",
            )
        if self.encoder is None or self.source_embedding is None:
            raise ModelError(
                "This model has no encoder.", seen="family decoder", mend="use model.decode."
            )
        packed = None
        if documents is not None:
            self._refuse_packed(keep, positions, global_tokens)
            packed = Documents(documents)
            positions = packed.positions
        elif keep is None:
            keep = self.keep(source)
        positions, largest = place(positions, None, source.shape[1], 0, source.device)
        x = self.source_embedding(source, self.table("source"), positions, largest, segments)
        hidden: Tensor = self.encoder(
            x, positions, largest, keep, global_tokens=global_tokens, documents=packed
        )
        return hidden

    def _refuse_packed(self, *beside: object) -> None:
        """Packed rows have no padding of their own, and positions that are known."""
        if self.config.turns_by_length() or any(each is not None for each in beside):
            raise ModelError(
                "Rows that hold several documents go without padding, positions, global tokens, "
                "memory and cache of their own, and without dynamic_ntk.",
                mend="give `documents` alone, with a number of its own for padding.",
            )

    def decode(
        self,
        target: Tensor,
        memory: Tensor | None = None,
        memory_keep: Tensor | None = None,
        *,
        keep: Tensor | None = None,
        positions: Tensor | None = None,
        segments: Tensor | None = None,
        cache: Cache | None = None,
        documents: Tensor | None = None,
        needed: Tensor | None = None,
    ) -> Tensor:
        """Hidden states `[B, T, D]` of the decoder.

        Padding after the end of a target needs no mask, because no token looks ahead; padding
        before its start (prompts of several lengths) does: pass `keep`.

        Args:
            target: int64 `[B, T]`; with a cache, the tokens that are not in it yet.
            memory: `[B, S, D]` from `encode` (encoder_decoder only); not read again once the
                cache holds its keys and values.
            memory_keep: bool `[B, S]`, the `keep` that `encode` used; None: no padding.
            keep: bool `[B, T]` of `target`; None: all real.
            positions: int64 `[T]` or `[B, T]`; None: counted over the kept tokens.
            segments: int64 `[B, T]`, with segment embeddings only; None: all 0.
            cache: from `new_cache`; this call's tokens are added to it.
            documents: int64 `[B, T]`, of rows that hold several documents one after another:
                neighbours with the same number are one, which sees nothing of the others and
                whose positions begin at 0.
            needed: bool `[B, T]`, the first tokens of each row, whose states alone are wanted; in
                training those of the others may be left out (`gnomon.model.unpadded`).
        """
        if self.decoder is None or self.target_embedding is None:
            raise ModelError(
                "This model has no decoder.", seen="family encoder", mend="use model.encode."
            )
        remembers = cache is not None and cache.has_memory
        if self.encoder is not None and memory is None and not remembers:
            raise ModelError(
                "The decoder of an encoder-decoder needs the encoder's output.",
                mend="pass model.encode(source) as memory; only a cache that has seen it may go "
                "without.",
            )
        packed, past = None, 0
        if documents is not None:
            self._refuse_packed(memory, memory_keep, keep, positions, cache)
            packed = Documents(documents)
            positions = packed.positions
        if cache is not None:
            past = cache.length
            keep, memory_keep = cache.extend(target, keep, memory_keep)
        positions, largest = place(positions, keep, target.shape[1], past, target.device)
        x = self.target_embedding(target, self.table("target"), positions, largest, segments)
        hidden: Tensor = self.decoder(
            x,
            positions,
            largest,
            keep,
            memory,
            memory_keep,
            cache,
            documents=packed,
            needed=needed,
        )
        return hidden

    def decode_in_chunks(
        self,
        target: Tensor,
        memory: Tensor | None = None,
        memory_keep: Tensor | None = None,
        *,
        cache: Cache,
        chunk_size: int = 512,
        keep: Tensor | None = None,
    ) -> Iterator[Tensor]:
        """`decode` of a long text in parts: hidden states `[B, up to chunk_size, D]`, in turn.

        Equal to one pass. What is in memory at once is the cache, which under a sparse attention
        pattern does not grow with the text, and one chunk's hidden states and masks. With
        dynamic_ntk positions the cache must know the final length (`new_cache`).

        Args:
            target: int64 `[B, T]`; a prompt, or a text to be scored.
            memory: as in `decode`.
            memory_keep: as in `decode`.
            cache: from `new_cache`; ready for the next token at the end.
            chunk_size: tokens at a time.
            keep: bool `[B, T]` of `target`; None: all real.
        """
        for start in range(0, target.shape[1], chunk_size):
            part = slice(start, start + chunk_size)
            yield self.decode(
                target[:, part],
                memory,
                memory_keep,
                keep=None if keep is None else keep[:, part],
                cache=cache,
            )

    def project(self, hidden: Tensor) -> Tensor:
        """Logits `[..., V]` of hidden states `[..., D]`."""
        logits: Tensor = self._head()(hidden, self.table("output"))
        return logits

    def projection(self, hidden: Tensor) -> Projection:
        """What the logits of hidden states `[..., D]` are the product of."""
        return self._head().projection(hidden, self.table("output"))

    def _head(self) -> Head:
        if self.head is None:
            raise ModelError(
                "This model has no output head.",
                seen="model.head.kind = none",
                mend="use the hidden states of encode or decode.",
            )
        return self.head

    def pool(self, hidden: Tensor) -> Tensor:
        """One vector `[B, D]` per text from the hidden states `[B, S, D]` of `encode`."""
        if self.pooler is None:
            raise ModelError(
                "This model has no pooler.",
                seen="model.pooler = false",
                mend="take the mean of the hidden states, or those of the first token.",
            )
        pooled: Tensor = self.pooler(hidden)
        return pooled

    def new_cache(self, max_length: int | None = None) -> Cache:
        """An empty cache for `decode`.

        Args:
            max_length: tokens the text will have at most; only dynamic_ntk positions need it,
                and only past their trained length.
        """
        return Cache(self.config.num_decoder_layers, max_length)


def place(
    positions: Tensor | None, keep: Tensor | None, num_new: int, past: int, device: torch.device
) -> tuple[Tensor, int]:
    """Positions of the new tokens, `[T]` or `[B, T]`, and an upper bound of them.

    Where they are not given, tokens are counted; padding before the start does not count.
    """
    if positions is not None:
        return positions, int(positions.max())
    if keep is not None:
        counted = keep.cumsum(dim=-1)[:, -num_new:] - 1
        return counted.clamp(min=0), past + num_new - 1
    return torch.arange(past, past + num_new, device=device), past + num_new - 1

"""gnomon's own tokenizer in the form in which checks ask one, and batches of real text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import torch
from torch import Tensor

from gnomon.errors import GnomonError
from gnomon.tasks.rows import padded
from gnomon.text import (
    BOS_ID,
    EOS_ID,
    PAD_ID,
    AnyTokenizer,
    DataConfig,
    PretrainedTokenizer,
    TokenizerPair,
)
from gnomon.text.corpus import Pair
from gnomon.text.text_source import TextSource

NUM_TEXTS = 200  # pairs looked at for a batch
_ROWS = 6


class OneText:
    """A tokenizer of one text at a time, as the model reads it: with what stands around.

    The names of its attributes are Hugging Face's, since that is what checks ask of anybody's.
    """

    def __init__(self, own: AnyTokenizer) -> None:
        self.own = own
        self.pad_token_id: int | None = own.pad_id
        self._before: tuple[int, ...] = ()
        self._behind: tuple[int, ...] = (EOS_ID,)
        if isinstance(own, PretrainedTokenizer):
            # What fills up rows in a vocabulary without padding is nothing to judge.
            self.pad_token_id = own.roles.pad
            self._before, self._behind = own.prefix, own.suffix
        self.unk_token_id = own.unk_id
        self.eos_token_id = own.eos_id
        self.bos_token_id = own.bos_id

    def __len__(self) -> int:
        return self.own.vocab_size

    @property
    def all_special_ids(self) -> list[int]:
        """Ids that stand for no text; tags do not either."""
        return [*self.own.special_ids, *self.own.tag_ids(self.own.tags)]

    def encode(self, text: str) -> list[int]:
        """The ids of one text and what stands around it."""
        return [*self._before, *self.own.encode([text])[0], *self._behind]

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """The text of these ids; special ids stand for none."""
        return self.own.decode([[int(index) for index in ids]])[0]


def first_pairs(data: DataConfig) -> list[Pair]:
    """The first pairs of the training text; none where it cannot be read."""
    try:
        return list(islice(_pairs(data), NUM_TEXTS))
    except GnomonError:
        return []


def _pairs(data: DataConfig) -> Iterator[Pair]:
    for config in data.split("train"):
        for line, (source, target) in enumerate(TextSource(config).rows(), start=1):
            if source.strip() and target.strip():
                yield Pair(line, source, target, config.tags)


def batch_of(
    tokenizers: TokenizerPair, pairs: Sequence[Pair], longest: int, device: torch.device
) -> dict[str, Tensor] | None:
    """Source and decoder input of a few pairs, short ones and long ones; None where none fits.

    Args:
        longest: tokens that either side may have.
    """
    sources = tokenizers.encode_sources([p.source for p in pairs], [p.tags for p in pairs])
    targets = tokenizers.target.encode([p.target for p in pairs])
    both = sorted(
        (
            (source, target)
            for source, target in zip(sources, targets, strict=True)
            if source and target and max(len(source), len(target)) + 2 <= longest
        ),
        key=lambda pair: len(pair[0]) + len(pair[1]),
    )
    if not both:
        return None
    rows = min(_ROWS, len(both))
    chosen = [both[(2 * row + 1) * len(both) // (2 * rows)] for row in range(rows)]
    return {
        "ids": padded([[*source, EOS_ID] for source, _ in chosen]).to(device),
        "target": padded([[BOS_ID, *target] for _, target in chosen]).to(device),
    }


def with_end(inputs: Tensor) -> Tensor:
    """`[B, T+1]`, BOS, tokens, EOS, padding, of decoder inputs `[B, T]` with or without EOS."""
    full = torch.cat([inputs, inputs.new_full((inputs.size(0), 1), PAD_ID)], dim=1)
    lengths = ((full != PAD_ID) & (full != EOS_ID)).cumprod(1).sum(1)
    rows = torch.arange(full.size(0), device=full.device)
    full[rows, lengths] = EOS_ID
    return full

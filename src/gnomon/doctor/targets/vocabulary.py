"""gnomon's own tokenizer in the form in which checks ask one, and batches of real text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor

from gnomon.errors import GnomonError
from gnomon.tasks.rows import padded
from gnomon.text import BOS_ID, EOS_ID, PAD_ID, DataConfig, Tokenizer, TokenizerPair
from gnomon.text.corpus import Pair
from gnomon.text.text_source import TextSource

NUM_TEXTS = 200  # pairs looked at for a batch
_ROWS = 6


@dataclass(frozen=True)
class OneText:
    """A tokenizer of one text at a time, as the model reads it: with end of sentence.

    The names of its attributes are Hugging Face's, since that is what checks ask of anybody's.
    """

    own: Tokenizer
    pad_token_id: int = PAD_ID
    unk_token_id: int = Tokenizer.unk_id
    eos_token_id: int = EOS_ID
    bos_token_id: int = BOS_ID

    def __len__(self) -> int:
        return self.own.vocab_size

    @property
    def all_special_ids(self) -> list[int]:
        """Ids that stand for no text; tags do not either."""
        tags = self.own.tag_ids(self.own.tags)
        return [PAD_ID, self.unk_token_id, BOS_ID, EOS_ID, *tags]

    def encode(self, text: str) -> list[int]:
        """The ids of one text and the end of sentence."""
        return [*self.own.encode([text])[0], EOS_ID]

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

"""Translating texts with a trained model: what `gnomon.load` gives for a translation model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gnomon.decoding import (
    EncoderDecoderScorer,
    Hypothesis,
    SearchConfig,
    beam_search,
    greedy_search,
)
from gnomon.errors import RecipeError
from gnomon.model import Transformer
from gnomon.text import BOS_ID, EOS_ID, PAD_ID, Familiarity, TokenizerPair


@dataclass(frozen=True, slots=True)
class Translation:
    """One translated text.

    Attributes:
        text: the translation, on one line. Blank input gives "".
        score: what the search ranks by, log_prob / penalty(length) (see `SearchConfig`).
        log_prob: natural logarithm of the output's probability, EOS included.
        num_tokens: length of the output in tokens, EOS included.
        truncated: the length limit came before the model ended the sentence.
        far: the input is far from what the model was trained on, so do not trust the output;
            None if the model folder has no profile of its training text.
        alternatives: further outputs by falling score, if `nbest` asked for them.
    """

    text: str
    score: float
    log_prob: float
    num_tokens: int
    truncated: bool
    far: bool | None = None
    alternatives: tuple[Translation, ...] = ()


class Translator:
    """A trained encoder-decoder with its tokenizer and search settings.

    The output for a text does not depend on the other texts given with it.
    """

    def __init__(
        self,
        model: Transformer,
        tokenizers: TokenizerPair,
        search: SearchConfig,
        *,
        familiarity: Familiarity | None = None,
    ) -> None:
        self.model = model
        self.tokenizers = tokenizers
        self.search = search
        self.familiarity = familiarity

    def translate(
        self, texts: Sequence[str], *, batch_tokens: int = 4096, **search: Any
    ) -> list[Translation]:
        """Translate each text; results come in the order of `texts`, one for one.

        Args:
            texts: any texts; a line break inside one is a space to the model.
            batch_tokens: padded source tokens decoded at once: memory and speed, not results.
            **search: fields of `SearchConfig` to change, for example `beam=1` or `nbest=3`.

        Raises:
            RecipeError: a search setting is unknown or out of range.
            ModelError: a text is longer than the model's positions reach.
        """
        if isinstance(texts, str):
            raise RecipeError("texts is a list of texts", seen="one str", mend="give [text]")
        config = self.search_config(search)
        sources = self.tokenizers.source.encode([" ".join(text.split("\n")) for text in texts])
        blank = [not text.strip() for text in texts]
        results = [Translation("", 0.0, 0.0, 0, False) if empty else None for empty in blank]
        # Longest first: memory trouble shows at once, and neighbours are of equal length.
        order = sorted(
            (i for i in range(len(texts)) if not blank[i]), key=lambda i: (-len(sources[i]), i)
        )
        far = self._far(texts)
        was_training = self.model.training
        self.model.eval()
        try:
            for batch in _batches(order, [len(ids) + 1 for ids in sources], batch_tokens):
                found = self._decode([sources[i] for i in batch], config)
                for i, hypotheses in zip(batch, found, strict=True):
                    results[i] = self._as_translation(hypotheses, far[i])
        finally:
            self.model.train(was_training)
        return [result for result in results if result is not None]

    def search_config(self, changes: dict[str, Any]) -> SearchConfig:
        """The model's own search settings with these fields changed; None changes nothing.

        Raises:
            RecipeError: a field is unknown, or the values do not fit together.
        """
        known = {name: value for name, value in changes.items() if value is not None}
        try:
            config = replace(self.search, **known)
        except TypeError:
            raise RecipeError(
                "search settings are fields of SearchConfig",
                seen=", ".join(known),
                mend=f"fields: {', '.join(SearchConfig.__dataclass_fields__)}",
            ) from None
        if "nbest" in known and "beam" not in known:
            config = replace(config, beam=max(config.beam, config.nbest))
        if "beam" in known and "nbest" not in known:
            config = replace(config, nbest=min(config.beam, config.nbest))
        if problems := config.problems():
            raise RecipeError("the search settings must fit together", seen="; ".join(problems))
        return config

    def _far(self, texts: Sequence[str]) -> list[bool | None]:
        if self.familiarity is None:
            return [None] * len(texts)
        return list(self.familiarity.is_far(texts))

    @torch.no_grad()
    def _decode(self, sources: list[list[int]], config: SearchConfig) -> list[list[Hypothesis]]:
        source = padded([[*ids, EOS_ID] for ids in sources]).to(self.device)
        limits = config.max_lengths(len(ids) + 1 for ids in sources)
        if (reach := self.model.config.max_positions()) is not None:
            limits = [min(limit, reach) for limit in limits]
        scorer = EncoderDecoderScorer(self.model, source)
        ids = {"pad_id": PAD_ID, "bos_id": BOS_ID, "eos_id": EOS_ID}
        if config.beam == 1:
            return [[best] for best in greedy_search(scorer, config, max_lengths=limits, **ids)]
        return beam_search(scorer, config, max_lengths=limits, **ids)

    def _as_translation(self, hypotheses: list[Hypothesis], far: bool | None) -> Translation:
        texts = self.tokenizers.target.decode([found.tokens for found in hypotheses])
        best, *others = (
            # Byte pieces can spell a line break; one input line gives one output line.
            Translation(
                " ".join(text.splitlines()),
                found.score,
                found.log_prob,
                len(found.tokens),
                found.truncated,
                far,
            )
            for text, found in zip(texts, hypotheses, strict=True)
        )
        return replace(best, alternatives=tuple(others))

    @property
    def device(self) -> torch.device:
        """Where the model's parameters are."""
        return next(self.model.parameters()).device


def padded(rows: Sequence[Sequence[int]]) -> Tensor:
    """Rows of ids as one int64 tensor [B, longest], padded on the right."""
    table = np.full((len(rows), max(map(len, rows))), PAD_ID, dtype=np.int64)
    for place, row in enumerate(rows):
        table[place, : len(row)] = row
    return torch.from_numpy(table)


def _batches(order: list[int], lengths: list[int], budget: int) -> Iterator[list[int]]:
    """Cut `order` (by falling length) so that rows × longest stays within `budget` tokens."""
    start = 0
    while start < len(order):
        size = max(1, budget // lengths[order[start]])
        yield order[start : start + size]
        start += size

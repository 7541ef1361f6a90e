"""Which source words a model looks at for each target word: `gnomon align`.

A target token is aligned by the cross-attention of the decoder step that predicts it, in the last
layer but one (Garg et al. 2019); heads are averaged. The step that reads the token, one later,
knows which it is (Chen et al. 2020, SHIFT-ATT), but only a first layer may still be looking at it:
later layers look for the next one (`python -m benchmarks.worth RUN --groups align` shows which).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from gnomon.errors import DataError, ModelError
from gnomon.tasks.likelihood import Pair, encoded_pairs
from gnomon.tasks.progress import Progress, silent
from gnomon.tasks.rows import batches, longest_first, padded
from gnomon.text import AnyTokenizer, Unit, mend_controls, owners, units

if TYPE_CHECKING:
    from gnomon.tasks.translator import Translator

Link = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Alignment:
    """How the units (words or characters) of a target belong to those of its source.

    Attributes:
        links: (source unit, target unit), both from 0, sorted: for each target unit the source
            unit with the most attention.
        source, target: the units.
        weights: for each target unit the attention on each source unit, averaged over the unit's
            pieces.
        elsewhere: for each target unit the attention on what is no source unit: tags, the end of
            the sentence and white space; with its weights it sums to 1.
        reason: why there are no links although both sides hold text; None otherwise.
        beyond_training: a side is longer than any the model was trained on, so the links are not to
            be trusted; None where that is not known.
    """

    links: tuple[Link, ...]
    source: tuple[str, ...] = ()
    target: tuple[str, ...] = ()
    weights: tuple[tuple[float, ...], ...] = ()
    elsewhere: tuple[float, ...] = ()
    reason: str | None = None
    beyond_training: bool | None = None


@torch.no_grad()
def align_pairs(
    translator: Translator,
    sources: Sequence[str],
    targets: Sequence[str],
    *,
    layer: int | None = None,
    shift: bool = False,
    source_units: Unit = "words",
    target_units: Unit = "words",
    tags: Sequence[tuple[str, ...]] = (),
    batch_tokens: int = 4096,
    progress: Progress = silent,
) -> list[Alignment]:
    """Align each pair; see `Translator.align`."""
    for kind in (source_units, target_units):
        if kind not in ("words", "characters"):
            raise DataError("units are 'words' or 'characters'", seen=repr(kind))
    chosen = chosen_layer(translator.model.config.num_decoder_layers, layer)
    sides = (
        _Side(sources, translator.tokenizers.source, source_units),
        _Side(targets, translator.tokenizers.target, target_units),
    )
    pairs = encoded_pairs(translator, sides[0].texts, sides[1].texts, tags)
    reach = translator.model.config.max_positions()
    lengths = [pair.length for pair in pairs]
    results = [
        Alignment(
            (),
            sides[0].units(place),
            sides[1].units(place),
            reason=pair.problem(translator, reach),
            beyond_training=pair.beyond_training(translator),
        )
        for place, pair in enumerate(pairs)
    ]
    wanted = [
        place
        for place, result in enumerate(results)
        if result.source and result.target and result.reason is None
    ]
    progress(len(pairs) - len(wanted))
    model, was_training = translator.model, translator.model.training
    model.eval()
    try:
        for batch in batches(longest_first(wanted, lengths), lengths, batch_tokens):
            attention = _attention(translator, [pairs[place] for place in batch], chosen)
            for place, weights in zip(batch, attention, strict=True):
                around = len(translator.ids.target([]))  # begin and end
                num_tokens = len(pairs[place].target) - around
                # Row t of the decoder reads token t, BOS being token 0, and predicts token t + 1.
                first = int(shift) + around - 2
                rows = weights[first:][:num_tokens, : len(pairs[place].source)]
                before = len(translator.ids.source_prefix) + (len(tags[place]) if tags else 0)
                found = _by_unit(rows, sides[0], sides[1], place, before)
                results[place] = replace(found, beyond_training=results[place].beyond_training)
            progress(len(batch))
    finally:
        model.train(was_training)
    return results


def chosen_layer(num_layers: int, layer: int | None) -> int:
    """The decoder layer to look at, from 0, for `layer` from 1; None: the last but one.

    Raises:
        ModelError: the decoder has no such layer.
    """
    if layer is None:
        return max(0, num_layers - 2)
    if not 1 <= layer <= num_layers:
        raise ModelError(
            "layers are counted from 1, the one next to the embedding",
            seen=f"layer {layer} of a decoder with {num_layers}",
            mend=f"name one from 1 to {num_layers}, or none for the last but one",
        )
    return layer - 1


def _attention(
    translator: Translator, pairs: Sequence[Pair], layer: int
) -> list[NDArray[np.float32]]:
    """Cross-attention [T, S] of each pair, averaged over heads; both sides still padded.

    The cache is there for what it notes of the attention; it is used once.
    """
    pad = translator.ids.pad
    source = padded([pair.source for pair in pairs], pad).to(translator.device)
    inputs = padded([pair.target[:-1] for pair in pairs], pad).to(translator.device)
    model = translator.model
    keep = model.keep(source)
    cache = model.new_cache()
    cache.layers[layer].keeps_attention = True
    model.decode(inputs, model.encode(source, keep), keep, cache=cache)
    attention = cache.layers[layer].memory_attention
    assert attention is not None, "a translator has cross-attention"
    return [np.asarray(rows, np.float32) for rows in attention.float().cpu()]


class _Side:
    """The texts of one side with their units, and which unit each piece is in."""

    def __init__(self, texts: Sequence[str], tokenizer: AnyTokenizer, kind: Unit) -> None:
        self.texts = [mend_controls(text) for text in texts]
        self.spans = [units(text, kind) for text in self.texts]
        self.owners = [
            owners(pieces, spans, len(text))
            for text, spans, pieces in zip(
                self.texts, self.spans, tokenizer.spans(self.texts), strict=True
            )
        ]

    def units(self, place: int) -> tuple[str, ...]:
        return tuple(self.texts[place][start:end] for start, end in self.spans[place])

    def membership(self, place: int) -> NDArray[np.float32]:
        """[pieces, units], 1 where the piece is in the unit."""
        owned = np.array(self.owners[place])[:, None]
        member: NDArray[np.bool_] = owned == np.arange(len(self.spans[place]))
        return member.astype(np.float32)


def _by_unit(
    rows: NDArray[np.float32], source: _Side, target: _Side, place: int, before: int
) -> Alignment:
    """From attention between pieces [T, S] (special tokens and tags around) to that of units.

    Args:
        before: tokens before the source's text.
    """
    to_source, to_target = source.membership(place), target.membership(place)
    sizes = np.maximum(to_target.sum(0), 1)[:, None]
    texts = rows[:, before : before + len(to_source)]
    weights = to_target.T @ texts @ to_source / sizes  # [target units, source units]
    elsewhere = (to_target.T @ rows.sum(1)) / sizes[:, 0] - weights.sum(1)
    # A unit without a piece (the tokenizer dropped its characters) has looked at nothing.
    links = [
        (int(weights[unit].argmax()), unit)
        for unit in range(len(weights))
        if weights[unit].max() > 0
    ]
    return Alignment(
        tuple(sorted(links)),
        source.units(place),
        target.units(place),
        tuple(map(tuple, weights.tolist())),
        tuple(np.maximum(elsewhere, 0).tolist()),
    )

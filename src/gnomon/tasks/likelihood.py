"""How probable a model finds given translations, by teacher forcing."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from gnomon.decoding import Combination, combined
from gnomon.errors import DataError
from gnomon.model import Projection, Transformer
from gnomon.tasks.progress import Progress, silent
from gnomon.tasks.rows import batches, longest_first, padded
from gnomon.tasks.tags import Tags, tags_of_each
from gnomon.text import mend_controls

if TYPE_CHECKING:
    from gnomon.tasks.translator import Translator

LONGEST_PAIR = 8192
"""Tokens of both sides of the longest pair that is read, if the model was not trained on longer.

Attention's memory grows with the square of a length: a line of a megabyte would end the process.
"""


def predict(model: Transformer, source: Tensor, inputs: Tensor, keep: Tensor) -> Tensor:
    """Teacher-forced logits [M, V] at the M kept positions; see `outputs`."""
    return outputs(model, source, inputs, keep).logits()


def outputs(model: Transformer, source: Tensor, inputs: Tensor, keep: Tensor) -> Projection:
    """What these logits are the product of; positions that are not kept cost no projection.

    Args:
        source: int64 [B, S], padded on the right.
        inputs: int64 [B, T], target ids shifted right.
        keep: bool [B, T], True where there is a token to predict.
    """
    source_keep = model.keep(source)
    memory = model.encode(source, source_keep)
    hidden = model.decode(inputs, memory, source_keep, needed=keep)
    return model.projection(hidden[keep])


class Pair(NamedTuple):
    """The ids of a source with EOS, and of its target between BOS and EOS."""

    source: list[int]
    target: list[int]

    @property
    def length(self) -> int:
        """Tokens of both sides, what a batch's budget is counted in."""
        return len(self.source) + len(self.target)

    def problem(self, translator: Translator, reach: int | None) -> str | None:
        """Why the model does not read it, or None: a pair is read whole or not at all.

        Args:
            reach: the positions that are there; the decoder never reads EOS.
        """
        sizes = f"{len(self.source)} source and {len(self.target) - 1} target tokens"
        if reach is not None and (len(self.source) > reach or len(self.target) > reach + 1):
            return f"{sizes} lie outside the {reach} positions of the model"
        trained = (translator.longest_source or 0) + (translator.longest_target or 0)
        if self.length - 1 > (limit := max(LONGEST_PAIR, trained)):
            return f"{sizes} are more than the {limit} that are read at once"
        return None

    def beyond_training(self, translator: Translator) -> bool | None:
        """Whether a side is longer than any the model was trained on; None: not known."""
        sides = (
            (len(self.source), translator.longest_source),
            (len(self.target) - 1, translator.longest_target),
        )
        known = [length > longest for length, longest in sides if longest is not None]
        return any(known) if known else None


def encoded_pairs(
    translator: Translator,
    sources: Sequence[str],
    targets: Sequence[str],
    tags: Tags = (),
    *,
    cut: bool = False,
) -> list[Pair]:
    """The ids that the model reads and predicts for each pair of texts.

    Args:
        cut: of sources that are longer than any it was trained on it reads the beginning.

    Raises:
        DataError: not as many sources as targets, or an unknown tag.
    """
    if len(sources) != len(targets):
        raise DataError(
            "sources and targets belong together, one for one",
            seen=f"{len(sources)} sources, {len(targets)} targets",
            mend="give as many of the one as of the other",
        )
    every = tags_of_each(tags, len(sources))
    read = translator.tokenizers.encode_sources([mend_controls(text) for text in sources], every)
    both = zip(
        translator.cut(read) if cut else read,
        translator.tokenizers.target.encode([mend_controls(text) for text in targets]),
        strict=True,
    )
    ids = translator.ids
    return [Pair(ids.source(source), ids.target(target)) for source, target in both]


@torch.no_grad()
def pair_losses(
    translator: Translator, pairs: Sequence[Pair], batch_tokens: int, progress: Progress = silent
) -> Iterator[tuple[list[int], Tensor, Tensor]]:
    """Teacher-force all pairs, longest first, and give −log p of every target token.

    Yields:
        The places of a batch's pairs, how many tokens each predicts (EOS counted) int64 [B], and
        the losses fp32 [M] of these tokens in nats, pair after pair.
    """
    lengths = [pair.length for pair in pairs]
    order = longest_first(range(len(pairs)), lengths)
    pad = translator.ids.pad
    were_training = [model.training for model in translator.models]
    for model in translator.models:
        model.eval()
    try:
        for batch in batches(order, lengths, batch_tokens):
            source = padded([pairs[place].source for place in batch], pad).to(translator.device)
            target = padded([pairs[place].target for place in batch], pad).to(translator.device)
            inputs, labels = target[:, :-1], target[:, 1:]
            counts = torch.tensor([len(pairs[place].target) - 1 for place in batch])
            keep = torch.arange(labels.shape[1]) < counts[:, None]
            keep = keep.to(translator.device)
            logits = [predict(model, source, inputs, keep) for model in translator.models]
            yield batch, keep.sum(1), _losses(logits, labels[keep], translator.combination)
            progress(len(batch))
    finally:
        for model, was_training in zip(translator.models, were_training, strict=True):
            model.train(was_training)


def _losses(logits: Sequence[Tensor], labels: Tensor, combination: Combination) -> Tensor:
    """−log p fp32 [M] of the labels [M] by one model's logits [M, V], or several models'."""
    if len(logits) == 1:
        return torch.nn.functional.cross_entropy(logits[0].float(), labels, reduction="none")
    log_probs = combined([each.float().log_softmax(-1) for each in logits], combination)
    return -log_probs.gather(1, labels.unsqueeze(1)).squeeze(1)


def summed_nll(
    translator: Translator,
    sources: Sequence[str],
    references: Sequence[str],
    batch_tokens: int,
    *,
    tags: Tags = (),
    progress: Progress = silent,
) -> tuple[float, int]:
    """Sum of −log p over the references' tokens (EOS counted) in nats, and how many those are.

    A pair with a blank source is left out, since such a line is never given to the model; so is one
    that is too long for the model, since there is no probability to be had, with a warning. Tags
    are given as to `Translator.translate`.
    """
    reach = translator.reach
    pairs, problems = [], []
    # As `Translator.translate` reads them.
    every = encoded_pairs(translator, sources, references, tags, cut=translator.cuts_sources)
    for number, (text, pair) in enumerate(zip(sources, every, strict=True), 1):
        if not mend_controls(text).strip():
            continue
        if (problem := pair.problem(translator, reach)) is not None:
            problems.append(f"line {number}: {problem}")
        else:
            pairs.append(pair)
    if problems:
        warnings.warn(
            f"the loss and perplexity are without {len(problems):,} of {len(sources):,} pairs, "
            f"which are too long for the model; {problems[0]}",
            stacklevel=2,
        )
    progress(len(sources) - len(pairs))
    total, num_tokens = 0.0, 0
    for _, counts, losses in pair_losses(translator, pairs, batch_tokens, progress):
        total += float(losses.double().sum())
        num_tokens += int(counts.sum())
    return total, num_tokens

"""How probable a model finds each of some given translations: `gnomon score`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from gnomon.errors import ModelError
from gnomon.tasks.likelihood import encoded_pairs, pair_losses
from gnomon.tasks.progress import Progress, silent
from gnomon.tasks.tags import Tags
from gnomon.text import mend_controls

if TYPE_CHECKING:
    from gnomon.tasks.translator import Translator


@dataclass(frozen=True, slots=True)
class PairScore:
    """The probability of one target text given its source.

    Attributes:
        log_prob: natural logarithm of the target's probability, EOS included; the `log_prob` that
            the search reports when it finds these same tokens. None where there is none: `reason`.
        num_tokens: tokens of the target, EOS included.
        mean: log_prob / num_tokens; None without tokens.
        perplexity: exp(-mean); None without tokens.
        token_log_probs: natural logarithm of each token's probability given those before it.
        pieces: the written form of each token.
        reason: why there is no probability; None where there is one.
        beyond_training: a side is longer than any the model was trained on, so the probability says
            little; None where that is not known.
    """

    log_prob: float | None
    num_tokens: int
    mean: float | None = None
    perplexity: float | None = None
    token_log_probs: tuple[float, ...] = ()
    pieces: tuple[str, ...] = ()
    reason: str | None = None
    beyond_training: bool | None = None


def score_pairs(
    translator: Translator,
    sources: Sequence[str],
    targets: Sequence[str],
    batch_tokens: int,
    tags: Tags = (),
    progress: Progress = silent,
) -> list[PairScore]:
    """Score each pair; see `Translator.score`."""
    pairs = encoded_pairs(translator, sources, targets, tags)
    reach = translator.reach
    results: dict[int, PairScore] = {}
    scored = []
    for place, (source, target, pair) in enumerate(zip(sources, targets, pairs, strict=True)):
        if not mend_controls(source).strip():
            # A blank line is never given to the model: it is translated by a blank line, always.
            results[place] = (
                PairScore(None, 0, reason="the source is blank and the target is not")
                if mend_controls(target).strip()
                else PairScore(0.0, 0)
            )
        elif (problem := pair.problem(translator, reach)) is not None:
            beyond = pair.beyond_training(translator)
            num_tokens = len(pair.target) - 1
            results[place] = PairScore(None, num_tokens, reason=problem, beyond_training=beyond)
        else:
            scored.append(place)
    progress(len(results))
    chosen = [pairs[place] for place in scored]
    tokenizer = translator.tokenizers.target
    for batch, counts, losses in pair_losses(translator, chosen, batch_tokens, progress):
        rows = torch.split(losses, counts.tolist())
        for index, row in zip(batch, rows, strict=True):
            log_probs = tuple((-row.double()).tolist())
            pieces = tuple(tokenizer.pieces(chosen[index].target[1:]))
            beyond = chosen[index].beyond_training(translator)
            results[scored[index]] = _score(log_probs, pieces, beyond)
    return [results[place] for place in range(len(pairs))]


def _score(log_probs: tuple[float, ...], pieces: tuple[str, ...], beyond: bool | None) -> PairScore:
    log_prob = math.fsum(log_probs)
    if not math.isfinite(log_prob):
        raise ModelError(
            "a model gives every token a finite log-probability",
            seen=log_prob,
            mend="look for NaN in the weights; a checkpoint from before the training diverged "
            "will score",
        )
    mean = log_prob / len(log_probs)
    perplexity = math.exp(min(-mean, 700.0))  # beyond it a float ends; nothing is that improbable
    return PairScore(
        log_prob, len(log_probs), mean, perplexity, log_probs, pieces, beyond_training=beyond
    )

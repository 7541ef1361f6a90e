"""How probable a language model finds texts: token by token, and by the place of a token."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gnomon.errors import ModelError, RecipeError
from gnomon.tasks.progress import Progress, silent
from gnomon.tasks.rows import batches, longest_first, padded

if TYPE_CHECKING:
    from gnomon.tasks.language_model import LanguageModel

_LOGITS = 1 << 24  # numbers of logits held at once


@dataclass(frozen=True, slots=True)
class TextScore:
    """The probability of one text.

    Attributes:
        log_prob: natural logarithm of the text's probability, its end included.
        num_tokens: tokens of the text, its end included.
        mean: log_prob / num_tokens.
        perplexity: exp(-mean).
        token_log_probs: natural logarithm of each token's probability given those before it.
        pieces: the written form of each token.
        beyond_training: more tokens were in view than in training, so the probability may say
            little; None where that is not known.
    """

    log_prob: float
    num_tokens: int
    mean: float
    perplexity: float
    token_log_probs: tuple[float, ...]
    pieces: tuple[str, ...]
    beyond_training: bool | None


@dataclass(frozen=True, slots=True)
class _Window:
    """A part of a text that is read at once: its tokens, and from where on they count."""

    text: int
    start: int
    stop: int
    counted: int


def score_texts(
    model: LanguageModel,
    texts: Sequence[str],
    length: int | None,
    batch_tokens: int,
    progress: Progress = silent,
) -> list[TextScore]:
    """See `LanguageModel.score`."""
    length = _in_view(model, length)
    rows = encoded(model, texts)
    windows = [
        window for number, row in enumerate(rows) for window in _overlapping(number, row, length)
    ]
    found: list[list[float]] = [[0.0] * (len(row) - 1) for row in rows]
    left = [0] * len(rows)
    for window in windows:
        left[window.text] += 1
    for window, losses in _losses(model, rows, windows, batch_tokens):
        counted = losses[window.counted - window.start :]
        found[window.text][window.counted : window.stop] = (-counted).tolist()
        left[window.text] -= 1
        if not left[window.text]:
            progress(1)
    return [
        _score(model, row, log_probs, length) for row, log_probs in zip(rows, found, strict=True)
    ]


def losses_by_position(
    model: LanguageModel,
    rows: Iterator[Sequence[int]],
    length: int,
    batch_tokens: int,
    progress: Progress = silent,
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Sums of −log p in nats, and how many tokens these are, by place in view, each [length].

    A text is cut into windows of `length` tokens, the first of which have little before them: the
    token at place p is judged by the p + 1 tokens before it in its window.

    Args:
        rows: ids of texts with what begins and ends them.
    """
    length = _in_view(model, length) or length
    sums, counts = np.zeros(length), np.zeros(length, np.int64)
    for row in rows:
        windows = [
            _Window(0, start, min(start + length, len(row) - 1), start)
            for start in range(0, len(row) - 1, length)
        ]
        for window, losses in _losses(model, [row], windows, batch_tokens):
            size = window.stop - window.start
            sums[:size] += losses.double().numpy()
            counts[:size] += 1
        progress(1)
    return sums, counts


def encoded(model: LanguageModel, texts: Sequence[str]) -> list[list[int]]:
    """Ids of texts with what begins and ends them."""
    vocabulary = model.vocabulary
    return [
        [vocabulary.begin_id, *row, vocabulary.end_id] for row in vocabulary.encode(list(texts))
    ]


def _in_view(model: LanguageModel, length: int | None) -> int | None:
    reach = model.reach
    if length is None:
        return reach
    if length < 2 or (reach is not None and length > reach):
        raise RecipeError(
            "the tokens in view must be 2 or more, and not more than the model's positions reach",
            seen=f"{length}" + ("" if reach is None else f", positions for {reach}"),
        )
    return length


def _overlapping(number: int, row: Sequence[int], length: int | None) -> Iterator[_Window]:
    """Windows over a text, each from the middle of the one before."""
    last = len(row) - 1
    if length is None or last <= length:
        yield _Window(number, 0, last, 0)
        return
    done = 0
    for start in range(0, last, max(1, length // 2)):
        stop = min(start + length, last)
        yield _Window(number, start, stop, done)
        done = stop
        if stop == last:
            return


@torch.no_grad()
def _losses(
    model: LanguageModel,
    rows: Sequence[Sequence[int]],
    windows: Sequence[_Window],
    batch_tokens: int,
) -> Iterator[tuple[_Window, Tensor]]:
    """−log p fp32 of every token of each window, on the CPU; longest windows first."""
    if batch_tokens < 1:
        raise RecipeError("batch_tokens must be at least 1", seen=batch_tokens)
    network = model.model
    lengths = [window.stop - window.start for window in windows]
    was_training = network.training
    network.eval()
    try:
        for places in batches(longest_first(range(len(windows)), lengths), lengths, batch_tokens):
            own = [windows[place] for place in places]
            table = padded([rows[each.text][each.start : each.stop + 1] for each in own])
            table = table.to(model.device)
            hidden = network.decode(table[:, :-1])  # padding stands behind: nobody looks there
            labels = table[:, 1:]
            for place, window in enumerate(own):
                size = window.stop - window.start
                yield window, _of_row(model, hidden[place, :size], labels[place, :size])
    finally:
        network.train(was_training)


def _of_row(model: LanguageModel, hidden: Tensor, labels: Tensor) -> Tensor:
    """−log p of the labels [T], few logits at a time."""
    step = max(1, _LOGITS // model.model.config.output_vocab_size())
    parts = []
    for start in range(0, len(labels), step):
        logits = model.model.project(hidden[start : start + step]).float()
        own = labels[start : start + step]
        parts.append(torch.nn.functional.cross_entropy(logits, own, reduction="none"))
    return torch.cat(parts).cpu()


def _score(
    model: LanguageModel, row: Sequence[int], log_probs: list[float], length: int | None
) -> TextScore:
    total = math.fsum(log_probs)
    if not math.isfinite(total):
        raise ModelError(
            "a model gives every token a finite log-probability",
            seen=total,
            mend="look for NaN in the weights; a checkpoint from before the training diverged "
            "will score",
        )
    mean = total / len(log_probs)
    in_view = len(log_probs) if length is None else min(length, len(log_probs))
    return TextScore(
        total,
        len(log_probs),
        mean,
        math.exp(min(-mean, 700.0)),
        tuple(log_probs),
        tuple(model.vocabulary.pieces(row[1:])),
        None if model.context is None else in_view > model.context,
    )

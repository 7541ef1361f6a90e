"""How probable a language model finds texts: token by token, and by the place of a token."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
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

MOST_IN_VIEW = 1 << 24  # tokens, where positions have no end: as rows of training, `data.context`
_LOGITS = 1 << 24  # numbers of logits held at once
_CHARACTERS = 1 << 20  # of documents encoded at once


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
    length = in_view(model, length)
    rows = encoded(model, texts)
    windows = [
        window
        for number, row in enumerate(rows)
        for window in _windows(number, row, length, None if length is None else length // 2)
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


@dataclass(frozen=True)
class PositionLosses:
    """What was lost on a text, by how many tokens stood before in view.

    Attributes:
        sums: fp64 [length], −log p in nats at each place.
        counts: int64 [length], tokens there.
        documents: how many documents there were.
        characters: of the text.
        bytes: the same in UTF-8.
    """

    sums: NDArray[np.float64]
    counts: NDArray[np.int64]
    documents: int
    characters: int
    bytes: int


def losses_by_position(
    model: LanguageModel,
    texts: Iterable[str],
    length: int,
    stride: int,
    batch_tokens: int,
    progress: Progress = silent,
) -> PositionLosses:
    """Judge every token of some documents once, and its document's end.

    A document is read in windows of `length` tokens, `stride` apart; of each what is new in it
    counts. The token at place p of its window is judged by the p + 1 tokens before it there.

    Raises:
        RecipeError: no such length or stride.
    """
    in_view(model, length)
    if not 1 <= stride <= length:
        raise RecipeError(
            "windows must not leave tokens out: a stride is 1 or more, and not more than a window",
            seen=f"stride {stride}, length {length}",
        )
    sums, counts = np.zeros(length), np.zeros(length, np.int64)
    documents = characters = num_bytes = 0
    for part in _chunks(texts):
        rows = encoded(model, part)
        windows = [
            window
            for number, row in enumerate(rows)
            for window in _windows(number, row, length, stride)
        ]
        for window, losses in _losses(model, rows, windows, batch_tokens):
            places = slice(window.counted - window.start, window.stop - window.start)
            sums[places] += losses[places].double().numpy()
            counts[places] += 1
        documents += len(part)
        characters += sum(map(len, part))
        num_bytes += sum(len(text.encode("utf-8")) for text in part)
        progress(len(part))
    return PositionLosses(sums, counts, documents, characters, num_bytes)


def _chunks(texts: Iterable[str]) -> Iterator[list[str]]:
    part: list[str] = []
    size = 0
    for text in texts:
        part.append(text)
        size += len(text)
        if size >= _CHARACTERS:
            yield part
            part, size = [], 0
    if part:
        yield part


def encoded(model: LanguageModel, texts: Sequence[str]) -> list[list[int]]:
    """Ids of texts with what begins and ends them."""
    vocabulary = model.vocabulary
    return [
        [vocabulary.begin_id, *row, vocabulary.end_id] for row in vocabulary.encode(list(texts))
    ]


def in_view(model: LanguageModel, length: int | None) -> int | None:
    """Tokens to be in view at once: as many as asked for, or else as the positions reach.

    Raises:
        RecipeError: the positions do not reach so far.
    """
    reach = model.reach
    if length is None:
        return reach
    most = MOST_IN_VIEW if reach is None else reach
    if not 2 <= length <= most:
        raise RecipeError(
            "the tokens in view must be 2 or more, and not more than the model's positions reach",
            seen=f"{length:,}, "
            + (f"at most {most:,}" if reach is None else f"positions for {reach:,}"),
        )
    return length


def _windows(
    number: int, row: Sequence[int], length: int | None, stride: int | None
) -> Iterator[_Window]:
    """Windows over a text, `stride` tokens apart; None: the whole."""
    last = len(row) - 1
    if length is None or stride is None or last <= length:
        yield _Window(number, 0, last, 0)
        return
    done = 0
    for start in range(0, last, stride):
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
            # Padding stands behind: nobody looks there, but each text turns by its own length.
            keep = None
            if network.config.turns_by_length():
                sizes = torch.tensor([lengths[place] for place in places], device=model.device)
                keep = torch.arange(table.shape[1] - 1, device=model.device) < sizes[:, None]
            hidden = network.decode(table[:, :-1], keep=keep)
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
    viewed = len(log_probs) if length is None else min(length, len(log_probs))
    return TextScore(
        total,
        len(log_probs),
        mean,
        math.exp(min(-mean, 700.0)),
        tuple(log_probs),
        tuple(model.vocabulary.pieces(row[1:])),
        None if model.context is None else viewed > model.context,
    )

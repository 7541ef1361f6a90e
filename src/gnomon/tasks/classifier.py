"""Texts to labels: what `gnomon.load` gives for a classifier."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gnomon.errors import RecipeError
from gnomon.evaluation.labels import Decisions
from gnomon.model import ClassifierNetwork
from gnomon.tasks.finite import check_finite
from gnomon.tasks.label_rows import NO_LABEL, LabelRow, RowMaker, collate
from gnomon.tasks.progress import Progress, silent
from gnomon.tasks.rows import batches, longest_first
from gnomon.text.framing import Framing, check_pairs
from gnomon.text.labelled import LabelKind, Labelled, one_line


@dataclass(frozen=True, slots=True)
class Classification:
    """What was found of one text.

    Attributes:
        labels: the label; or those that hold; or one for each word.
        confidence: the probability of each of `labels`.
        probabilities: of every label there is, in the classifier's order; None of words.
        cut: tokens at the text's end that were not read, as it is longer than the classifier reads.
    """

    labels: tuple[str, ...]
    confidence: tuple[float, ...]
    probabilities: tuple[float, ...] | None
    cut: int = 0


class Classifier:
    """A network with its vocabulary and labels.

    The result of a text does not depend on the texts given with it, but for rounding.

    Args:
        network: gives logits.
        framing: its vocabulary.
        labels: their names, in the order of the network's outputs.
        kind: whether a text has one label, several, or one for each word.
        max_length: the longest row in tokens, special ones included; None: any.
        takes_pairs: whether it judges two texts at a time.
        threshold: of several labels, those whose probability is at least this hold.
        label_counts: how often each label stood in the training text, if that is known.
    """

    def __init__(
        self,
        network: ClassifierNetwork,
        framing: Framing,
        labels: Sequence[str],
        *,
        kind: LabelKind = "single",
        max_length: int | None = None,
        takes_pairs: bool = False,
        threshold: float = 0.5,
        label_counts: Sequence[int] | None = None,
    ) -> None:
        self.network = network
        self.framing = framing
        self.labels = tuple(labels)
        self.kind = kind
        self.max_length = max_length
        self.takes_pairs = takes_pairs
        self.threshold = threshold
        self.label_counts = None if label_counts is None else tuple(label_counts)

    @property
    def device(self) -> torch.device:
        """Where the network's parameters are."""
        return next(self.network.parameters()).device

    @property
    def row_maker(self) -> RowMaker:
        """What makes rows of texts."""
        return RowMaker(self.framing, self.labels, self.kind, self.max_length)

    def classify(
        self,
        texts: Sequence[str],
        pairs: Sequence[str] | None = None,
        *,
        threshold: float | None = None,
        batch_tokens: int = 4096,
        progress: Progress = silent,
    ) -> list[Classification]:
        """The labels of each text, one for one, in the order of `texts`.

        An empty text is judged by its special tokens alone (by padding where its vocabulary sets
        none); where words are labelled it has none.

        Args:
            pairs: second texts, for a classifier of pairs.
            threshold: other than the classifier's own.
            batch_tokens: padded tokens at once: memory and speed, not results.
            progress: is told how many more texts are done, now and then.

        Raises:
            DataError: not as many second texts as first ones.
            ModelError: the weights are broken, so that there is no result.
            RecipeError: second texts for a classifier of single ones or the other way round, or a
                threshold that has no effect.
        """
        if isinstance(texts, str):
            raise RecipeError("texts is a list of texts", seen="one str", mend="give [text]")
        if batch_tokens < 1:
            raise RecipeError("batch_tokens must be at least 1", seen=batch_tokens)
        if threshold is not None and (self.kind != "multi" or not 0 < threshold < 1):
            raise RecipeError(
                "a threshold, between 0 and 1, is for classifiers that give several labels",
                seen=f"threshold {threshold} for labels_are = {self.kind!r}",
            )
        if (pairs is not None) != self.takes_pairs:
            raise RecipeError(
                "a classifier of pairs needs a second text, one of single texts takes none",
                seen="no second texts" if pairs is None else "second texts",
            )
        if pairs is not None:
            check_pairs(texts, pairs)
        seconds = [None] * len(texts) if pairs is None else [one_line(pair) for pair in pairs]
        flat = [
            " ".join(text.split()) if self.kind == "words" else one_line(text) for text in texts
        ]
        examples = [
            Labelled(number, text, second, ())
            for number, (text, second) in enumerate(zip(flat, seconds, strict=True), start=1)
        ]
        rows = self.row_maker.rows(examples)
        logits = self.logits(rows, batch_tokens, progress, len(texts))
        check_finite(logits, "logits")
        if self.kind == "words":
            return self._of_words(rows, logits, len(texts))
        limit = self.threshold if threshold is None else threshold
        return [self._of_text(row, found, limit) for row, found in zip(rows, logits, strict=True)]

    def logits(
        self,
        rows: Sequence[LabelRow],
        batch_tokens: int,
        progress: Progress = silent,
        num_texts: int | None = None,
    ) -> list[NDArray[np.float32]]:
        """Of each row the logits [num_labels], or [S, num_labels] where words are labelled."""
        lengths = [len(row.ids) for row in rows]
        found: list[NDArray[np.float32] | None] = [None] * len(rows)
        was_training = self.network.training
        self.network.eval()
        done = 0
        try:
            for places in batches(longest_first(range(len(rows)), lengths), lengths, batch_tokens):
                for place, values in zip(places, self._forward(rows, places), strict=True):
                    found[place] = values
                done += len(places)
                if num_texts is not None:
                    told = done * num_texts // len(rows)
                    progress(told - (done - len(places)) * num_texts // len(rows))
        finally:
            self.network.train(was_training)
        return [each for each in found if each is not None]

    @torch.no_grad()
    def _forward(
        self, rows: Sequence[LabelRow], places: Sequence[int]
    ) -> Iterator[NDArray[np.float32]]:
        batch = collate(rows, places, self.framing.pad_id).to(self.device)
        logits = self.network(batch.ids, batch.keep, batch.segments).float().cpu().numpy()
        for place, values in zip(places, logits, strict=True):
            yield values[: len(rows[place].ids)] if self.kind == "words" else values

    def _of_text(
        self, row: LabelRow, logits: NDArray[np.float32], threshold: float
    ) -> Classification:
        probabilities = self.probabilities(logits)
        if self.kind == "multi":
            chosen = np.flatnonzero(probabilities >= threshold).tolist()
        else:
            chosen = [int(probabilities.argmax())]
        return Classification(
            labels=tuple(self.labels[index] for index in chosen),
            confidence=tuple(float(probabilities[index]) for index in chosen),
            probabilities=tuple(probabilities.tolist()),
            cut=row.cut,
        )

    def _of_words(
        self, rows: Sequence[LabelRow], logits: Sequence[NDArray[np.float32]], num_texts: int
    ) -> list[Classification]:
        labels: list[list[str]] = [[] for _ in range(num_texts)]
        confidence: list[list[float]] = [[] for _ in range(num_texts)]
        for row, values in zip(rows, logits, strict=True):
            marks = np.asarray(row.labels) != NO_LABEL
            probabilities = self.probabilities(values[marks])
            labels[row.text] += [self.labels[index] for index in probabilities.argmax(axis=-1)]
            confidence[row.text] += probabilities.max(axis=-1, initial=0.0).tolist()
        return [
            Classification(tuple(some), tuple(sure), None)
            for some, sure in zip(labels, confidence, strict=True)
        ]

    def probabilities(self, logits: NDArray[np.float32]) -> NDArray[np.float64]:
        """Of each label, [..., num_labels]: together 1, or of several labels each by itself."""
        values = logits.astype(np.float64)
        if self.kind == "multi":
            return 1 / (1 + np.exp(-values))
        values = np.exp(values - values.max(axis=-1, keepdims=True))
        shares: NDArray[np.float64] = values / values.sum(axis=-1, keepdims=True)
        return shares

    def decisions(
        self,
        rows: Sequence[LabelRow],
        logits: Sequence[NDArray[np.float32]],
        num_texts: int,
        threshold: float | None = None,
    ) -> Decisions:
        """What the logits of rows that have labels decide, to be measured."""
        limit = self.threshold if threshold is None else threshold
        gold, chosen, sure, owners, subjects = [], [], [], [], []
        for row, values in zip(rows, logits, strict=True):
            known = np.asarray(row.labels, np.int64)
            if self.kind == "words":
                values, known = values[known != NO_LABEL], known[known != NO_LABEL]
            elif self.kind == "single":
                values = values[None]
            probabilities = self.probabilities(values)
            if self.kind == "multi":
                holds = (probabilities >= limit).astype(np.int64)
                picked, certain = holds, np.where(holds == 1, probabilities, 1 - probabilities)
                subjects.append(np.arange(len(self.labels)))
            else:
                picked = probabilities.argmax(axis=-1)
                certain = probabilities.max(axis=-1, initial=0.0)
            gold.append(known)
            chosen.append(picked)
            sure.append(certain)
            owners.append(np.full(len(known), row.text, np.int64))
        return Decisions(
            gold=_joined(gold, np.int64),
            chosen=_joined(chosen, np.int64),
            confidence=_joined(sure, np.float64),
            owners=_joined(owners, np.int64),
            num_labels=len(self.labels),
            num_texts=num_texts,
            subjects=_joined(subjects, np.int64) if self.kind == "multi" else None,
        )


def _joined(parts: Sequence[NDArray[Any]], dtype: type) -> NDArray[Any]:
    return np.concatenate(parts).astype(dtype) if parts else np.zeros(0, dtype)

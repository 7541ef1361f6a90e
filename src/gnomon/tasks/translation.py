"""Translation as a training task: batches, teacher-forced logits, validation, the model folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from gnomon.decoding import SearchConfig
from gnomon.evaluation import EvaluationConfig, translation_scores
from gnomon.model import Projection, Transformer
from gnomon.model.flops import TextLengths
from gnomon.tasks.folder import load_weights, save_translator
from gnomon.tasks.likelihood import outputs, summed_nll
from gnomon.tasks.preparation import Preparation
from gnomon.tasks.translator import Translator
from gnomon.text import Batch, Tokenizer, TokenStore, collate
from gnomon.text.epochs import Epochs, LazySequence
from gnomon.text.marked import Marked
from gnomon.text.weights import Group, Weights


class Validated(NamedTuple):
    """Some lines of the validation text and their translations."""

    sources: list[str]
    tags: list[tuple[str, ...]]
    references: list[str]
    hypotheses: list[str]


class TranslationTask:
    """Trains an encoder-decoder on prepared parallel text (see `training.task.Task`).

    Args:
        model: the network, with its first weights.
        preparation: corpora, tokenizers and token stores.
        tokens_per_batch: padded source + target tokens of a micro-batch.
        seed: decides the order of the batches.
        search: how validation and the saved model translate.
        evaluation: what validation measures.
    """

    pad_id = Tokenizer.pad_id
    unit = "target tok"
    class_weights = None

    def __init__(
        self,
        model: Transformer,
        preparation: Preparation,
        *,
        tokens_per_batch: int,
        seed: int,
        search: SearchConfig,
        evaluation: EvaluationConfig,
    ) -> None:
        self.model = model
        self.preparation = preparation
        self.evaluation = evaluation
        self.store = preparation.train
        self.tokens_per_batch = tokens_per_batch
        self.seed = seed
        # What the last validation translated, and how: for monitors.
        self.validated: Validated | None = None
        self._opened = (0, self.store)  # number and view of the variant used last
        weights = Weights.of(list(self._groups()), seed)
        self._epochs = Epochs(weights, tokens_per_batch, seed)
        self.translator = Translator(
            model,
            preparation.tokenizers,
            search,
            familiarity=preparation.familiarity,
            longest_source=self.store.source_lengths.max(),
            longest_target=self.store.target_lengths.max(),
            tag_sets=preparation.corpora.train.tag_sets,
            cuts_sources=preparation.cuts_sources,
        )

    def _groups(self) -> Iterator[Group]:
        """Examples that are seen equally often, each group with its weights."""
        corpora = self.preparation.corpora
        stops = [part.stop for part in corpora.train.parts]
        bounds = np.searchsorted(self.store.line_numbers, stops, side="right").tolist()
        for part, start, stop in zip(corpora.train.parts, [0, *bounds], bounds, strict=False):
            weight = part.text.config.weight
            singles = self.store.single_words
            if singles is None or part.text is corpora.terms:
                yield (weight,), range(start, stop)
            else:
                factor = self.preparation.augmentation.single_words
                yield (weight,), Marked(singles, False, start, stop)
                yield (weight, factor), Marked(singles, True, start, stop)

    def epoch(self, number: int) -> Sequence[list[NDArray[np.int64]]]:
        """The epoch's batches, part by part: numbers of examples, `variant · num_pairs + pair`.

        Epoch e sees every pair in variant e mod `num_variants`. Variants of a pair are drawn
        independently, so to choose one for each pair would mix no better; and an epoch that stays
        with one reads only that part of the store. Sources with a weight are seen more or less
        often, as are single words: see `Weights`.
        """
        variant = number % self.store.num_variants
        store = self._variant(variant)
        parts = self._epochs.epoch(number, store.source_lengths, store.target_lengths)
        first = variant * len(store)

        def plan(part: int) -> list[NDArray[np.int64]]:
            batches = [pairs + first for pairs in parts[part]]
            store.release()
            return batches

        return LazySequence(len(parts), plan)

    def collate(self, spec: NDArray[np.int64]) -> Batch:
        """The examples of one batch as padded tensors."""
        variant = int(spec[0]) // len(self.store)
        batch = collate(self._variant(variant), np.asarray(spec) - variant * len(self.store))
        self.store.release()
        return batch

    def _variant(self, number: int) -> TokenStore:
        if self._opened[0] != number:
            self._opened = (number, self.store.variant(number))
        return self._opened[1]

    def lengths(self, spec: NDArray[np.int64]) -> TextLengths:
        """See `Task`; a target's begin and end are fed and predicted at one place each."""
        variant = int(spec[0]) // len(self.store)
        store, rows = self._variant(variant), np.asarray(spec) - variant * len(self.store)
        return TextLengths(store.source_lengths[rows], store.target_lengths[rows] - 1)

    def target(self, batch: Batch) -> Tensor:
        """[B, T+1]: BOS, tokens, EOS, padding."""
        return batch.target

    def outputs(self, batch: Batch, inputs: Tensor, keep: Tensor) -> Projection:
        """See `Task`."""
        return outputs(self.model, batch.source, inputs, keep)

    def predict(self, batch: Batch, inputs: Tensor, keep: Tensor) -> Tensor:
        """Teacher-forced logits [M, V] at the kept positions."""
        return self.outputs(batch, inputs, keep).logits()

    def describe(self, batch: Batch) -> str:
        """The files and line numbers of a batch."""
        corpus, lines = self.preparation.corpora.train, sorted(batch.line_numbers)
        if len(corpus.parts) > 1:
            return corpus.places(lines)
        return f"{corpus.parts[0].text}, {corpus.places(lines)}"

    def validate(self, step: int) -> dict[str, float]:
        """Loss over the validation set; scores of its first lines, by the path users take."""
        corpus = self.preparation.corpora.valid
        assert corpus is not None, "whoever asks for validation has validation pairs"
        pairs = list(corpus.pairs())
        sources, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
        tags = [pair.tags for pair in pairs]
        budget = self.tokens_per_batch
        nll, num_tokens = summed_nll(self.translator, sources, references, budget, tags=tags)
        metrics = {"nll": nll / max(1, num_tokens)}
        if count := min(self.evaluation.validation_lines, len(sources)):
            found = self.translator.translate(
                sources[:count], tags=tags[:count], batch_tokens=budget
            )
            hypotheses = [translation.text for translation in found]
            self.validated = Validated(
                sources[:count], tags[:count], references[:count], hypotheses
            )
            scores = translation_scores(hypotheses, references[:count], self.evaluation)
            metrics |= {score.name: score.value for score in scores}
        return metrics

    def save(self, folder: Path) -> None:
        """Write a model folder that `gnomon.load` reads."""
        save_translator(self.translator, folder)

    def load(self, folder: Path) -> None:
        """Take back the weights that `save` wrote."""
        load_weights(self.model, folder)

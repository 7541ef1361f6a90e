"""A language model is asked for what a document said far before (a needle in a haystack)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random

import torch

from gnomon.errors import DataError, ModelError, RecipeError
from gnomon.evaluation.retrieval import Retrieval
from gnomon.tasks.language_model import LanguageModel
from gnomon.text.needles import NAMES, NeedleDocument, draw_pairs

NEAREST = 16  # tokens; distances double from here on


class Haystack:
    """Makes documents of a wanted length, in a model's own tokens, and asks the model.

    Args:
        model: any language model; the documents are written for its vocabulary.
        filler: words to stand around what is looked for, a part of them, or round and round.
        num_pairs: how many pairs of name and value a document states.

    Raises:
        RecipeError: too few or too many pairs.
        DataError: no filler, or the vocabulary cannot spell it or the pairs.
    """

    def __init__(self, model: LanguageModel, filler: Sequence[str], *, num_pairs: int) -> None:
        if not 2 <= num_pairs <= len(NAMES):
            raise RecipeError(
                f"a document states 2 to {len(NAMES)} pairs", seen=num_pairs, mend="4 are usual"
            )
        if not filler:
            raise DataError("there must be words to stand between pairs and question", seen="none")
        self.model = model
        self.filler = filler
        self.num_pairs = num_pairs
        distinct = sorted(set(filler))
        rows = model.vocabulary.encode(["is", *(f"is {word}" for word in distinct)])
        self._check_spelled(rows)
        # What a word costs behind another; 0 where a vocabulary joins words: then rows are mended.
        costs = [max(0, len(row) - len(rows[0])) for row in rows[1:]]
        self._cost = dict(zip(distinct, costs, strict=True))
        if not any(costs):
            raise DataError("words to stand between must have tokens", seen=" ".join(distinct[:5]))

    @property
    def needed(self) -> int:
        """Tokens that a document takes at least, and a quarter more, as other names are longer."""
        plain = self._document(Random("distances"))
        return self._size(plain.prompt + plain.answer) * 5 // 4

    def distances(self, length: int) -> list[int]:
        """Distances to try at a length: 16, 32, 64 … and as far as a document goes."""
        plain = replace(self._document(Random("distances")), asked=0)
        nearest = self._distance(plain)
        farthest = self._room(plain, length) + nearest
        found = []
        distance = NEAREST
        while distance <= 0.75 * farthest:
            found.append(distance)
            distance *= 2
        return [*(each for each in found if each >= nearest), farthest]

    def documents(
        self, length: int, distance: int, count: int, seed: int
    ) -> Iterator[NeedleDocument]:
        """Documents of up to `length` tokens, the answer stated up to `distance` before its place.

        Raises:
            RecipeError: no document can be so short.
        """
        for number in range(count):
            draw = Random(f"{seed} {length} {distance} {number}")
            plain = self._document(draw)
            room = self._room(plain, length)
            after = self._words(draw, min(distance - self._distance(plain), room))
            document = replace(plain, after=after)
            document = replace(document, before=self._words(draw, self._room(document, length)))
            while document.before and self._size(document.prompt + document.answer) > length:
                document = replace(document, before=document.before[1:])
            yield document

    def ask(self, document: NeedleDocument) -> Retrieval:
        """The model's answer, beside that in a document whose pairs are dealt otherwise."""
        log_prob, found = self._answer(document.prompt, document.answer)
        other, control = self._answer(document.shuffled.prompt, document.answer)
        return Retrieval(found, control, log_prob - other)

    def _document(self, draw: Random) -> NeedleDocument:
        return NeedleDocument(
            (), draw_pairs(draw, self.num_pairs), draw.randrange(self.num_pairs), ()
        )

    def _distance(self, document: NeedleDocument) -> int:
        """Tokens from the place of the answer back to where it was stated."""
        return self._size(document.prompt) - self._size(document.to_value)

    def _room(self, document: NeedleDocument, length: int) -> int:
        """Tokens that can still be put in: the begin is in view, the last of the answer not."""
        room = length - self._size(document.prompt + document.answer)
        if room < 0:
            raise RecipeError(
                f"a document of {self.num_pairs} pairs and a question must fit",
                seen=f"{length} tokens in view, {length - room} needed",
                mend="ask for a greater length, or fewer pairs",
            )
        return room

    def _words(self, draw: Random, tokens: int) -> list[str]:
        """Words of up to so many tokens."""
        start = draw.randrange(len(self.filler))
        found = []
        for place in range(max(0, tokens)):
            word = self.filler[(start + place) % len(self.filler)]
            tokens -= self._cost[word]
            if tokens < 0:
                break
            found.append(word)
        return found

    def _size(self, text: str) -> int:
        """Tokens of a text alone."""
        return len(self.model.vocabulary.encode([text])[0])

    @torch.no_grad()
    def _answer(self, prompt: str, answer: str) -> tuple[float, bool]:
        """Log-probability of an answer, and whether each of its tokens is the most probable."""
        vocabulary, network = self.model.vocabulary, self.model.model
        before, whole = vocabulary.encode([prompt, prompt + answer])
        start = next(
            (n for n, (a, b) in enumerate(zip(before, whole, strict=False)) if a != b), len(before)
        )
        self._check_spelled([whole])
        ids = torch.tensor([[vocabulary.begin_id, *whole]], device=self.model.device)
        was_training = network.training
        network.eval()
        try:
            hidden = network.decode(ids[:, :-1])[0, start:]
        finally:
            network.train(was_training)
        log_probs = network.project(hidden).float().log_softmax(dim=-1)
        labels = ids[0, start + 1 :]
        total = float(log_probs.gather(1, labels[:, None]).sum())
        if not math.isfinite(total):
            raise ModelError(
                "a model gives every token a finite log-probability",
                seen=total,
                mend="look for NaN in the weights",
            )
        return total, bool((log_probs.argmax(dim=-1) == labels).all())

    def _check_spelled(self, rows: Sequence[Sequence[int]]) -> None:
        unknown = self.model.vocabulary.unk_id
        if unknown is not None and any(unknown in row for row in rows):
            raise DataError(
                "the vocabulary must be able to spell the words of the documents, which are of "
                "small Latin letters but for those of your own text",
                seen="tokens for what it cannot spell",
                mend="ask a model whose vocabulary has these letters",
            )

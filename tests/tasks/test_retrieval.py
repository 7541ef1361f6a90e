"""Needles: documents of the wanted length and distance, and what models make of them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from gnomon.errors import DataError, RecipeError
from gnomon.evaluation.retrieval import retrieval_row
from gnomon.tasks import LanguageModel
from gnomon.tasks.retrieval import Haystack
from gnomon.text import Tokenizer, VocabularyConfig
from gnomon.text.framing import OwnFraming
from gnomon.text.needles import FILLER, NAMES, VALUES, NeedleDocument, needle_texts
from gnomon.text.vocabulary import Vocabulary


class Copier:
    """A network that goes on as the same words went on before, as far back as it sees.

    Its hidden states are the ids to come; where nothing repeats, 0.
    """

    training = False

    def __init__(self, vocab_size: int, view: int) -> None:
        self.vocab_size = vocab_size
        self.view = view

    def eval(self) -> None:
        pass

    def train(self, mode: bool) -> None:
        pass

    def decode(self, ids: Tensor) -> Tensor:
        row = ids[0].tolist()
        found = torch.zeros(1, len(row), 1)
        for end in range(len(row) - 40, len(row) + 1):
            seen = row[max(0, end - self.view) : end]
            best = (2, 0)  # less than three ids in common is no repetition
            for other in range(1, len(seen)):
                common = 0
                while common < other and seen[other - 1 - common] == seen[-1 - common]:
                    common += 1
                best = max(best, (common, seen[other]))
            found[0, end - 1] = best[1]
        return found

    def project(self, hidden: Tensor) -> Tensor:
        return 5.0 * torch.nn.functional.one_hot(hidden[..., 0].long(), self.vocab_size)


@pytest.fixture(scope="module", params=["characters", "bpe"])
def vocabulary(request: pytest.FixtureRequest) -> Vocabulary:
    texts = list(needle_texts(40, num_words=300, num_pairs=4, seed=3))
    config = VocabularyConfig(kind=request.param, vocab_size=900, byte_fallback=False)
    return Vocabulary(OwnFraming(Tokenizer.train(texts, config)))


def stack_of(vocabulary: Vocabulary, view: int = 10_000, **options: Any) -> Haystack:
    network: Any = Copier(vocabulary.vocab_size, view)
    model = LanguageModel(network, vocabulary)
    network.parameters = lambda: iter([torch.zeros(1)])
    return Haystack(model, options.pop("filler", FILLER), num_pairs=options.pop("num_pairs", 4))


def sizes(stack: Haystack, document: NeedleDocument) -> tuple[int, int]:
    """Tokens in view at the end of the answer, and from it back to where it was stated."""
    whole, prompt, stated = stack.model.vocabulary.encode(
        [document.prompt + document.answer, document.prompt, document.to_value]
    )
    return len(whole), len(prompt) - len(stated)


def test_words_are_told_apart() -> None:
    assert len({*NAMES, *VALUES, *FILLER}) == len(NAMES) + len(VALUES) + len(FILLER)


def test_shuffled_is_the_same_words_with_another_answer() -> None:
    pairs = [("a", "1"), ("b", "2"), ("c", "3")]
    document = NeedleDocument(["x"], pairs, 1, ["y", "z"])
    assert document.prompt == "x a is 1. b is 2. c is 3. y z b is"
    assert (document.answer, document.to_value) == (" 2", "x a is 1. b is")
    assert document.shuffled.prompt == "x a is 2. b is 3. c is 1. y z b is"
    assert document.shuffled.answer == " 3"


def test_documents_are_as_long_and_as_far_as_asked(vocabulary: Vocabulary) -> None:
    stack = stack_of(vocabulary)
    longest = 6  # tokens of a word with its blank, at most
    for length in (200, 400):
        distances = stack.distances(length)
        assert distances == sorted(set(distances))
        assert distances[-1] > 0.6 * length
        for distance in distances:
            for document in stack.documents(length, distance, 5, seed=1):
                size, back = sizes(stack, document)
                assert length - longest < size <= length
                assert back <= distance
                if distance != distances[-1]:
                    assert back > distance - longest


def test_a_model_that_looks_finds_and_one_that_sees_less_does_not(vocabulary: Vocabulary) -> None:
    for view, near, far in ((10_000, 1.0, 1.0), (150, 1.0, 0.0)):
        stack = stack_of(vocabulary, view)
        for distance, wanted in ((100, near), (250, far)):
            documents = stack.documents(300, distance, 6, seed=2)
            row = retrieval_row(300, distance, [stack.ask(each) for each in documents])
            assert row.found == wanted
            assert row.control == 0.0
            assert row.told_apart == wanted
            assert (row.gain > 1.0) == (wanted == 1.0)


def test_what_cannot_be_made_is_refused(vocabulary: Vocabulary) -> None:
    stack = stack_of(vocabulary)
    assert stack.distances(stack.needed)
    with pytest.raises(RecipeError, match="must fit"):
        stack.distances(8)
    with pytest.raises(RecipeError, match="pairs"):
        stack_of(vocabulary, num_pairs=1)
    with pytest.raises(DataError, match="spell"):
        stack_of(vocabulary, filler=["東京"])


def test_a_text_keeps_to_its_pairs() -> None:
    (text,) = needle_texts(1, num_words=60, num_pairs=4, seed=5)
    words = text.replace(".", "").split()
    stated: dict[str, set[str]] = {}
    for place, word in enumerate(words):
        if word == "is":
            stated.setdefault(words[place - 1], set()).add(words[place + 1])
    assert len(stated) == 4
    assert all(len(values) == 1 for values in stated.values())
    assert list(needle_texts(1, num_words=60, num_pairs=4, seed=5)) == [text]

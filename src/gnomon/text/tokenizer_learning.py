"""Learning a vocabulary of subwords from text, with the trainers of `tokenizers`."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import tokenizers
from tokenizers import models, trainers

from gnomon.errors import DataError
from gnomon.text.reserved import SPECIALS, UNK_ID
from gnomon.text.sources import tag_problems
from gnomon.text.tokenizer_config import VocabularyConfig
from gnomon.text.tokenizer_pipeline import assemble, normalizer, pre_tokenizer, reserved_names

MAX_PIECE_LENGTH = 16  # characters; longer pieces are whole phrases learned by heart

_GAP = "\n"  # in no line, so in no piece
_MARK = "\x01"  # likewise: ends a word that stands alone, see `_with_whole_words`
_DROPPED = (_GAP, _MARK)
_ENDLESS = 1000  # characters
_ENDLESS_WORD = re.compile(rf"\S{{{_ENDLESS}}}")


def learn(lines: Iterable[str], config: VocabularyConfig, tags: Sequence[str] = ()) -> str:
    """Return the text of a `tokenizer.json` learned from lines; see `Tokenizer.train`."""
    if problems := config.problems(len(tags)) + tag_problems(tags):
        raise DataError("the tokenizer's options must fit together", seen="; ".join(problems))
    normal = normalizer(config)
    lines = rereadable(lines)
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(normal.normalize_str(line))
    alphabet = _alphabet(counts, config, tags)
    if not alphabet - {" "}:
        raise DataError(
            "a tokenizer needs text to learn from",
            seen=f"{sum(counts.values())} characters, none of them frequent enough",
            mend="give more text, lower tokenizer.min_frequency, or raise tokenizer.vocab_size",
        )
    if config.kind == "characters":
        return assemble(_of_characters(sorted(alphabet), config, tags), config, tags)
    rare = counts.keys() - alphabet
    # A rare character leaves a gap, or its neighbours would be learned as one piece.
    gaps = str.maketrans(dict.fromkeys(rare, _GAP))
    text = (
        _without_endless_words(line if rare.isdisjoint(line) else line.translate(gaps))
        for line in map(normal.normalize_str, lines)
    )
    learner = _learn_bpe if config.kind == "bpe" else _learn_unigram
    model = learner(text, sorted(alphabet), config, tags)
    return assemble(model, config, tags)


def rereadable(lines: Iterable[str]) -> Iterable[str]:
    """Return what can be gone through twice: the lines as they are, or a list of one-shot ones."""
    return list(lines) if iter(lines) is lines else lines


def _without_endless_words(line: str) -> str:
    """Put a gap into words that no one wrote; learning takes time quadratic in a word's length."""
    return line if len(line) < _ENDLESS else _ENDLESS_WORD.sub(rf"\g<0>{_GAP}", line)


def _alphabet(counts: Counter[str], config: VocabularyConfig, tags: Sequence[str]) -> set[str]:
    """Choose the characters that get ids of their own, most frequent first."""
    room = config.vocab_size - config.num_reserved - len(tags)
    # With bytes to fall back on, half the room is kept for pieces of several characters: Chinese
    # has thousands of characters, and most of them are rarer than most words. The unigram trainer
    # never ends where single characters fill the room.
    alone = config.kind == "characters" or (config.kind == "bpe" and not config.byte_fallback)
    limit = room if alone else room // 2
    frequent = [item for item in counts.items() if item[1] >= config.min_frequency]
    frequent.sort(key=lambda item: (-item[1], item[0]))
    dropped = {_MARK} if config.kind == "characters" else {*_DROPPED}
    return {character for character, _ in frequent[:limit]} - dropped


def _of_characters(
    alphabet: list[str], config: VocabularyConfig, tags: Sequence[str]
) -> dict[str, Any]:
    """BPE without merges: every character is a piece."""
    return {
        "type": "BPE",
        "unk_token": SPECIALS[UNK_ID],
        "byte_fallback": config.byte_fallback,
        "vocab": {
            piece: index for index, piece in enumerate((*reserved_names(config, tags), *alphabet))
        },
        "merges": [],
    }


def _learn_bpe(
    text: Iterable[str], alphabet: list[str], config: VocabularyConfig, tags: Sequence[str]
) -> dict[str, Any]:
    reserved = reserved_names(config, tags)
    scratch = tokenizers.Tokenizer(models.BPE())
    scratch.pre_tokenizer = pre_tokenizer(config, tags)
    trainer = trainers.BpeTrainer(
        vocab_size=config.vocab_size - len(reserved),
        min_frequency=config.min_frequency,
        max_token_length=MAX_PIECE_LENGTH,
        # Both are needed to have exactly this alphabet: the trainer would add "\n" by itself.
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        show_progress=False,
    )
    scratch.train_from_iterator(text, trainer)
    learned = json.loads(scratch.to_str())["model"]
    pieces = sorted(learned["vocab"], key=learned["vocab"].__getitem__)
    vocab = {piece: index for index, piece in enumerate((*reserved, *pieces))}
    assert len(vocab) == len(reserved) + len(pieces), "a learned piece spells a reserved name"
    return {
        "type": "BPE",
        "unk_token": SPECIALS[UNK_ID],
        "byte_fallback": config.byte_fallback,
        "vocab": vocab,
        "merges": learned["merges"],
    }


def _learn_unigram(
    text: Iterable[str], alphabet: list[str], config: VocabularyConfig, tags: Sequence[str]
) -> dict[str, Any]:
    reserved = reserved_names(config, tags)
    scratch = tokenizers.Tokenizer(models.Unigram())
    scratch.pre_tokenizer = pre_tokenizer(config, tags, rf"\A[^{_MARK}]+{_MARK}\z")
    trainer = trainers.UnigramTrainer(
        vocab_size=config.vocab_size - len(reserved) + len(_DROPPED),
        initial_alphabet=alphabet,
        max_piece_length=MAX_PIECE_LENGTH,
        unk_token=None,
        show_progress=False,
    )
    try:
        scratch.train_from_iterator(_with_whole_words(text, config, tags), trainer)
    except Exception as error:  # the Rust side raises bare Exception
        raise DataError(
            "a unigram vocabulary needs more text, or room for all its characters",
            seen=error,
            mend='give more text, raise tokenizer.vocab_size, or set tokenizer.kind = "bpe"',
        ) from error
    learned = json.loads(scratch.to_str())["model"]["vocab"]
    pieces = _in_fixed_order([(piece, score) for piece, score in learned if piece not in _DROPPED])
    vocab = [(name, 0.0) for name in reserved] + pieces
    assert len(dict(vocab)) == len(vocab), "a learned piece spells a reserved name"
    return {
        "type": "Unigram",
        "unk_id": UNK_ID,
        "byte_fallback": config.byte_fallback,
        "vocab": vocab,
    }


def _with_whole_words(
    text: Iterable[str], config: VocabularyConfig, tags: Sequence[str]
) -> Iterator[str]:
    """Give the text, then each repeated word of it once more with a mark at its end.

    The trainer takes as candidates only what is followed by two different things, and it looks
    at each distinct word once. A word that is part of no other word would never be one piece
    (on Multi30k that costs 18 % more tokens).
    """
    words = pre_tokenizer(config, tags)
    counts: Counter[str] = Counter()
    for line in text:
        counts.update(word for word, _ in words.pre_tokenize_str(line))
        yield line
    for word, count in counts.items():
        if count > 1:
            yield word + _MARK
    yield "".join(_DROPPED)  # so that both always take a place in the vocabulary, to be dropped


def _in_fixed_order(learned: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """Take out what differs between two trainings on the same text.

    The trainer sums in the order of a hash table, so scores differ in their last bits, and it
    gives the characters it had to put back after pruning `lowest + k · 0.0001` in that order too.
    """
    lowest = min(score for _, score in learned)
    highest_put_back = lowest + 0.0001 * (sum(len(piece) == 1 for piece, _ in learned) + 1)
    fixed = [
        (piece, round(lowest if len(piece) == 1 and score < highest_put_back else score, 6))
        for piece, score in learned
    ]
    return sorted(fixed, key=lambda item: (-item[1], item[0]))

"""Text to ids and back without loss: BPE or unigram subwords, trained by `tokenizers`.

Three decisions make `decode(encode(text))` the normalised text, blanks and all:

- A blank stays a blank inside the pieces (" dog"), so a literal "▁" is nothing special. One blank
  is put before a line that starts with a word, so that this word is the same piece as within a
  line, and taken off again by decoding. Scripts written without spaces get none.
- Characters outside the alphabet become the bytes of their UTF-8, one id each.
- Names of special and byte ids and of tags ("</s>", "<0x0A>", "<2de>") are torn at the "<" before
  the model sees them, so that no text can spell such an id, neither in training nor in use. A tag
  gets into a source by its id alone: `tag_ids`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from itertools import chain, groupby
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from numpy.typing import NDArray

from gnomon.errors import DataError, ModelError
from gnomon.files import write_atomically
from gnomon.text.ragged import Ragged
from gnomon.text.reserved import BOS_ID, BYTES, EOS_ID, PAD_ID, RESERVED, SPECIALS, UNK_ID
from gnomon.text.sentencepiece_model import BLANK, convert, symbols_of
from gnomon.text.tokenizer_config import VocabularyConfig
from gnomon.text.tokenizer_learning import learn
from gnomon.text.tokenizer_pipeline import tags_in

_AT_ONCE = 2000
"""Texts handed to `tokenizers` at a time: what it returns is large, and read while in the cache."""


class Tokenizer:
    """A trained subword vocabulary; ids 0..3 are padding, unknown, begin and end."""

    pad_id = PAD_ID
    unk_id = UNK_ID
    bos_id = BOS_ID
    eos_id = EOS_ID
    special_ids: Sequence[int] = tuple(range(len(SPECIALS)))

    def __init__(self, serialized: str) -> None:
        """Build from the text of a `tokenizer.json`; see `train` and `load`.

        Raises:
            ModelError: it is not one that gnomon wrote.
        """
        try:
            self._tokenizer = tokenizers.Tokenizer.from_str(serialized)
        except Exception as error:  # the Rust side raises bare Exception
            raise ModelError("a tokenizer file must be whole and readable", seen=error) from error
        found = tuple(self._tokenizer.id_to_token(index) for index in range(len(SPECIALS)))
        if found != SPECIALS:
            raise ModelError(
                f"a tokenizer's first ids must be {', '.join(SPECIALS)}",
                seen=", ".join(map(str, found)),
                mend="use a tokenizer that gnomon trained",
            )
        self._serialized = serialized
        self._symbols = symbols_of(serialized)
        self.vocab_size: int = self._tokenizer.get_vocab_size(with_added_tokens=True)
        self._tags = tags_in(serialized)
        self._first_byte: int | None = self._tokenizer.token_to_id(BYTES[0])
        self.fingerprint = hashlib.sha256(serialized.encode()).hexdigest()

    @classmethod
    def train(
        cls, lines: Iterable[str], config: VocabularyConfig, tags: Sequence[str] = ()
    ) -> Tokenizer:
        """Learn a vocabulary from lines; the same lines give the same bytes on disk.

        The vocabulary may come out smaller than `config.vocab_size` where the text does not
        support so many pieces: read `vocab_size` of the result.

        Args:
            lines: the training text; a one-shot iterator is kept in memory, as it is read twice.
            config: see `VocabularyConfig`.
            tags: names such as "<2de>" that get an id each, behind those of bytes.

        Raises:
            DataError: the text holds nothing to learn from.
        """
        return cls(learn(lines, config, tags))

    @classmethod
    def load(cls, path: str | Path) -> Tokenizer:
        """Read a `tokenizer.json`, or a SentencePiece model from a file that ends in `.model`.

        Raises:
            ModelError: no such file, not one that gnomon wrote, or a model of another kind.
        """
        if Path(path).suffix == ".model":
            return cls(convert(Path(path), SPECIALS, BYTES, RESERVED))
        try:
            return cls(Path(path).read_bytes().decode("utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise ModelError("a tokenizer file must be readable", seen=error) from error

    def save(self, path: str | Path) -> None:
        """Write a `tokenizer.json`, which any program built on `tokenizers` reads."""
        write_atomically(Path(path), self._serialized)

    def save_as(self, path: Path) -> None:
        """See `save`; the name that tokenizers of others have for it."""
        self.save(path)

    @property
    def serialized(self) -> str:
        """The text of its `tokenizer.json`."""
        return self._serialized

    @property
    def tags(self) -> tuple[str, ...]:
        """Names that the vocabulary holds as tags."""
        return tuple(self._tags)

    def tag_ids(self, tags: Sequence[str]) -> list[int]:
        """Return the ids of some tags, to be put in front of a source's ids.

        Raises:
            DataError: the vocabulary holds no such tag.
        """
        if unknown := [tag for tag in tags if tag not in self._tags]:
            raise DataError(
                "a tag must be one that the model was trained with",
                seen=", ".join(unknown),
                mend=f"tags of this model: {', '.join(self._tags)}"
                if self._tags
                else "this model has none: translate without",
            )
        return [self._tags[tag] for tag in tags]

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text, without begin and end.

        Raises:
            DataError: a text holds a lone surrogate, which no encoding can carry.
        """
        parts = (texts[first : first + _AT_ONCE] for first in range(0, len(texts), _AT_ONCE))
        return [
            encoding.ids for part in parts for encoding in self._encodings(part, with_words=False)
        ]

    def encode_words(self, texts: Sequence[str]) -> tuple[Ragged, NDArray[np.int64]]:
        """Return the ids of each text, and of each id the number of its word within the text.

        Raises:
            DataError: as `encode`.
        """
        encodings = self._encodings(texts, with_words=True)
        ids = Ragged.of([encoding.ids for encoding in encodings])
        words = chain.from_iterable(encoding.word_ids for encoding in encodings)
        return ids, np.fromiter(words, np.int64, len(ids.ids))

    def merges(self) -> list[tuple[int, int, int]]:
        """Return the merges in the order they are made: two ids and the id they become.

        Raises:
            ModelError: the vocabulary is not BPE, and has none.
        """
        model = json.loads(self._serialized)["model"]
        if model.get("type") != "BPE":
            raise ModelError(
                "BPE-dropout needs a BPE vocabulary",
                seen=f"a vocabulary of type {model.get('type')}",
                mend="set tokenizer.bpe_dropout to 0",
            )
        vocab = model["vocab"]
        found = []
        for merge in model["merges"]:
            left, right = merge.split(" ") if isinstance(merge, str) else merge
            found.append((vocab[left], vocab[right], vocab[left + right]))
        return found

    def _encodings(self, texts: Sequence[str], *, with_words: bool) -> Any:
        encode = self._tokenizer.encode_batch if with_words else self._tokenizer.encode_batch_fast
        try:
            return encode(list(texts), add_special_tokens=False)
        except (TypeError, UnicodeEncodeError) as error:
            raise DataError(
                "texts must be strings without lone surrogates",
                seen=error,
                mend='decode the bytes with errors="replace" first',
            ) from error

    def spans(self, texts: Sequence[str]) -> list[list[tuple[int, int]]]:
        """Return where in its text each id of `encode` stands: start and end, in characters.

        The bytes of one character all stand where it does.
        """
        return [spans for _, spans in self.encode_with_spans(texts)]

    def encode_with_spans(
        self, texts: Sequence[str]
    ) -> list[tuple[list[int], list[tuple[int, int]]]]:
        """Return `encode` and `spans` of each text, by one pass.

        Raises:
            DataError: as `encode`.
        """
        return [
            (encoding.ids, encoding.offsets) for encoding in self._encodings(texts, with_words=True)
        ]

    def decode(self, ids: Iterable[Sequence[int]]) -> list[str]:
        """Return the text of each id sequence: specials and tags vanish, unknown is "\\ufffd".

        Raises:
            ModelError: an id is outside the vocabulary, so model and tokenizer do not belong
                together.
        """
        rows = [list(map(int, row)) for row in ids]
        for row in rows:
            if row and not 0 <= min(row) <= max(row) < self.vocab_size:
                raise ModelError(
                    f"ids must be within the vocabulary of {self.vocab_size}",
                    seen=f"ids from {min(row)} to {max(row)}",
                    mend="use the tokenizer the model was trained with",
                )
        rows = [self._without_stray_bytes(row) for row in rows]
        texts: list[str] = self._tokenizer.decode_batch(rows, skip_special_tokens=False)
        return texts

    def _without_stray_bytes(self, row: list[int]) -> list[int]:
        """The ids with <unk> for each byte that is no part of a character.

        One stray byte would else make U+FFFD of the whole characters beside it, too.
        """
        if self._first_byte is None:
            return row
        first, mended = self._first_byte, row
        for is_byte, run in groupby(
            range(len(row)), lambda place: first <= row[place] < first + len(BYTES)
        ):
            if not is_byte:
                continue
            places = list(run)
            content, at = bytes(row[place] - first for place in places), 0
            while at < len(content):
                try:
                    content[at:].decode("utf-8")
                    break
                except UnicodeDecodeError as error:
                    mended = list(mended)
                    for place in places[at + error.start : at + error.end]:
                        mended[place] = UNK_ID
                    at += error.end
        return mended

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the written form of each id, for people to look at."""
        names = (str(self._tokenizer.id_to_token(int(index))) for index in ids)
        return [self._symbols.get(name, name) for name in names]

    def normalise(self, text: str) -> str:
        """Return what `decode(encode(text))` gives: `text` in the vocabulary's Unicode form."""
        normal: str = self._tokenizer.normalizer.normalize_str(text)
        return self.decode(self.encode([text]))[0] if BLANK in normal else normal.removeprefix(" ")

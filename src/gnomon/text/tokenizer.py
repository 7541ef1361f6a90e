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
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
import tokenizers
from numpy.typing import NDArray
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from gnomon.errors import DataError, ModelError
from gnomon.files import write_atomically
from gnomon.text.ragged import Ragged
from gnomon.text.sentencepiece_model import BLANK, convert, symbols_of
from gnomon.text.sources import tag_problems

SPECIALS = ("<pad>", "<unk>", "<s>", "</s>")
PAD_ID, UNK_ID, BOS_ID, EOS_ID = range(len(SPECIALS))
BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))
MAX_PIECE_LENGTH = 16  # characters; longer pieces are whole phrases learned by heart

_GAP = "\n"  # in no line, so in no piece
_MARK = "\x01"  # likewise: ends a word that stands alone, see `_with_whole_words`
_DROPPED = (_GAP, _MARK)
_ENDLESS = 1000  # characters
_ENDLESS_WORD = re.compile(rf"\S{{{_ENDLESS}}}")
_RESERVED_NAMES = "pad|unk|s|/s|0x[0-9A-F]{2}"
_RESERVED = rf"<(?=(?:{_RESERVED_NAMES})>)"
_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Bopomofo}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}ー"


@dataclass(frozen=True, kw_only=True)
class TokenizerConfig:
    """How text is cut into subwords."""

    # A vocabulary to use instead of learning one: a SentencePiece .model or a tokenizer.json that
    # gnomon wrote.
    model_file: str | None = None
    target_model_file: str | None = None  # of the target, where joint = false
    kind: Literal["bpe", "unigram"] = "bpe"
    vocab_size: int = 8000  # upper bound on ids, special and byte ids included
    joint: bool = True  # one vocabulary for source and target, as tied embeddings need
    byte_fallback: bool = True  # unknown characters become bytes; False: they become <unk>
    min_frequency: int = 2  # rarer characters and merges are not learned
    # Each digit its own piece, so that numbers never seen are spelled from what was seen often;
    # costs tokens only where there are numbers.
    split_digits: bool = True
    lowercase: bool = False
    normalization: Literal["nfc", "nfkc", "none"] = "nfc"

    # Training text is segmented anew with merges left out, each with this probability; validation,
    # evaluation and translation never are. 0 for none; 0.1 is what the paper found best.
    bpe_dropout: float = 0.0
    bpe_dropout_variants: int = 8  # segmentations in the store; epoch e reads number e mod these

    @property
    def num_reserved(self) -> int:
        """Ids that are not learned from text: specials and bytes."""
        return len(SPECIALS) + (len(BYTES) if self.byte_fallback else 0)

    def vocabulary_options(self) -> dict[str, Any]:
        """Options that decide which vocabulary is learned from a text."""
        return {
            key: value for key, value in asdict(self).items() if not key.startswith("bpe_dropout")
        }

    def problems(self, num_tags: int = 0) -> list[str]:
        """Return every rule broken across fields; empty if all is well."""
        found = []
        if self.vocab_size <= self.num_reserved + num_tags:
            found.append(
                f"tokenizer.vocab_size must be above {self.num_reserved + num_tags} (special and "
                f"byte ids{', tags' if num_tags else ''}), "
                f"is {self.vocab_size}: raise it to some thousands"
            )
        if self.vocab_size > 1 << 24:
            found.append(f"tokenizer.vocab_size must be at most {1 << 24:,}, is {self.vocab_size}")
        if self.min_frequency < 1:
            found.append(
                f"tokenizer.min_frequency must be 1 or more, is {self.min_frequency}: set it to 2"
            )
        if not 0 <= self.bpe_dropout <= 1:
            found.append(
                "tokenizer.bpe_dropout must be a probability from 0 to 1, is "
                f"{self.bpe_dropout}: set it to 0.1"
            )
        if (self.target_model_file is not None) != (self.model_file is not None and not self.joint):
            found.append(
                "tokenizer.target_model_file goes with tokenizer.model_file and joint = false, is "
                f"{self.target_model_file!r} with {self.model_file!r} and joint = "
                f"{str(self.joint).lower()}: give one file and joint = true, or two and false"
            )
        if self.bpe_dropout and self.kind != "bpe" and self.model_file is None:
            found.append(
                "tokenizer.bpe_dropout leaves out merges, which only kind 'bpe' has, is "
                f"{self.bpe_dropout} with kind {self.kind!r}: set one to 0 or the other to 'bpe'"
            )
        if not 1 <= self.bpe_dropout_variants <= 100:
            found.append(
                "tokenizer.bpe_dropout_variants must be from 1 to 100, is "
                f"{self.bpe_dropout_variants}: set it to 8"
            )
        return found

    def unused(self) -> list[str]:
        """Return every key that has no effect beside the others."""
        found = []
        if not self.bpe_dropout and self.bpe_dropout_variants != 8:
            found.append("tokenizer.bpe_dropout_variants has no effect without bpe_dropout")
        if self.model_file is not None:
            default = TokenizerConfig()
            found += [
                f"tokenizer.{key} has no effect beside tokenizer.model_file, which decides it"
                for key in _LEARNING
                if getattr(self, key) != getattr(default, key)
            ]
        return found


# Keys that say how a vocabulary is learned.
_LEARNING = (
    *("kind", "vocab_size", "byte_fallback", "min_frequency"),
    *("split_digits", "lowercase", "normalization"),
)


class Tokenizer:
    """A trained subword vocabulary; ids 0..3 are padding, unknown, begin and end."""

    pad_id = PAD_ID
    unk_id = UNK_ID
    bos_id = BOS_ID
    eos_id = EOS_ID

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
        self._tags = _tags_in(serialized)
        self.fingerprint = hashlib.sha256(serialized.encode()).hexdigest()

    @classmethod
    def train(
        cls, lines: Iterable[str], config: TokenizerConfig, tags: Sequence[str] = ()
    ) -> Tokenizer:
        """Learn a vocabulary from lines; the same lines give the same bytes on disk.

        The vocabulary may come out smaller than `config.vocab_size` where the text does not
        support so many pieces: read `vocab_size` of the result.

        Args:
            lines: the training text; a one-shot iterator is kept in memory, as it is read twice.
            config: see `TokenizerConfig`.
            tags: names such as "<2de>" that get an id each, behind those of bytes.

        Raises:
            DataError: the text holds nothing to learn from.
        """
        if problems := config.problems(len(tags)) + tag_problems(tags):
            raise DataError("the tokenizer's options must fit together", seen="; ".join(problems))
        normalizer = _normalizer(config)
        lines = rereadable(lines)
        counts: Counter[str] = Counter()
        for line in lines:
            counts.update(normalizer.normalize_str(line))
        alphabet = _alphabet(counts, config, tags)
        if not alphabet - {" "}:
            raise DataError(
                "a tokenizer needs text to learn from",
                seen=f"{sum(counts.values())} characters, none of them frequent enough",
                mend="give more text, lower tokenizer.min_frequency, or raise tokenizer.vocab_size",
            )
        rare = counts.keys() - alphabet
        # A rare character leaves a gap, or its neighbours would be learned as one piece.
        gaps = str.maketrans(dict.fromkeys(rare, _GAP))
        text = (
            _without_endless_words(line if rare.isdisjoint(line) else line.translate(gaps))
            for line in map(normalizer.normalize_str, lines)
        )
        learn = _learn_bpe if config.kind == "bpe" else _learn_unigram
        model = learn(text, sorted(alphabet), config, tags)
        return cls(_assemble(model, config, tags))

    @classmethod
    def load(cls, path: str | Path) -> Tokenizer:
        """Read a `tokenizer.json`, or a SentencePiece model from a file that ends in `.model`.

        Raises:
            ModelError: no such file, not one that gnomon wrote, or a model of another kind.
        """
        if Path(path).suffix == ".model":
            return cls(convert(Path(path), SPECIALS, BYTES, _RESERVED))
        try:
            return cls(Path(path).read_bytes().decode("utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise ModelError("a tokenizer file must be readable", seen=error) from error

    def save(self, path: str | Path) -> None:
        """Write a `tokenizer.json`, which any program built on `tokenizers` reads."""
        write_atomically(Path(path), self._serialized)

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
        return [encoding.ids for encoding in self._encodings(texts, with_words=False)]

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
        encodings = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return [encoding.offsets for encoding in encodings]

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
        texts: list[str] = self._tokenizer.decode_batch(rows, skip_special_tokens=False)
        return texts

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the written form of each id, for people to look at."""
        names = (str(self._tokenizer.id_to_token(int(index))) for index in ids)
        return [self._symbols.get(name, name) for name in names]

    def normalise(self, text: str) -> str:
        """Return what `decode(encode(text))` gives: `text` in the vocabulary's Unicode form."""
        normal: str = self._tokenizer.normalizer.normalize_str(text)
        return self.decode(self.encode([text]))[0] if BLANK in normal else normal.removeprefix(" ")


def _without_endless_words(line: str) -> str:
    """Put a gap into words that no one wrote; learning takes time quadratic in a word's length."""
    return line if len(line) < _ENDLESS else _ENDLESS_WORD.sub(rf"\g<0>{_GAP}", line)


def rereadable(lines: Iterable[str]) -> Iterable[str]:
    """Return what can be gone through twice: the lines as they are, or a list of one-shot ones."""
    return list(lines) if iter(lines) is lines else lines


def _normalizer(config: TokenizerConfig) -> Any:
    steps: list[Any] = []
    if config.normalization != "none":
        steps.append(normalizers.NFC() if config.normalization == "nfc" else normalizers.NFKC())
    if config.lowercase:
        steps.append(normalizers.Lowercase())
    alone = _UNSPACED + (r"\p{N}" if config.split_digits else "")
    steps.append(normalizers.Prepend(" "))
    steps.append(normalizers.Replace(tokenizers.Regex(rf"\A (?=[{alone}])"), ""))
    return normalizers.Sequence(steps)


def _alternatives(tags: Sequence[str]) -> str:
    """A pattern for what stands between the brackets of a tag, "" or "|2de|2fr"."""
    return "".join("|" + re.escape(tag[1:-1]) for tag in tags)


def _tags_in(serialized: str) -> dict[str, int]:
    """The tags of a `tokenizer.json`, listed where its format has special tokens that are put in
    front of a text; gnomon's template puts none there, as not every text gets the same."""
    template = json.loads(serialized).get("post_processor") or {}
    listed = template.get("special_tokens", {}).items()
    return dict(sorted(((tag, about["ids"][0]) for tag, about in listed), key=lambda item: item[1]))


def _pre_tokenizer(config: TokenizerConfig, tags: Sequence[str], *first: str) -> Any:
    """Cut text where no piece may reach across: between words, scripts, numbers, punctuation."""
    reserved = rf"<(?=(?:{_RESERVED_NAMES}{_alternatives(tags)})>)"
    pattern = "|".join(
        (
            *first,
            reserved,
            rf"[{_UNSPACED}]+",
            rf" ?(?:(?![{_UNSPACED}])[\p{{L}}\p{{M}}])+",
            r"\p{N}" if config.split_digits else r" ?\p{N}+",
            rf" ?(?:(?!{reserved})[^\s\p{{L}}\p{{M}}\p{{N}}])+",
            r"\s+(?!\S)",  # all but the last of several blanks: that one belongs to the next word
            r"\s",
        )
    )
    return pre_tokenizers.Split(tokenizers.Regex(pattern), behavior="isolated")


def _alphabet(counts: Counter[str], config: TokenizerConfig, tags: Sequence[str]) -> set[str]:
    """Choose the characters that get ids of their own, most frequent first."""
    room = config.vocab_size - config.num_reserved - len(tags)
    # With bytes to fall back on, half the room is kept for pieces of several characters: Chinese
    # has thousands of characters, and most of them are rarer than most words. The unigram trainer
    # never ends where single characters fill the room.
    limit = room if config.kind == "bpe" and not config.byte_fallback else room // 2
    frequent = [item for item in counts.items() if item[1] >= config.min_frequency]
    frequent.sort(key=lambda item: (-item[1], item[0]))
    return {character for character, _ in frequent[:limit]} - {*_DROPPED}


def _learn_bpe(
    text: Iterable[str], alphabet: list[str], config: TokenizerConfig, tags: Sequence[str]
) -> dict[str, Any]:
    reserved = _reserved(config, tags)
    scratch = tokenizers.Tokenizer(models.BPE())
    scratch.pre_tokenizer = _pre_tokenizer(config, tags)
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
    text: Iterable[str], alphabet: list[str], config: TokenizerConfig, tags: Sequence[str]
) -> dict[str, Any]:
    reserved = _reserved(config, tags)
    scratch = tokenizers.Tokenizer(models.Unigram())
    scratch.pre_tokenizer = _pre_tokenizer(config, tags, rf"\A[^{_MARK}]+{_MARK}\z")
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
    text: Iterable[str], config: TokenizerConfig, tags: Sequence[str]
) -> Iterator[str]:
    """Give the text, then each repeated word of it once more with a mark at its end.

    The trainer takes as candidates only what is followed by two different things, and it looks
    at each distinct word once. A word that is part of no other word would never be one piece
    (on Multi30k that costs 18 % more tokens).
    """
    words = _pre_tokenizer(config, tags)
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


def _reserved(config: TokenizerConfig, tags: Sequence[str]) -> tuple[str, ...]:
    return (*SPECIALS, *(BYTES if config.byte_fallback else ()), *tags)


def _assemble(model: dict[str, Any], config: TokenizerConfig, tags: Sequence[str]) -> str:
    """Return the text of the `tokenizer.json` around a learned model."""
    shell = tokenizers.Tokenizer(models.BPE())
    shell.normalizer = _normalizer(config)
    shell.pre_tokenizer = _pre_tokenizer(config, tags)
    shell.decoder = decoders.Sequence(
        [
            decoders.Replace(SPECIALS[UNK_ID], "\ufffd"),
            decoders.Replace(tokenizers.Regex(rf"\A<(?:pad|s|/s{_alternatives(tags)})>\z"), ""),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    if tags:
        shell.post_processor = processors.TemplateProcessing(
            single="$A",
            special_tokens=[(tag, config.num_reserved + i) for i, tag in enumerate(tags)],
        )
    whole = json.loads(shell.to_str())
    whole["model"] = model
    return json.dumps(whole, ensure_ascii=False, indent=1) + "\n"

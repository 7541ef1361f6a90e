"""A tokenizer that came with somebody else's model: its own rules, its ids by role."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from gnomon.errors import DataError, ModelError
from gnomon.files import write_atomically
from gnomon.text.framing import TOKENIZER_FILE, Framed, check_pairs
from gnomon.text.ragged import Ragged

_AT_ONCE = 2000  # texts handed over at a time, as for gnomon's own


@dataclass(frozen=True, kw_only=True)
class TokenizerRoles:
    """What a `tokenizer.json` does not say: which id has which role.

    Attributes:
        pad, unk, bos, eos, cls, sep, mask: ids; None: the vocabulary has none.
        num_ids: ids from here on stand for pieces that the model does not know; they become
            `unk`. None: all are known.
        tags: names that may stand in front of a source ("<2de>", ">>fra<<"), with their ids.
        chat_template: text, never run by gnomon itself.
    """

    pad: int | None = None
    unk: int | None = None
    bos: int | None = None
    eos: int | None = None
    cls: int | None = None
    sep: int | None = None
    mask: int | None = None
    num_ids: int | None = None
    tags: dict[str, int] | None = None
    chat_template: str | None = None


def roles_path(path: Path) -> Path:
    """Where the roles of the tokenizer at `path` lie."""
    return path.with_name(f"{path.stem}.roles.json")


class PretrainedTokenizer:
    """Any tokenizer that the package `tokenizers` reads, with the special tokens it puts around."""

    def __init__(self, serialized: str, roles: TokenizerRoles) -> None:
        """Build from the text of a `tokenizer.json` and the ids by role.

        Raises:
            ModelError: it cannot be read, or an id lies outside its vocabulary.
        """
        try:
            self._tokenizer = tokenizers.Tokenizer.from_str(serialized)
        except Exception as error:  # the Rust side raises bare Exception
            raise ModelError("a tokenizer file must be whole and readable", seen=error) from error
        # Both are settings of one use; a file may come with those of its author's.
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._serialized = serialized
        self.roles = roles
        found = self._tokenizer.get_vocab(with_added_tokens=True)
        size = max(found.values(), default=-1) + 1
        self.vocab_size: int = size if roles.num_ids is None else min(size, roles.num_ids)
        for name, index in asdict(roles).items():
            if isinstance(index, int) and name != "num_ids" and not 0 <= index < size:
                raise ModelError(
                    "a special token must be in the vocabulary", seen=f"{name} = {index} of {size}"
                )
        self._tags = dict(roles.tags or {})
        written = json.dumps(asdict(roles), sort_keys=True)
        self.fingerprint = hashlib.sha256(f"{serialized}\0{written}".encode()).hexdigest()
        self.prefix, self.suffix = self._around()

    def _around(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Ids that the post-processor puts before and behind one text."""
        for probe in ("a", "0", "的", "."):
            encoding = self._tokenizer.encode(probe)
            inner = [i for i, special in enumerate(encoding.special_tokens_mask) if not special]
            if inner:
                ids = encoding.ids
                return tuple(ids[: inner[0]]), tuple(ids[inner[-1] + 1 :])
        return (), ()

    @classmethod
    def load(cls, path: str | Path) -> PretrainedTokenizer:
        """Read what `save` wrote.

        Raises:
            ModelError: no such files, or damaged ones.
        """
        path = Path(path)
        try:
            roles = TypeAdapter(TokenizerRoles).validate_json(roles_path(path).read_bytes())
            return cls(path.read_bytes().decode("utf-8"), roles)
        except (OSError, UnicodeDecodeError, ValidationError) as error:
            raise ModelError("a tokenizer's files must be readable", seen=error) from error

    def save(self, folder: Path) -> None:
        """Write it into a model folder."""
        self.save_as(folder / TOKENIZER_FILE)

    def save_as(self, path: Path) -> None:
        """Write the `tokenizer.json` as it came, and the roles beside it."""
        write_atomically(path, self._serialized)
        text = json.dumps(asdict(self.roles), indent=1, ensure_ascii=False) + "\n"
        write_atomically(roles_path(path), text)

    @property
    def pad_id(self) -> int:
        """Fills up short rows; any id where the vocabulary has none for it, as it is hidden."""
        return next(i for i in (self.roles.pad, self.roles.eos, 0) if i is not None)

    @property
    def unk_id(self) -> int | None:
        """Stands for what the vocabulary cannot spell."""
        return self.roles.unk

    @property
    def bos_id(self) -> int | None:
        """Begins a text."""
        return self.roles.bos

    @property
    def eos_id(self) -> int | None:
        """Ends a text."""
        return self.roles.eos

    @property
    def mask_id(self) -> int | None:
        """Stands for a hidden token."""
        return self.roles.mask

    @property
    def special_ids(self) -> list[int]:
        """Every id that stands for no text."""
        added = self._tokenizer.get_added_tokens_decoder()
        found = {index for index, token in added.items() if token.special}
        named = asdict(self.roles)
        found |= {i for n, i in named.items() if isinstance(i, int) and n != "num_ids"}
        return sorted(found)

    @property
    def tags(self) -> tuple[str, ...]:
        """Names that may stand in front of a source."""
        return tuple(self._tags)

    def tag_ids(self, tags: Sequence[str]) -> list[int]:
        """Return the ids of some tags.

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
        """Return the ids of each text alone, without special tokens.

        Raises:
            DataError: a text holds a lone surrogate, which no encoding can carry.
        """
        fronts, rest = self._without_tags(texts)
        encoded = [self._known(each.ids) for each in self._encodings(rest, special=False)]
        return [[*front, *ids] for front, ids in zip(fronts, encoded, strict=True)]

    def frame(
        self,
        texts: Sequence[str],
        pairs: Sequence[str] | None = None,
        *,
        max_length: int | None = None,
    ) -> list[Framed]:
        """The rows of some texts with the special tokens that the post-processor sets.

        Args:
            pairs: second texts, one for one.
            max_length: ids to keep, special tokens included; the longer text of two loses first.

        Raises:
            DataError: as `encode`; not as many second texts as first ones; no room for a token.
        """
        if pairs is not None:
            check_pairs(texts, pairs)
        inputs = list(texts) if pairs is None else list(zip(texts, pairs, strict=True))
        num_special = self._tokenizer.num_special_tokens_to_add(pairs is not None)
        if max_length is not None and max_length <= num_special + (pairs is not None):
            raise DataError(
                "a row must have room for a token of each text beside the special ones",
                seen=f"a longest row of {max_length} tokens, {num_special} of them special",
            )
        if max_length is not None:
            self._tokenizer.enable_truncation(max_length, strategy="longest_first")
        try:
            encodings = self._encodings(inputs, special=True)
        finally:
            self._tokenizer.no_truncation()
        cut = [place for place, each in enumerate(encodings) if each.overflowing]
        # What overflows of two texts is given in combinations, so the whole is looked at again.
        whole = self._encodings([inputs[place] for place in cut], special=True)
        lengths = {place: len(each.ids) for place, each in zip(cut, whole, strict=True)}
        return [
            Framed(
                self._known(each.ids),
                list(each.type_ids),
                [
                    span if sequence == 0 else None
                    for span, sequence in zip(each.offsets, each.sequence_ids, strict=True)
                ],
                lengths.get(place, len(each.ids)) - len(each.ids),
            )
            for place, each in enumerate(encodings)
        ]

    def encode_words(self, texts: Sequence[str]) -> tuple[Ragged, NDArray[np.int64]]:
        """Refuse: a token store is written with a vocabulary that gnomon learned.

        Raises:
            ModelError: always.
        """
        raise ModelError(
            "a translation model is trained with a vocabulary that gnomon learned",
            seen="a vocabulary that came with somebody else's model",
            mend="use the model as it is, or train one of your own",
        )

    def _encodings(self, inputs: Sequence[Any], *, special: bool) -> list[Any]:
        found: list[Any] = []
        try:
            for first in range(0, len(inputs), _AT_ONCE):
                part = list(inputs[first : first + _AT_ONCE])
                found += self._tokenizer.encode_batch(part, add_special_tokens=special)
        except (TypeError, UnicodeEncodeError) as error:
            raise DataError(
                "texts must be strings without lone surrogates",
                seen=error,
                mend='decode the bytes with errors="replace" first',
            ) from error
        return found

    def _known(self, ids: list[int]) -> list[int]:
        limit, unknown = self.roles.num_ids, self.roles.unk
        if limit is None or unknown is None:
            return ids
        return [index if index < limit else unknown for index in ids]

    def _without_tags(self, texts: Sequence[str]) -> tuple[list[list[int]], list[str]]:
        """Tags that are written in front of texts, and the texts without them."""
        if not self._tags:
            return [[] for _ in texts], list(texts)
        names = "|".join(map(re.escape, sorted(self._tags, key=len, reverse=True)))
        pattern = re.compile(rf"\A(?:{names})")
        fronts, rest = [], []
        for text in texts:
            match = pattern.match(text)
            fronts.append([self._tags[match[0]]] if match else [])
            rest.append(text[match.end() :] if match else text)
        return fronts, rest

    def spans(self, texts: Sequence[str]) -> list[list[tuple[int, int]]]:
        """Where in its text each id of `encode` stands: start and end, in characters."""
        fronts, rest = self._without_tags(texts)
        found = []
        for text, front, remaining, encoding in zip(
            texts, fronts, rest, self._encodings(rest, special=False), strict=True
        ):
            cut = len(text) - len(remaining)
            moved = [(start + cut, end + cut) for start, end in encoding.offsets]
            found.append([(0, cut)] * len(front) + moved)
        return found

    def decode(self, ids: Iterable[Sequence[int]]) -> list[str]:
        """Return the text of each row of ids; special tokens vanish.

        Raises:
            ModelError: an id is negative.
        """
        rows = [list(map(int, row)) for row in ids]
        if any(row and min(row) < 0 for row in rows):
            raise ModelError("ids are not negative", seen=min(min(row) for row in rows if row))
        texts: list[str] = self._tokenizer.decode_batch(rows, skip_special_tokens=True)
        return texts

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the written form of each id, for people to look at."""
        return [str(self._tokenizer.id_to_token(int(index))) for index in ids]

    def normalise(self, text: str) -> str:
        """Return what `decode(encode(text))` gives."""
        return self.decode(self.encode([text]))[0]

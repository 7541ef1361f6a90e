"""The tokenizers of a translation model's two sides, as one thing to train, save and load."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from gnomon.errors import ModelError
from gnomon.text.pretrained import PretrainedTokenizer, roles_path
from gnomon.text.tokenizer import Tokenizer
from gnomon.text.tokenizer_config import TokenizerConfig
from gnomon.text.tokenizer_learning import rereadable

_JOINT = "tokenizer.json"
_SOURCE = "tokenizer.source.json"
_TARGET = "tokenizer.target.json"


AnyTokenizer = Tokenizer | PretrainedTokenizer


@dataclass(frozen=True)
class TokenizerPair:
    """Source and target tokenizer; the same object twice where the vocabulary is joint."""

    source: AnyTokenizer
    target: AnyTokenizer

    @classmethod
    def train(
        cls,
        sources: Iterable[str],
        targets: Iterable[str],
        config: TokenizerConfig,
        tags: Sequence[str] = (),
    ) -> TokenizerPair:
        """Learn one vocabulary from both sides, or one from each, as `config.joint` says.

        Args:
            sources, targets: texts, without tags.
            config: see `TokenizerConfig`.
            tags: what may stand in front of a source.

        Raises:
            DataError: a side holds nothing to learn from.
        """
        if config.joint:
            both = Tokenizer.train(_OneAfterOther(sources, targets), config, tags)
            return cls(both, both)
        return cls(Tokenizer.train(sources, config, tags), Tokenizer.train(targets, config))

    def encode_sources(
        self, texts: Sequence[str], tags: Sequence[Sequence[str]]
    ) -> list[list[int]]:
        """Return the ids of each source behind those of its tags, without end of sentence.

        Raises:
            DataError: an unknown tag, or a text that no encoding can carry.
        """
        # Few combinations, many texts: each combination is looked up once.
        prefixes = {some: self.source.tag_ids(some) for some in set(map(tuple, tags))}
        encoded = self.source.encode(texts)
        return [[*prefixes[tuple(some)], *ids] for some, ids in zip(tags, encoded, strict=True)]

    @classmethod
    def open(cls, source: str | Path, target: str | Path | None = None) -> TokenizerPair:
        """Read given vocabularies, `tokenizer.json` or SentencePiece; one file serves both sides.

        Raises:
            ModelError: a file cannot be used; see `Tokenizer.load`.
        """
        first = Tokenizer.load(source)
        return cls(first, first if target is None else Tokenizer.load(target))

    def own(self) -> tuple[Tokenizer, Tokenizer]:
        """Both, where gnomon learned them, as it must to train.

        Raises:
            ModelError: they came with somebody else's model.
        """
        if isinstance(self.source, Tokenizer) and isinstance(self.target, Tokenizer):
            return self.source, self.target
        raise ModelError(
            "a translation model is trained with a vocabulary that gnomon learned",
            seen="a vocabulary that came with somebody else's model",
            mend="use the model as it is, or train one of your own",
        )

    @property
    def joint(self) -> bool:
        """Whether both sides share one vocabulary."""
        return self.source is self.target

    @property
    def fingerprint(self) -> str:
        """Hex digest of both vocabularies."""
        both = f"{self.source.fingerprint} {self.target.fingerprint}"
        return hashlib.sha256(both.encode()).hexdigest()

    def save(self, folder: str | Path) -> None:
        """Write `tokenizer.json`, or `tokenizer.source.json` and `tokenizer.target.json`."""
        folder = Path(folder)
        if self.joint:
            self.source.save_as(folder / _JOINT)
        else:
            self.source.save_as(folder / _SOURCE)
            self.target.save_as(folder / _TARGET)

    @classmethod
    def load(cls, folder: str | Path) -> TokenizerPair:
        """Read what `save` wrote.

        Raises:
            ModelError: the folder holds no tokenizer, or one that gnomon did not write.
        """
        folder = Path(folder)
        if (folder / _JOINT).exists():
            both = load_tokenizer(folder / _JOINT)
            return cls(both, both)
        if not (folder / _SOURCE).exists():
            raise ModelError(
                f"a model folder must hold {_JOINT}, or {_SOURCE} and {_TARGET}",
                seen=folder,
                mend="name a folder that gnomon wrote",
            )
        return cls(load_tokenizer(folder / _SOURCE), load_tokenizer(folder / _TARGET))


def load_tokenizer(path: Path) -> AnyTokenizer:
    """A tokenizer in a model folder, gnomon's own or one that came with the model.

    Raises:
        ModelError: it cannot be read.
    """
    if roles_path(path).is_file():
        return PretrainedTokenizer.load(path)
    return Tokenizer.load(path)


class _OneAfterOther:
    """The lines of both sides, to be gone through any number of times."""

    def __init__(self, *sides: Iterable[str]) -> None:
        self._sides = [rereadable(side) for side in sides]

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(self._sides)

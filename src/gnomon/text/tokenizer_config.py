"""The recipe table `[tokenizer]`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal

from gnomon.text.reserved import BYTES, SPECIALS


@dataclass(frozen=True, kw_only=True)
class VocabularyConfig:
    """How text is cut into subwords: what holds for one text as for two."""

    # A vocabulary to use instead of learning one: a SentencePiece .model or a tokenizer.json that
    # gnomon wrote.
    model_file: str | None = None
    # characters: each is a piece; line breaks too, where texts hold them
    kind: Literal["bpe", "unigram", "characters"] = "bpe"
    vocab_size: int = 8000  # upper bound on ids, special and byte ids included
    byte_fallback: bool = True  # unknown characters become bytes; False: they become <unk>
    min_frequency: int = 2  # rarer characters and merges are not learned
    # Each digit its own piece, so that numbers never seen are spelled from what was seen often;
    # costs tokens only where there are numbers.
    split_digits: bool = True
    lowercase: bool = False
    normalization: Literal["nfc", "nfkc", "none"] = "nfc"

    paths: ClassVar[tuple[str, ...]] = ("model_file",)

    @property
    def num_reserved(self) -> int:
        """Ids that are not learned from text: specials and bytes."""
        return len(SPECIALS) + (len(BYTES) if self.byte_fallback else 0)

    def vocabulary_options(self) -> dict[str, Any]:
        """Options that decide which vocabulary is learned from a text."""
        return asdict(self)

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
        return found

    def unused(self) -> list[str]:
        """Return every key that has no effect beside the others."""
        found = []
        default = type(self)()
        if self.kind == "characters" and self.split_digits != default.split_digits:
            found.append("tokenizer.split_digits has no effect: every character is a piece")
        if self.model_file is not None:
            found += [
                f"tokenizer.{key} has no effect beside tokenizer.model_file, which decides it"
                for key in _LEARNING
                if getattr(self, key) != getattr(default, key)
            ]
        return found


@dataclass(frozen=True, kw_only=True)
class TokenizerConfig(VocabularyConfig):
    """The same for source and target, of which the target may have a vocabulary of its own."""

    target_model_file: str | None = None  # of the target, where joint = false
    joint: bool = True  # one vocabulary for source and target, as tied embeddings need

    # Training text is segmented anew with merges left out, each with this probability; validation,
    # evaluation and translation never are. 0 for none; 0.1 is what the paper found best.
    bpe_dropout: float = 0.0

    paths: ClassVar[tuple[str, ...]] = ("model_file", "target_model_file")

    def vocabulary_options(self) -> dict[str, Any]:
        """Options that decide which vocabulary is learned from a text."""
        options = super().vocabulary_options()
        del options["bpe_dropout"]
        return options

    def problems(self, num_tags: int = 0) -> list[str]:
        """Return every rule broken across fields; empty if all is well."""
        found = super().problems(num_tags)
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
        return found


# Keys that say how a vocabulary is learned.
_LEARNING = (
    *("kind", "vocab_size", "byte_fallback", "min_frequency"),
    *("split_digits", "lowercase", "normalization"),
)

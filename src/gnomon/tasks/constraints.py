"""From what a user wants of the outputs, as text, to constraints on tokens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from gnomon.decoding import Constraints, SearchConfig, TokenAutomaton, essential
from gnomon.errors import DataError
from gnomon.tasks.banned import BannedPhrases
from gnomon.tasks.prefix import ForcedPrefix
from gnomon.tasks.spelling import Spelling
from gnomon.tasks.terminology import Terminology
from gnomon.text import EOS_ID, UNK_ID, Tokenizer


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """What the outputs must begin with, contain and not contain.

    Attributes:
        prefixes: one per text; None or blank: no such wish.
        required: phrases per text.
        banned: phrases for all texts.
        terminology: asks for more required phrases, by the words of each text.
    """

    prefixes: Sequence[str | None] | None = None
    required: Sequence[Sequence[str]] | None = None
    banned: Sequence[str] = ()
    terminology: Terminology | None = None

    def problems(self, num_texts: int, search: SearchConfig) -> list[str]:
        """What is wrong with these values beside so many texts and this search."""
        found = []
        for name in ("prefixes", "required"):
            given = getattr(self, name)
            if isinstance(given, str) or (given is not None and len(given) != num_texts):
                found.append(f"{name} must be a list with one entry per text ({num_texts})")
        if isinstance(self.banned, str):
            found.append("banned must be a list of phrases")
        if self.required is not None and any(isinstance(each, str) for each in self.required):
            found.append("required must hold a list of phrases for each text")
        names = [name for name in ("required", "terminology") if getattr(self, name)]
        if names and search.sample:
            found.append(f"{names[0]} needs beam search: sampling cannot promise a phrase")
        elif names and search.beam < 2:
            found.append(f"{names[0]} needs hypotheses to choose among: beam 2 or more, not 1")
        return found

    def of_parts(self, num_parts: Sequence[int], first: int) -> Wishes:
        """The wishes for the parts of texts that are translated in parts.

        A prefix begins the first part; terms are looked for in each part.

        Raises:
            DataError: phrases are required of a text in parts: nobody knows of which.
        """
        if all(count == 1 for count in num_parts):
            return self
        required: list[Sequence[str]] | None = None
        prefixes: list[str | None] | None = None
        if self.required is not None:
            for i, (phrases, count) in enumerate(zip(self.required, num_parts, strict=True)):
                if count > 1 and any(phrase.strip() for phrase in phrases):
                    raise DataError(
                        f"line {first + i + 1}: required phrases need a text in one piece",
                        seen=f"it is translated in {count} parts",
                        mend="split the line and its phrases yourself, or set split to never",
                    )
            both = zip(self.required, num_parts, strict=True)
            required = [phrases for phrases, count in both for _ in range(count)]
        if self.prefixes is not None:
            prefixes = [
                prefix if part == 0 else None
                for prefix, count in zip(self.prefixes, num_parts, strict=True)
                for part in range(count)
            ]
        return replace(self, required=required, prefixes=prefixes)

    def __bool__(self) -> bool:
        return bool(self.prefixes or self.required or self.banned or self.terminology)


class ConstraintCompiler:
    """Turns wishes into constraints, one text at a time; for the target side's tokenizer."""

    def __init__(self, tokenizer: Tokenizer, banned: Iterable[str] = ()) -> None:
        self.tokenizer = tokenizer
        self.spelling = Spelling(tokenizer)
        phrases = [tokenizer.normalise(" ".join(each.split())) for each in banned if each.strip()]
        automaton = BannedPhrases(phrases, self.spelling, EOS_ID)
        self.banned = None if automaton.empty else automaton

    def constraints(
        self, prefix: str | None, required: Sequence[str], limit: int, name: str
    ) -> Constraints:
        """The constraints of one text.

        Args:
            limit: the longest output in tokens, EOS included.
            name: of the text, for messages.

        Raises:
            DataError: a phrase cannot be written by the tokens, is banned too, or what is asked
                for does not fit the limit.
        """
        phrases = essential([self._ids(each, name) for each in required if each.strip()])
        for phrase in phrases:
            self._refuse_banned([*phrase, EOS_ID], phrase, name)
        forced: TokenAutomaton | None = None
        needed = sum(map(len, phrases))
        if prefix is not None and prefix.strip():
            ids = self._ids(prefix, name, strip=False)
            self._refuse_banned(ids, ids, name)
            needed += len(ids)
            automaton = ForcedPrefix(ids, self.spelling)
            if automaton.longest + sum(map(len, phrases)) >= limit:
                automaton = ForcedPrefix(ids, self.spelling, free_tail=False)
            forced = automaton
        if needed >= limit:
            raise DataError(
                f"{name}: the prefix and the required phrases must fit the longest output",
                seen=f"{needed} tokens and the end of the sentence, for a limit of {limit}",
                mend="ask for less, or raise max_length_offset",
            )
        return Constraints(prefix=forced, banned=self.banned, required=tuple(phrases))

    def _ids(self, text: str, name: str, *, strip: bool = True) -> tuple[int, ...]:
        text = " ".join(text.split()) if strip else text.replace("\n", " ")
        (ids,) = self.tokenizer.encode([text])
        if UNK_ID in ids:
            raise DataError(
                f"{name}: the model's vocabulary must be able to write every prefix and phrase",
                seen=text,
                mend="leave it out; a tokenizer with byte_fallback = true can write everything",
            )
        return tuple(ids)

    def _refuse_banned(self, walked: Sequence[int], ids: Sequence[int], name: str) -> None:
        if self.banned is None:
            return
        state = self.banned.start
        for token in walked:
            if not self.banned.allowed(state)[token]:
                (text,) = self.tokenizer.decode([ids])
                raise DataError(f"{name}: what is asked for must not be banned too", seen=text)
            state = self.banned.after(state, token)

    def compile(
        self,
        wishes: Wishes,
        texts: Sequence[str],
        limits: Sequence[int],
        numbers: Sequence[int],
    ) -> list[Constraints]:
        """The constraints of each text; see `constraints`. A blank text, which stays so, has none.

        Args:
            numbers: of the lines that the texts come from, for messages.
        """
        found = []
        for i, (text, limit) in enumerate(zip(texts, limits, strict=True)):
            if not text.strip():
                found.append(Constraints())
                continue
            required = [] if wishes.required is None else list(wishes.required[i])
            if wishes.terminology is not None:
                required += wishes.terminology.required(text)
            prefix = None if wishes.prefixes is None else wishes.prefixes[i]
            found.append(self.constraints(prefix, required, limit, f"line {numbers[i]}"))
        return found

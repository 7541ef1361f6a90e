"""Source terms and the target terms that their translation must contain."""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from gnomon.errors import DataError
from gnomon.text import is_word_edge, read_lines


class Terminology:
    """A list of source terms, each with the one target term it must be translated by.

    Args:
        terms: pairs of source and target term.
        ignore_case: whether source terms are found in other case too. The target term is taken
            as it is written.

    Raises:
        DataError: an empty term, or two translations for one source term.
    """

    def __init__(self, terms: Iterable[tuple[str, str]], *, ignore_case: bool = False) -> None:
        self.ignore_case = ignore_case
        self.targets: dict[str, str] = {}  # the target term of each source term, in its normal form
        self._by_first: dict[str, list[str]] = defaultdict(list)
        for source, target in terms:
            term, target = self._normal(source.strip()), target.strip()
            if not term or not target:
                raise DataError(
                    "a term and its translation must not be empty",
                    seen=f"{source!r} and {target!r}",
                )
            if self.targets.setdefault(term, target) != target:
                raise DataError(
                    "a source term has one translation",
                    seen=f"{source!r}: {self.targets[term]!r} and {target!r}",
                    mend="keep one of the two",
                )
        for term in sorted(self.targets, key=len, reverse=True):
            self._by_first[term[0]].append(term)

    @classmethod
    def load(cls, path: str | Path, *, ignore_case: bool = False) -> Terminology:
        """Read a file with source TAB target on every line; blank lines do not count.

        Raises:
            DataError: unreadable, or a line without its two parts.
        """
        terms = []
        for number, line in enumerate(read_lines(Path(path)), 1):
            if not line.strip():
                continue
            parts = line.split("\t")
            if len(parts) != 2 or not parts[0].strip() or not parts[1].strip():
                raise DataError(
                    "a terminology line is source TAB target",
                    seen=f"{path}, line {number}: {line!r}",
                )
            terms.append((parts[0], parts[1]))
        return cls(terms, ignore_case=ignore_case)

    def required(self, text: str) -> list[str]:
        """Target terms of the source terms that stand in `text` as whole words, each once.

        Where terms overlap the one that begins first counts, of those the longest.
        """
        text = self._normal(text)
        found: dict[str, None] = {}
        place = 0
        while place < len(text):
            term = self._term_at(text, place)
            if term is None:
                place += 1
            else:
                found[self.targets[term]] = None
                place += len(term)
        return list(found)

    def _term_at(self, text: str, place: int) -> str | None:
        candidates = self._by_first.get(text[place], ())
        if not candidates or not is_word_edge(text, place):
            return None
        for term in candidates:
            if text.startswith(term, place) and is_word_edge(text, place + len(term)):
                return term
        return None

    def _normal(self, text: str) -> str:
        text = unicodedata.normalize("NFC", text)
        return text.casefold() if self.ignore_case else text

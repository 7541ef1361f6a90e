"""ROUGE-1, ROUGE-2 and ROUGE-L of summaries and titles (Lin 2004), by Google's package rouge-score.

That package throws away whatever is not a to z or a digit before it counts: a Chinese title has no
words at all for it and scores 0, a French one falls to pieces at its accents. Here it is given
words of any script, and single characters where a script has no blanks between words; of English
text these are its own words exactly.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import numpy as np

from gnomon.errors import DataError
from gnomon.evaluation.measure import Rows, TextMeasure, check_lines
from gnomon.text.scripts import UNSPACED, script_of

_ENGLISH = re.compile("[a-z0-9]+")
_SHORTEST_STEMMED = 4  # letters, as in Lin's script


class RougeWords:
    """Cuts text into what ROUGE counts, in lower case.

    Args:
        characters: every letter and digit by itself, whatever its script.
        stem: English words lose their endings (Porter 1980).
    """

    def __init__(self, *, characters: bool = False, stem: bool = False) -> None:
        self.characters = characters
        self._stem = _stemmer() if stem else None

    def tokenize(self, text: str) -> list[str]:
        """The words, punctuation and "_" left out."""
        text = text.lower()
        if text.isascii() and not self.characters:
            words = _ENGLISH.findall(text)
        else:
            words = _words(text, self.characters)
        if self._stem is None:
            return words
        return [
            self._stem(word) if len(word) >= _SHORTEST_STEMMED and word.isascii() else word
            for word in words
        ]


class Rouge(TextMeasure):
    """Mean over lines of an F-measure, in percent: n-grams or the longest common subsequence.

    A line whose output or reference holds no word scores 0.

    Args:
        name: "rouge1", "rouge2" or "rougeL".
        characters, stem: see `RougeWords`.

    Raises:
        DataError: the package is not there.
    """

    def __init__(self, name: str, *, characters: bool = False, stem: bool = False) -> None:
        self.name = name
        self._units = "char" if characters else "words"
        self._is_stemmed = "porter" if stem else "no"
        self._scorer = _scorers().RougeScorer(
            [name], tokenizer=RougeWords(characters=characters, stem=stem)
        )

    def rows(self, hypotheses: Sequence[str], references: Sequence[str]) -> Rows:
        """Precision, recall and F-measure of each line, and 1."""
        check_lines(hypotheses, references)
        found = [
            self._scorer.score(reference, hypothesis)[self.name]
            for hypothesis, reference in zip(hypotheses, references, strict=True)
        ]
        return np.array([(*one, 1.0) for one in found], dtype=np.float64)

    def value(self, sums: Rows) -> float:
        """The mean F-measure."""
        return float(100.0 * sums[2] / sums[3])

    def details(self, sums: Rows) -> str:
        """Mean precision and recall."""
        precision, recall, _, count = sums
        return f"P {100 * precision / count:.1f} R {100 * recall / count:.1f}"

    def signature(self) -> str:
        """How lines were read."""
        package = version("rouge-score")
        return (
            f"nrefs:1|case:lc|tok:{self._units}|stem:{self._is_stemmed}|mean:F1|"
            f"version:rouge-score-{package}"
        )


def _words(text: str, characters: bool) -> list[str]:
    found: list[str] = []
    is_open = False  # whether the last word goes on
    for character in text:
        is_mark = unicodedata.category(character)[0] == "M"
        if not (is_mark or character.isalnum()):
            is_open = False
        elif is_mark and found and is_open:
            found[-1] += character
        else:
            is_alone = characters or script_of(character) in UNSPACED
            if is_open and not is_alone and not _is_alone_at_end(found[-1]):
                found[-1] += character
            else:
                found.append(character)
            is_open = True
    return found


def _is_alone_at_end(word: str) -> bool:
    return script_of(word[0]) in UNSPACED


def _scorers() -> Any:
    try:
        from rouge_score import rouge_scorer
    except ImportError as error:
        raise DataError(
            "ROUGE is counted by a package that is not installed",
            seen=error,
            mend="pip install 'gnomon[rouge]'",
        ) from error
    return rouge_scorer


def _stemmer() -> Any:
    try:
        from nltk.stem.porter import PorterStemmer
    except ImportError as error:
        raise DataError(
            "ROUGE's stems are made by a package that is not installed",
            seen=error,
            mend="pip install 'gnomon[rouge]'",
        ) from error
    return PorterStemmer().stem

"""A long text as parts that a model can take: sentences, and where need be pieces of them.

Sentence ends are found by `sentencex` (rules and abbreviations for some 300 languages; nothing is
lost, a line of 10,000 words takes a millisecond).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

Lengths = Callable[[Sequence[str]], list[int]]

# Where a sentence may be divided, best first: after a clause, at a blank, before any character.
_CLAUSES = re.compile(r"[,;:–—]\s+|[、，；：،؛]\s*")
_BLANKS = re.compile(r"\s+")
_CHARACTERS = re.compile(r".(?![\u0300-\u036f\u200d\ufe0e\ufe0f])", re.DOTALL)
# What `str.splitlines` takes for the end of a line.
_LINE_BREAKS = re.compile("[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
# Scripts that put no blank between sentences, their punctuation and full-width forms included.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3000-\u30ff\u31f0-\u31ff\u3400-\u9fff"
    "\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]"
)


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a text to be handled by itself.

    Attributes:
        text: without white space around it; never blank.
        gap: the white space between it and the next part.
        divided: it is a piece of a sentence that was too long to be one part.
    """

    text: str
    gap: str
    divided: bool = False


def sentences(text: str, language: str = "en") -> list[str]:
    """Cut a text into sentences, each with the white space after it; joined they are the text.

    Args:
        language: code of the language whose abbreviations are known; any other is cut by
            punctuation, which also serves scripts with full stops of their own.
    """
    from sentencex import segment

    found: list[str] = segment(language, text)
    return found if "".join(found) == text else [text]


def parts(text: str, lengths: Lengths, limit: int | None, language: str = "en") -> list[Part]:
    """Cut a text into its sentences, and those that are too long into pieces of like length.

    Args:
        text: not blank.
        lengths: how long each of some texts is, in tokens.
        limit: the longest part; None divides no sentence.
        language: see `sentences`.
    """
    found = []
    for sentence in sentences(text, language):
        pieces = [sentence] if limit is None else list(_pieces(sentence, lengths, limit))
        for piece in pieces:
            if stripped := piece.strip():
                gap = piece[len(piece.rstrip()) :]
                found.append(Part(stripped, gap, divided=len(pieces) > 1))
    return found


def _pieces(sentence: str, lengths: Lengths, limit: int) -> Iterator[str]:
    """Divide in the middle, again and again, until all pieces are within the limit."""
    if lengths([sentence.strip()])[0] <= limit or (place := _middle(sentence)) is None:
        yield sentence
        return
    yield from _pieces(sentence[:place], lengths, limit)
    yield from _pieces(sentence[place:], lengths, limit)


def _middle(text: str) -> int | None:
    """The best place to divide: of the best kind there is in the middle half, nearest the middle.

    None for a text that cannot be divided, a single character.
    """
    whole = text.strip()
    offset, middle, quarter = text.index(whole), len(whole) / 2, len(whole) // 4
    for pattern, margin in ((_CLAUSES, quarter), (_BLANKS, quarter), (_CHARACTERS, 0)):
        ends = (match.end() for match in pattern.finditer(whole, margin))
        places = [place for place in ends if 0 < place < len(whole) - margin]
        if places:
            return offset + min(places, key=lambda place: abs(place - middle))
    return None


def join(texts: Sequence[str], gaps: Sequence[str]) -> str:
    """Put the translations of parts together on one line, with the white space of the original.

    Where the original has none, or a single blank, the script that is written decides: no blank
    between two characters of a script that has none there, one otherwise.

    Args:
        gaps: what followed each part in the original; the last is not used.
    """
    line, gap = "", ""
    for text, following in zip(texts, gaps, strict=True):
        text = text.strip()
        if text:
            line += (_fitting(line, gap, text) if line else "") + text
            gap = following
    return line


def _fitting(before: str, gap: str, after: str) -> str:
    unspaced = [_UNSPACED.match(character) is not None for character in (before[-1], after[0])]
    if gap == "":
        return "" if any(unspaced) else " "
    if gap == " " and all(unspaced):
        return ""
    return _LINE_BREAKS.sub(" ", gap)

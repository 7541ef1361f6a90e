"""A phrase is said once, as a function of the language; both sides of a pair come from it.

So the target is right by construction: the same CLDR pattern, filled with the same values, is
spoken in English and in the target language. Nothing is ever joined by hand, only by CLDR's own
list, interval and unit patterns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from babel import Locale
from babel.lists import format_list

from gnomon.quickstart.split import Draw

ENGLISH = Locale("en")
BRITISH = Locale("en", "GB")


class Unsayable(Exception):
    """The target language has no right way, or none we know, to say this phrase."""


@dataclass(frozen=True, slots=True)
class Phrase:
    """Something to say: `say(locale)` gives its text in that language.

    `names` lists what it speaks of by name ("territory/FR", "length-mile" …), so that the
    corpus can see to it that every name of a held-out line is known from other templates.
    """

    say: Callable[[Locale], str]
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """One way to make phrases: `draw` fills it with chance values."""

    kind: str
    name: str
    draw: Callable[[Draw], Phrase]
    # Its share of the corpus, relative to the other templates.
    weight: float
    # The English to say it in: British and American dates differ.
    english: Locale = ENGLISH


ListStyle = Literal["standard", "or", "unit"]
Length = Literal["long", "short"]


def listed(phrases: Sequence[Phrase], style: ListStyle) -> Phrase:
    """Several phrases joined by CLDR's list pattern, such as "A, B, and C" ("standard").

    `style` is "standard" (and), "or" or "unit" (the parts of one quantity).
    """

    def say(locale: Locale) -> str:
        items = [phrase.say(locale) for phrase in phrases]
        if style != "unit":
            _refuse_sound_changes(locale, items)
        return _list_pattern(str(locale), style, len(items)).format(*items)

    return Phrase(say, tuple(name for phrase in phrases for name in phrase.names))


@cache
def _list_pattern(locale: str, style: ListStyle, num_items: int) -> str:
    """The pattern "{0}, {1}, and {2}" for so many items.

    Babel's data of unit lists has holes: Spanish lacks a part, and in Arabic an item would be
    said twice. There the parts of a quantity are listed like any other things.
    """
    slots = [f"{{{i}}}" for i in range(num_items)]
    try:
        pattern = format_list(slots, style=style, locale=locale)
    except LookupError:
        pattern = ""
    if all(pattern.count(slot) == 1 for slot in slots):
        return pattern
    if style == "standard":
        raise Unsayable(pattern)
    return _list_pattern(locale, "standard", num_items)


# Words before which a language changes its "and" or "or" (Spanish y → e, o → u; Hebrew joins
# its "and" to the next word, with a hyphen where that is no Hebrew word). CLDR's patterns do not
# say so, hence lists with such a last item are not made.
_SOUND_CHANGES = {
    "es": re.compile(r"(?i)h?[ioíó]|8|11\b"),
    "ast": re.compile(r"(?i)h?[ioíó]|8|11\b"),
    "gl": re.compile(r"(?i)h?[ioíó]|8|11\b"),
    "it": re.compile(r"(?i)[eèo]"),
    "he": re.compile(r"[^\u05d0-\u05ea]"),
}


def _refuse_sound_changes(locale: Locale, items: list[str]) -> None:
    pattern = _SOUND_CHANGES.get(locale.language)
    if pattern is not None and any(pattern.match(item) for item in items[1:]):
        raise Unsayable(items)


_SPACES = re.compile(r"[\s\u00a0\u2007\u2009\u202f]+")
_INVISIBLE = re.compile(r"[\u00ad\u200b\u200e\u200f\u061c\u202a-\u202e\u2060\u2066-\u2069\ufeff]")


def plain(text: str) -> str:
    """The text as one would type it: every kind of space as a plain one, no invisible marks.

    CLDR writes no-break and narrow spaces in numbers, before units and around dashes, and marks
    of direction in Arabic and Hebrew; nobody types them. Both sides of a pair are made plain.
    """
    return _SPACES.sub(" ", _INVISIBLE.sub("", text)).strip()

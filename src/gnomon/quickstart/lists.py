"""Templates for names alone, in lists, and of languages as spoken or written somewhere."""

from __future__ import annotations

from functools import partial

from babel import Locale, dates

from gnomon.quickstart.names import NameTables, name
from gnomon.quickstart.phrase import ListStyle, Phrase, Template, listed
from gnomon.quickstart.split import Draw

_KINDS = {
    "territory": "country",
    "language": "language",
    "currency": "currency",
    "script": "script",
}

_AND_OR: tuple[ListStyle, ...] = ("standard", "or")


def templates(tables: NameTables) -> list[Template]:
    """All templates made of names."""
    return [*_alone(tables), *_in_lists(tables), *_varieties(tables), *_calendar()]


def _named(kind: str, code: str) -> Phrase:
    return Phrase(lambda locale: name(locale, kind, code), (f"{kind}/{code}",))


def _alone(tables: NameTables) -> list[Template]:
    def one(kind: str, draw: Draw) -> Phrase:
        return _named(kind, draw.deal(tables.codes(kind)))

    return [
        Template(kind=word, name=f"{word} alone", draw=partial(one, kind), weight=0.3)
        for kind, word in _KINDS.items()
        if kind != "script"
    ]


def _in_lists(tables: NameTables) -> list[Template]:
    def several(kind: str, draw: Draw) -> Phrase:
        codes = draw.deal_several(tables.codes(kind), draw.choose((2, 2, 3, 4)))
        return listed([_named(kind, code) for code in codes], draw.choose(_AND_OR))

    weights = {"territory": 4.0, "language": 2.5, "currency": 2.0, "script": 0.3}
    return [
        Template(kind="list", name=f"list: {_KINDS[k]}", draw=partial(several, k), weight=weight)
        for k, weight in weights.items()
    ]


# Chinese puts the bracketed part in full-width brackets; Babel's data lacks that pattern.
_BRACKETS = {"zh": "{0}（{1}）", "yue": "{0}（{1}）"}


def _varieties(tables: NameTables) -> list[Template]:
    def variety(kind: str, draw: Draw) -> Phrase:
        language = _named("language", draw.deal(tables.codes("language"), kind))
        place = _named(kind, draw.deal(tables.codes(kind), "variety"))

        def say(locale: Locale) -> str:
            pattern = _BRACKETS.get(locale.language, "{0} ({1})")
            return pattern.format(language.say(locale), place.say(locale))

        return Phrase(say, language.names + place.names)

    make = partial(Template, kind="language variety")
    return [
        make(name="language of a country", draw=partial(variety, "territory"), weight=1.5),
        make(name="language in a script", draw=partial(variety, "script"), weight=0.7),
    ]


def _calendar() -> list[Template]:
    """Names of weekdays and months, alone or two or three of them."""

    def said(kind: str, index: int) -> Phrase:
        def say(locale: Locale) -> str:
            get = dates.get_day_names if kind == "weekday" else dates.get_month_names
            return str(get("wide", context="stand-alone", locale=locale)[index])

        return Phrase(say, (f"{kind}/{index}",))

    indices = {"weekday": tuple(range(7)), "month": tuple(range(1, 13))}

    def one(kind: str, draw: Draw) -> Phrase:
        return said(kind, draw.deal(indices[kind]))

    def several(kind: str, draw: Draw) -> Phrase:
        chosen = draw.deal_several(indices[kind], draw.choose((2, 2, 3)))
        return listed([said(kind, i) for i in chosen], draw.choose(_AND_OR))

    make = partial(Template, kind="weekday or month")
    return [
        *(make(name=f"{k} alone", draw=partial(one, k), weight=0.1) for k in indices),
        *(make(name=f"list: {k}", draw=partial(several, k), weight=0.4) for k in indices),
    ]

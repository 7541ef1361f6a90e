"""Names of countries, languages, scripts, currencies and units, in English and in the target.

Only names in use today (no empire's currency), only names that CLDR has in both languages, and
only such whose English form has one translation whatever it names: "Thai" is both a language
and a script, and where the target calls them differently the script is left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from babel import Locale, localedata
from babel.core import get_global

NAME_KINDS = ("territory", "language", "script", "currency")

UNITS: tuple[str, ...] = tuple(
    f"{category}-{unit}"
    for category, units in {
        "angle": "degree",
        "area": "acre hectare square-centimeter square-foot square-kilometer square-meter"
        " square-mile",
        "consumption": "mile-per-gallon",
        "digital": "bit byte kilobyte megabyte gigabyte terabyte",
        "duration": "day decade hour millisecond minute month second week year",
        "electric": "ampere ohm volt",
        "energy": "calorie joule kilocalorie kilowatt-hour",
        "force": "newton",
        "frequency": "gigahertz hertz kilohertz megahertz",
        "graphics": "megapixel pixel",
        "length": "centimeter foot inch kilometer light-year meter mile millimeter"
        " nautical-mile yard",
        "mass": "carat gram kilogram milligram ounce pound tonne",
        "power": "horsepower kilowatt megawatt watt",
        "pressure": "bar hectopascal pascal",
        "speed": "kilometer-per-hour knot meter-per-second mile-per-hour",
        "temperature": "celsius fahrenheit kelvin",
        "volume": "centiliter cubic-centimeter cubic-kilometer cubic-meter cup gallon liter"
        " milliliter pint tablespoon teaspoon",
    }.items()
    for unit in units.split()
)

RATE_UNITS: tuple[str, ...] = (
    "digital-byte",
    "digital-megabyte",
    "length-kilometer",
    "length-meter",
    "length-mile",
    "mass-gram",
    "mass-kilogram",
    "volume-liter",
    "volume-milliliter",
    "volume-cubic-meter",
)
PERIODS: tuple[str, ...] = ("second", "minute", "hour", "day", "week", "month", "year")

# Such names would be mistaken for a number, a bracketed part or two items of a list.
_MISLEADING = re.compile(r"[\d()\[\]（）,،、]")


class NameTables:
    """The names that both languages have, by kind of name: code → (English, target)."""

    def __init__(self, english: Locale, target: Locale) -> None:
        self.english = english
        self.target = target
        self._tables = {kind: self._translated(kind) for kind in NAME_KINDS}
        self._drop_ambiguous()

    def codes(self, kind: str) -> tuple[str, ...]:
        """The usable codes of a kind of name, in a fixed order."""
        return tuple(self._tables[kind])

    def coverage(self, kind: str) -> float:
        """The share of the codes in use that have a name in the target language, 0 to 1."""
        names = _table(self.target, kind)
        wanted = [c for c in _codes_in_use()[kind] if c in _table(self.english, kind)]
        return sum(names.get(code, code) != code for code in wanted) / len(wanted)

    def _translated(self, kind: str) -> dict[str, tuple[str, str]]:
        here, there = _table(self.english, kind), _table(self.target, kind)
        return {
            code: (here[code], there[code])
            for code in _codes_in_use()[kind]
            if code in here
            and there.get(code, code) != code
            and not _MISLEADING.search(here[code] + there[code])
        }

    def _drop_ambiguous(self) -> None:
        """Keep, of all names that are spelt alike in English, those of the first translation."""
        translation: dict[str, str] = {}
        for table in self._tables.values():
            for code, (source, target) in list(table.items()):
                if translation.setdefault(source.lower(), target) != target:
                    del table[code]


def name(locale: Locale, kind: str, code: str) -> str:
    """A country's, language's, script's or currency's name in a language."""
    return _table(locale, kind)[code]


def _table(locale: Locale, kind: str) -> Mapping[str, str]:
    tables: dict[str, Mapping[str, str]] = {
        "territory": locale.territories,
        "language": locale.languages,
        "script": locale.scripts,
        "currency": locale.currencies,
    }
    return tables[kind]


# "Simplified" and "Traditional" are names only beside "Chinese".
_ADJECTIVES = frozenset({"Hans", "Hant"})


@cache
def _codes_in_use() -> dict[str, tuple[str, ...]]:
    """Kind of name → the codes in use today: a few hundred, not every code ever given out."""
    territories = {t for t in get_global("territory_languages") if re.fullmatch("[A-Z]{2}", t)}
    locales = [Locale.parse(identifier) for identifier in localedata.locale_identifiers()]
    official = {
        tag.split("_")[0]
        for languages in get_global("territory_languages").values()
        for tag, use in languages.items()
        if use["official_status"]
    }
    currencies = {
        code
        for uses in get_global("territory_currencies").values()
        for code, _, end, is_tender in uses
        if end is None and is_tender
    }
    return {
        "territory": tuple(sorted(territories - {"ZZ"})),
        "language": tuple(sorted({locale.language for locale in locales} & official)),
        "script": tuple(sorted({loc.script for loc in locales if loc.script} - _ADJECTIVES)),
        "currency": tuple(sorted(currencies)),
    }

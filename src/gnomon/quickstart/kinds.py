"""The kinds of phrases in the corpus, in plain words: what a model trained on it can know."""

from __future__ import annotations

KINDS: dict[str, str] = {
    "date": "dates, American or British, long or abbreviated, with or without weekday",
    "time": "times of day, by the 12-hour or the 24-hour clock",
    "date and time": "dates with a time, and yesterday, today or tomorrow at a time",
    "interval": "from one date, month, year or time to another",
    "duration": "durations in hours and minutes, years and months …",
    "relative time": "how long ago or from now",
    "unit": "quantities in units of measure, also two of them, and rates such as “per hour”",
    "amount of money": "amounts of money in any currency of today, by name or by symbol",
    "number": "numbers up to the millions, decimals, and so many million, billion or trillion",
    "percent": "percentages",
    "country": "names of countries and territories",
    "language": "names of languages with an official status somewhere",
    "currency": "names of currencies",
    "language variety": "a language as used in a country or written in a script",
    "weekday or month": "names of weekdays and months, alone or in lists",
    "list": "two to four countries, languages, currencies or scripts with “and” or “or”",
}
"""Kind of line → what it holds, as words for the user, in the order to show them."""

LIMITS = (
    "It was trained on nothing else: any other sentence is as foreign to it as a language it"
    " never saw."
)

"""The language to translate into: a CLDR locale with enough data, or an error that helps."""

from __future__ import annotations

import difflib
from functools import cache

from babel import Locale, UnknownLocaleError, localedata

from gnomon.errors import DataError
from gnomon.quickstart.names import NAME_KINDS, NameTables
from gnomon.quickstart.phrase import ENGLISH

MIN_COVERAGE = 0.75
"""The smallest share of the names in each table (countries, languages …) that must be there."""


def find_language(code: str) -> Locale:
    """The locale named by `code`, such as "de", "pt_BR", "pt-BR" or "zh_Hant".

    Raises:
        DataError: the code is unknown, is English, or CLDR has too little text for it.
    """
    try:
        locale = Locale.parse(code.strip().replace("-", "_"))
    except (UnknownLocaleError, ValueError, TypeError):
        raise DataError(
            "The quickstart needs the code of a language that the Unicode CLDR knows.",
            seen=code,
            mend=_suggestion(code),
        ) from None
    if locale.language == ENGLISH.language:
        raise DataError(
            "The quickstart translates from English, so its target is another language.",
            seen=code,
            mend=f"Give one of {', '.join(EXAMPLES)} or another code.",
        )
    if coverage(locale) < MIN_COVERAGE:
        raise DataError(
            "The Unicode CLDR holds too little text in this language to train on.",
            seen=f"{code} ({locale.get_display_name(ENGLISH)})",
            mend=f"Give one of {', '.join(EXAMPLES)} or another well-covered language.",
        )
    return locale


EXAMPLES = ("de", "fr", "es", "it", "pt_BR", "nl", "pl", "ru", "tr", "ar", "hi", "zh", "ja", "ko")
"""Codes to show a user who gave none that works."""


def coverage(locale: Locale) -> float:
    """The share of names that CLDR gives in this language, in its poorest table (0 to 1)."""
    tables = NameTables(ENGLISH, locale)
    return min(tables.coverage(kind) for kind in NAME_KINDS)


@cache
def _codes_by_name() -> dict[str, str]:
    """Every way to name a language (in English, in itself, its code) → its code."""
    codes = {}
    for identifier in localedata.locale_identifiers():
        locale = Locale.parse(identifier)
        if locale.territory is None and locale.language != ENGLISH.language:
            codes[identifier.lower()] = identifier
            for name in (locale.get_display_name(ENGLISH), locale.get_display_name(locale)):
                if name:
                    codes[name.lower()] = identifier
    return codes


def _suggestion(code: str) -> str:
    codes = _codes_by_name()
    if code.strip().lower() in codes:
        return f"Did you mean {codes[code.strip().lower()]}?"
    close = difflib.get_close_matches(code.strip().lower(), list(codes), n=3, cutoff=0.75)
    meant = list(dict.fromkeys(codes[name] for name in close))
    if meant:
        return f"Did you mean {' or '.join(meant)}?"
    return f"Give one of {', '.join(EXAMPLES)} or another code such as these."

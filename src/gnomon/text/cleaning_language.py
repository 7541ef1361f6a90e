"""Which language a text is in, as far as it can be told: `py3langid`, imported when asked for."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from gnomon.errors import DataError

_MIN_CHARACTERS = 20  # of shorter texts nothing reliable can be said
_MIN_PROBABILITY = 0.9  # of another language before it is called one


@cache
def language_filter(expected: str) -> Callable[[str], str | None]:
    """Return a function that names the language of a text that is surely not in `expected`.

    Raises:
        DataError: the package is missing, or knows no such language.
    """
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    except ImportError:
        raise DataError(
            "looking at languages needs the package py3langid",
            mend="pip install 'gnomon[language]', or unset cleaning.source_language and "
            "cleaning.target_language",
        ) from None
    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    if expected not in (known := sorted(map(str, identifier.nb_classes))):
        raise DataError(
            "cleaning.source_language and target_language are ISO 639-1 codes that can be told",
            seen=expected,
            mend=f"one of {', '.join(known)}",
        )

    def other_than_expected(text: str) -> str | None:
        if len(text) < _MIN_CHARACTERS:
            return None
        language, probability = identifier.classify(text)
        sure = language != expected and probability >= _MIN_PROBABILITY
        return f"{language} ({probability:.0%})" if sure else None

    return other_than_expected

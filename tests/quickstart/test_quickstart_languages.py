"""Which languages the quickstart takes, and how it says no."""

from __future__ import annotations

import pytest

from gnomon.errors import GnomonError
from gnomon.quickstart import make_corpus
from gnomon.quickstart.languages import EXAMPLES, find_language


@pytest.mark.parametrize("code", [*EXAMPLES, "zh_Hant", "pt-BR", "de_AT", "zh_TW", " sv "])
def test_well_covered_languages_are_found(code: str) -> None:
    assert find_language(code).language == code.strip()[:2]


@pytest.mark.parametrize(
    ("code", "hint"),
    [("German", "de?"), ("deutsch", "de"), ("ger man", "de"), ("Français", "fr?"), ("jp", "ja")],
)
def test_a_close_code_is_suggested(code: str, hint: str) -> None:
    with pytest.raises(GnomonError) as caught:
        make_corpus(code)
    assert caught.value.seen == code
    assert hint in str(caught.value.mend)


@pytest.mark.parametrize("code", ["", "qqq", "klingon", "12", "de_", "../de", "x" * 500])
def test_unknown_codes_list_some_that_work(code: str) -> None:
    with pytest.raises(GnomonError) as caught:
        make_corpus(code)
    assert caught.value.mend


@pytest.mark.parametrize("code", ["en", "en_GB", "en-US", "en_001"])
def test_english_itself_is_refused(code: str) -> None:
    with pytest.raises(GnomonError, match="another language"):
        make_corpus(code)


@pytest.mark.parametrize("code", ["la", "nds", "gv"])
def test_poorly_covered_languages_are_refused(code: str) -> None:
    with pytest.raises(GnomonError, match="too little"):
        make_corpus(code)

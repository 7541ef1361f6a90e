"""Long texts in parts: nothing lost, abbreviations kept whole, pieces within the limit."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gnomon.text import Part, join_parts, text_parts
from gnomon.text.sentences import sentences


def characters(texts: list[str]) -> list[int]:
    return [len(text) for text in texts]


def words(texts: list[str]) -> list[int]:
    return [len(text.split()) for text in texts]


def test_abbreviations_do_not_end_sentences() -> None:
    text = "Dr. Smith paid $3.50 on Jan. 5th.  See e.g. Fig. 3 of it. Really? Yes!"
    found = text_parts(text, words, None)
    assert [part.text for part in found] == [
        "Dr. Smith paid $3.50 on Jan. 5th.",
        "See e.g. Fig. 3 of it.",
        "Really?",
        "Yes!",
    ]
    assert [part.gap for part in found] == ["  ", " ", " ", ""]
    german = "Er kam am 3. Oktober an. Das ist z. B. Dr. Müller."
    assert len(sentences(german, "de")) == 2
    assert sentences("他去了。你好吗？很好！") == ["他去了。", "你好吗？", "很好！"]


def test_sentences_that_are_too_long_are_divided_at_the_best_place_near_the_middle() -> None:
    found = text_parts("one two three, four five six seven eight. Nine.", words, 5)
    assert [part.text for part in found] == [
        "one two three,",
        "four five six seven eight.",
        "Nine.",
    ]
    assert [part.divided for part in found] == [True, True, False]
    # A comma near the end is no help; then blanks are taken.
    found = text_parts("one two three four five six seven, eight", words, 5)
    assert [part.text for part in found] == ["one two three four", "five six seven, eight"]
    unspaced = "我" * 25
    found = text_parts(unspaced, characters, 10)
    assert "".join(part.text for part in found) == unspaced
    assert max(len(part.text) for part in found) <= 10
    assert min(len(part.text) for part in found) >= 5
    assert text_parts("xy", lambda texts: [9] * len(texts), 3) == [
        Part("x", "", divided=True),
        Part("y", "", divided=True),
    ]


def test_ten_thousand_words() -> None:
    for text in ("word " * 10_000, "The dog runs to Mr. Miller's house. " * 1_500, "x" * 60_000):
        found = text_parts(text, characters, 200)
        assert max(len(part.text) for part in found) <= 200
        assert "".join(part.text + part.gap for part in found) == text


@given(
    st.text(
        st.sampled_from("ab .,!?。，\u3000\u2028\té\u0301")
        | st.characters(exclude_categories=["Cs"]),
        max_size=60,
    ),
    st.integers(1, 12),
)
def test_no_character_is_lost(text: str, limit: int) -> None:
    if not text.strip():
        return
    found = text_parts(text, characters, limit)
    assert all(part.text and part.text == part.text.strip() for part in found)
    joined = "".join(part.text + part.gap for part in found)
    assert "".join(joined.split()) == "".join(text.split())
    translations = [" ".join(part.text.splitlines()) for part in found]
    assert len(join_parts(translations, [part.gap for part in found]).splitlines()) == 1


def test_parts_are_joined_as_the_script_wants_it() -> None:
    assert join_parts(["A.", "B.", "C."], ["  ", "\t", " "]) == "A.  B.\tC."
    assert join_parts(["Hello.", "World."], ["", ""]) == "Hello. World."
    assert join_parts(["你好。", "世界。"], [" ", ""]) == "你好。世界。"
    assert join_parts(["你好。", "世界。"], ["", ""]) == "你好。世界。"
    assert join_parts(["A.", "", "C."], [" ", "\t", ""]) == "A. C."
    assert join_parts([" A. ", "B."], ["\u2028", ""]) == "A. B."
    assert join_parts([], []) == ""

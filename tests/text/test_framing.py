"""Special tokens around one text or two, and who gives way where there is too little room."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnomon.errors import DataError
from gnomon.text import Tokenizer, VocabularyConfig
from gnomon.text.framing import MASK, OwnFraming, room

LINES = ["a dog runs", "the dog sleeps 12", "a cat runs and runs"] * 5


@pytest.fixture(scope="module")
def framing() -> OwnFraming:
    return OwnFraming(Tokenizer.train(LINES, VocabularyConfig(vocab_size=300), (MASK,)))


def test_begin_text_end(framing: OwnFraming) -> None:
    tokenizer = framing.tokenizer
    (row,) = framing.frame(["a dog"])
    assert row.ids == [tokenizer.bos_id, *tokenizer.encode(["a dog"])[0], tokenizer.eos_id]
    assert row.segments == [0] * len(row.ids)
    assert row.spans[0] is row.spans[-1] is None
    assert framing.decode([row.ids]) == ["a dog"]
    assert framing.mask_id == tokenizer.tag_ids([MASK])[0]


def test_two_texts(framing: OwnFraming) -> None:
    (row,) = framing.frame(["a dog"], ["runs"])
    end = framing.tokenizer.eos_id
    assert row.ids.count(end) == 2
    first = row.ids.index(end) + 1
    assert row.segments == [0] * first + [1] * (len(row.ids) - first)
    assert framing.tokenizer.decode([row.ids[first:]]) == ["runs"]
    with pytest.raises(DataError, match="1 texts, 2 second ones"):
        framing.frame(["a"], ["b", "c"])


@given(st.integers(0, 40), st.none() | st.integers(0, 40), st.integers(5, 50))
def test_room_is_used_and_the_longer_text_gives_way(first: int, second: int | None, most: int):
    special = 2 if second is None else 3
    kept = room(first, second, most, special)
    total = first + (second or 0)
    assert sum(kept) == min(total, most - special)
    assert kept[0] <= first
    assert kept[1] <= (second or 0)
    if second is not None and sum(kept) < total:
        left = most - special
        assert min(kept) == min(first, second, left // 2)


def test_cut_tokens_are_counted(framing: OwnFraming) -> None:
    whole, short = (framing.frame(["a dog runs and runs"], max_length=n)[0] for n in (None, 5))
    assert len(short.ids) == 5
    assert short.cut == len(whole.ids) - 5
    assert whole.cut == 0
    with pytest.raises(DataError, match="room for a token"):
        framing.frame(["a dog runs"], max_length=2)
    assert framing.frame([""], max_length=2)[0].cut == 0

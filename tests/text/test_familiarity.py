"""Text like the training text is near, whatever is new in its numbers; other text is far."""

import random
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnomon.errors import ModelError
from gnomon.text import Familiarity, familiarity

MONTHS = "January February March April May June July August September October November December"
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday"
UNITS = "metres kilometres grams hours days litres degrees euros dollars yen"
NAMES = "Germany France Japan Brazil Kenya Peru Norway Chile Ghana Nepal Swahili German Thai"


def phrase(choose):
    """A date, a length of time, a quantity or a list, as a phrase corpus holds them."""
    number, day = choose.randint(1, 9999), choose.choice(DAYS.split())
    month, unit = choose.choice(MONTHS.split()), choose.choice(UNITS.split())
    one, two = choose.sample(NAMES.split(), 2)
    return choose.choice(
        [
            f"{day}, {month} {number % 31 + 1}, {number}",
            f"from {month} {number % 28} to {month} {number % 31}, {number}",
            f"in {number} {unit}",
            f"{number % 100}.{number % 7} {unit} in {one}",
            f"{one} and {two}, {day} at {number % 24}:{number % 60:02}",
        ]
    )


@pytest.fixture(scope="module")
def phrases():
    choose = random.Random(0)
    return list(dict.fromkeys(phrase(choose) for _ in range(20_000)))


@pytest.fixture(scope="module")
def profile(phrases):
    return Familiarity.learn(phrases[:-500], phrases[-500:])


def test_unseen_phrases_are_near(profile, phrases):
    choose = random.Random(1)
    unseen = list({phrase(choose) for _ in range(2000)} - set(phrases))
    assert len(unseen) > 200
    assert np.mean(profile.is_far(unseen)) < 0.02
    assert not any(profile.is_far(["Friday, May 30, 1066", "in 123456789 days"]))


def test_other_text_is_far(profile):
    far = [
        "The economy grew faster than expected.",
        "asdf qwer",
        "Hello",
        "in 3 parsecs",
        "经济增长快于预期。",
        "Экономика росла быстрее",
        "Monday I went to see the doctor",
        "😀😀",
        "���",
    ]
    assert profile.is_far(far) == [True] * len(far)


def test_blank_text_is_near(profile):
    assert profile.score(["", "  ", "\t\u3000"]) == [1.0, 1.0, 1.0]
    assert profile.score([]) == []


@pytest.mark.parametrize(
    ("line", "near", "far"),
    [
        ("我们今天去公园散步", "我们今天去公园", "天园去我步公"),
        ("今日は公園を散歩します", "公園を散歩", "歩公日散"),
        ("วันนี้เราไปสวนสาธารณะ", "เราไปสวน", "นสไปเวร"),
        ("आज हम पार्क जाते हैं", "हम पार्क जाते", "घर में रहो"),
    ],
)
def test_scripts_without_spaces(line, near, far):
    """Characters that were seen, but never next to each other, are far all the same."""
    profile = Familiarity.learn([line] * 50)
    assert profile.is_far([near, far]) == [False, True]


def test_threshold_without_held_out_lines_is_about_the_same(profile, phrases):
    alone = Familiarity.learn(phrases)
    assert abs(alone.threshold - profile.threshold) < 0.1
    assert alone.score(phrases[:200]) == [1.0] * 200  # the lines kept back are learned after all


def test_few_or_no_lines():
    assert Familiarity.learn(["one line"]).is_far(["one line"]) == [False]
    assert Familiarity.learn([]).score(["text"]) == [0.0]


def test_save_and_load(profile, tmp_path):
    texts = ["Friday, May 30, 1066", "The economy grew", "in 3 parsecs"]
    assert Familiarity.load_if_there(tmp_path) is None
    profile.save(tmp_path)
    loaded = Familiarity.load_if_there(tmp_path)
    assert loaded.score(texts) == profile.score(texts)
    assert loaded.threshold == profile.threshold
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:50])
    with pytest.raises(ModelError, match="readable"):
        Familiarity.load_if_there(tmp_path)


def test_small_and_fast(tmp_path):
    """A million words of some 50,000 types, as Zipf has them."""
    ranks = np.random.default_rng(0).zipf(1.3, 1_000_000) % 50_000
    words = [f"w{chr(97 + rank % 26)}{'x' * (rank % 3)}{chr(0x400 + rank // 26)}" for rank in ranks]
    lines = [" ".join(words[start : start + 20]) for start in range(0, len(words), 20)]
    profile = Familiarity.learn(lines)
    profile.save(tmp_path)
    (file,) = tmp_path.iterdir()
    assert file.stat().st_size <= 1_100_000
    start = time.perf_counter()
    assert profile.score(lines[:10_000]) == [1.0] * 10_000
    assert time.perf_counter() - start < 5
    strange = [f"v{chr(0x4D0 + n // 60)}{chr(0x4D0 + n % 60)}" for n in range(3000)]
    assert np.mean(profile.score(strange)) < 0.02  # the filter's false positives


@given(st.lists(st.text(), max_size=5))
def test_any_text_has_a_score(profile, texts):
    scores = profile.score(texts)
    assert len(scores) == len(texts)
    assert all(0 <= score <= 1 for score in scores)
    alone = [profile.score([text])[0] for text in texts]
    assert scores == alone


def test_a_folded_filter_is_the_one_of_that_size():
    units = np.random.default_rng(0).integers(1, 2**63, 3000).astype(np.uint64)
    growing = familiarity._Growing()
    for some in np.split(np.concatenate([units, units[:600]]), 6):
        growing.add(some)
    bits = np.zeros(1 << 16, np.uint8)  # the power of two from 12 bits a unit on
    for probe in familiarity._probes(units, len(bits)):
        bits[probe] = 1
    assert np.array_equal(growing.bitmap(), np.packbits(bits, bitorder="little"))


def test_lines_kept_back_are_few_from_all_of_a_long_text(phrases, monkeypatch):
    monkeypatch.setattr(familiarity, "_CHUNK", 200)
    looked_at = []
    score = Familiarity.score
    monkeypatch.setattr(
        Familiarity, "score", lambda self, texts: looked_at.extend(texts) or score(self, texts)
    )
    many = Familiarity.learn(phrases)
    assert 100 <= len(looked_at) <= 200
    places = [phrases.index(line) for line in looked_at]
    assert max(places) > 0.9 * len(phrases)
    assert min(places) < 0.1 * len(phrases)
    monkeypatch.undo()
    assert many.score(phrases) == [1.0] * len(phrases)
    assert abs(many.threshold - Familiarity.learn(phrases).threshold) < 0.1


def test_rare_numbers_of_sentences_do_not_count() -> None:
    one, two, three = ["A dog runs."], ["It is red. It runs."], ["A dog sits. It is red. It runs."]
    for lines, most in (
        (one * 991 + two * 9, 1),
        (one * 990 + two * 10, 2),
        (one * 980 + two * 11 + three * 9, 2),
        (one * 990 + two * 5 + three * 5, 2),
        (three, 3),
    ):
        assert Familiarity.learn(lines).most_sentences == most, len(lines)
    assert Familiarity.learn([]).most_sentences is None
    profile = Familiarity.learn(two)
    assert profile.has_more_sentences([*one, *two, *three, ""]) == [False, False, True, False]

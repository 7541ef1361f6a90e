"""What the quickstart promises about its corpus, checked on the lines themselves."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections import Counter, defaultdict
from decimal import Decimal

import pytest

from gnomon.quickstart import KINDS, Corpus, Pair, make_corpus
from gnomon.quickstart.split import ALWAYS_TRAINED, number_is_held_out

LANGUAGES = ("de", "fr", "es", "zh", "ja", "ru", "ar", "he", "pt_BR", "zh_Hant", "ko", "pl")
SMALL = {"num_train": 6_000, "num_valid": 150, "num_test": 150}


@pytest.fixture(scope="module")
def german() -> Corpus:
    return make_corpus("de", num_train=30_000)


@pytest.fixture(scope="module", params=LANGUAGES)
def corpus(request: pytest.FixtureRequest) -> Corpus:
    return make_corpus(request.param, **SMALL)


def everything(corpus: Corpus) -> list[Pair]:
    return [*corpus.train, *corpus.valid, *corpus.test]


def held_out(corpus: Corpus) -> list[Pair]:
    return [*corpus.valid, *corpus.test]


# A clock time is read on its own: its hour is the one number that cannot be held back.
CLOCK = re.compile(r"\b\d{1,2}((?::\d{2}){1,2})\b")
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


def numbers_in(source: str) -> set[Decimal]:
    """Every number written in an English line, the hour of a clock time left out."""
    minutes = {Decimal(part) for m in CLOCK.finditer(source) for part in m[1].split(":")[1:]}
    rest = CLOCK.sub(" ", source)
    return minutes | {Decimal(n.replace(",", "")).normalize() for n in NUMBER.findall(rest)}


def numbers_of(pairs: list[Pair]) -> set[Decimal]:
    return {number for pair in pairs for number in numbers_in(pair.source)}


def test_numbers_are_read_as_written() -> None:
    assert numbers_in("Monday, March 3, 2021, 2:05 PM") == {3, 2021, 5}
    assert numbers_in("1,234.50 euros and 10:07:30") == {Decimal("1234.5"), 7, 30}
    assert numbers_in("Feb 1 – 7, 1999 at 23:59") == {1, 7, 1999, 59}


def test_same_arguments_give_same_lines_in_any_process() -> None:
    code = f"from gnomon.quickstart import make_corpus; print(make_corpus('de', **{SMALL}))"
    printed = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert printed[0] == printed[1] != b""
    assert make_corpus("de", **SMALL) != make_corpus("de", **SMALL, seed=1)


def test_sizes_are_as_asked(corpus: Corpus) -> None:
    assert (len(corpus.train), len(corpus.valid), len(corpus.test)) == (6_000, 150, 150)


def test_no_line_twice_so_none_held_out_was_trained_on(corpus: Corpus) -> None:
    counts = Counter(pair.source for pair in everything(corpus))
    assert max(counts.values()) == 1


def test_no_number_in_a_held_out_line_was_trained_on(german: Corpus, corpus: Corpus) -> None:
    for made in (german, corpus):
        trained = numbers_of(made.train)
        assert trained >= ALWAYS_TRAINED
        assert not trained & numbers_of(held_out(made))


def test_clock_times_as_a_whole_were_not_trained_on(german: Corpus) -> None:
    def times(pairs: list[Pair]) -> set[str]:
        return {m[0].zfill(5) for pair in pairs for m in CLOCK.finditer(pair.source)}

    assert len(times(held_out(german))) > 50
    assert not times(german.train) & times(held_out(german))


def test_split_of_a_number_depends_on_its_value_alone() -> None:
    held_out = [n for n in range(1, 10_000) if number_is_held_out(Decimal(n))]
    assert 900 < len(held_out) < 1_100
    for number in held_out[:50]:
        assert number_is_held_out(Decimal(f"{number}.00"))
        assert number_is_held_out(Decimal(-number))
    other_seed = make_corpus("fr", **SMALL, seed=7)
    assert not numbers_of(other_seed.train) & set(map(Decimal, held_out))


@pytest.mark.parametrize("num_train", [300, 6_000])
def test_held_out_names_are_known_from_other_templates(num_train: int) -> None:
    corpus = make_corpus("de", **{**SMALL, "num_train": num_train})
    templates = defaultdict(set)
    for pair in corpus.train:
        for name in pair.names:
            templates[name].add(pair.template)
    with_names = [pair for pair in held_out(corpus) if pair.names]
    assert with_names
    for pair in with_names:
        assert all(templates[name] - {pair.template} for name in pair.names), pair


def test_every_name_is_seen_often(german: Corpus) -> None:
    counts = Counter(name for pair in german.train for name in pair.names)
    assert len(counts) > 600
    assert min(counts.values()) >= 10, counts.most_common()[-5:]


def test_every_kind_is_trained_and_judged(german: Corpus) -> None:
    for pairs in (german.train, held_out(german)):
        counts = Counter(pair.kind for pair in pairs)
        assert set(counts) == set(KINDS)
    unjudged = {p.template for p in german.train} - {p.template for p in held_out(german)}
    assert unjudged <= {"weekday alone", "month alone"}  # 19 lines, too few to hold some back


def test_every_kind_exists_in_every_language(corpus: Corpus) -> None:
    assert {pair.kind for pair in corpus.train} == set(KINDS)


def test_description_gives_an_example_of_every_kind(german: Corpus) -> None:
    told = german.describe()
    assert [words for words, _ in told] == list(KINDS.values())
    assert all(pair in german.test or pair in german.valid for _, pair in told)


def test_text_is_plain_and_short(corpus: Corpus) -> None:
    # Everything that is not typed: odd spaces, directional marks, soft hyphens, controls.
    odd = re.compile(
        r"[^\S ]|[\u00a0\u00ad\u200b\u200e\u200f\u061c\u2009\u202a-\u202f\u2066-\u2069]"
    )
    for pair in everything(corpus):
        for text in (pair.source, pair.target):
            assert text == text.strip() != ""
            assert not odd.search(text), pair
            assert "  " not in text and "{" not in text, pair
        assert len(pair.source.split()) <= 24, pair


def test_numbers_survive_translation() -> None:
    """In German every digit of the source is in the target, but for clocks and month names."""
    for pair in make_corpus("de", **SMALL).train:
        if pair.kind in {"unit", "amount of money", "number", "percent", "duration"}:
            digits = [re.sub(r"\D", "", text) for text in (pair.source, pair.target)]
            assert digits[0] == digits[1], pair


def test_lines_known_to_be_right(german: Corpus) -> None:
    meanings = {pair.source: pair.target for pair in everything(german)}
    assert meanings["1 hour ago"] == "vor 1 Stunde"
    for source, target in meanings.items():
        if re.fullmatch(r"[\d,.]+ US dollars", source):
            number = source.split()[0].translate(str.maketrans(",.", ".,"))
            assert target == f"{number} US-Dollar"
        if (match := re.fullmatch(r"(\d+):(\d\d) PM", source)) and match[1] != "12":
            assert target == f"{int(match[1]) + 12}:{match[2]}"


def test_plural_forms_of_russian_are_all_there() -> None:
    hours = {
        pair.target.split()[-1]
        for pair in make_corpus("ru", num_train=10_000).train
        if re.fullmatch(r"[\d,.]+ hours?", pair.source)
    }
    assert hours == {"час", "часа", "часов"}


def test_spanish_and_is_never_before_its_own_sound() -> None:
    for pair in make_corpus("es", num_train=10_000).train:
        assert not re.search(r"(?i) y h?i(?!e)| o h?o| o 8", pair.target), pair


def test_two_items_are_both_said_once() -> None:
    for pair in make_corpus("ar", **SMALL).train:
        if pair.template == "duration, short":
            numbers = re.findall(r"\d+", pair.source)
            assert len(re.findall(r"\d+", pair.target)) <= len(numbers), pair


def test_it_is_made_in_seconds() -> None:
    begin = time.process_time()
    make_corpus("fr", num_train=10_000)
    assert time.process_time() - begin < 10

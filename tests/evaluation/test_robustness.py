"""Perturbations are pure, keep lines, and do what they say; the suite measures what it says."""

import random
import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnomon.evaluation import PERTURBATIONS, EvaluationConfig, Output, robustness
from gnomon.evaluation.perturb import (
    OTHER_NUMBERS,
    numbers,
    single_words,
    with_other_numbers,
    without_punctuation,
)
from gnomon.text.perturb import with_extra_blanks, with_typos

BY_NAME = {perturbation.name: perturbation for perturbation in (*PERTURBATIONS, OTHER_NUMBERS)}
lines = st.lists(
    st.text(alphabet=st.characters(blacklist_characters="\n", blacklist_categories=["Cs"])),
    max_size=6,
)


@settings(deadline=None)
@given(lines, st.sampled_from(sorted(BY_NAME)), st.integers(0, 3))
def test_pure_line_for_line_and_blind_to_neighbours(texts, name, seed):
    change = BY_NAME[name]
    changed = change(texts, seed)
    assert len(changed) == len(texts)
    assert change(texts, seed) == changed
    assert change(texts[::-1], seed) == changed[::-1]
    assert not any("\n" in line for line in changed)


@settings(deadline=None)
@given(st.text(alphabet="abcdef xyzäöü Ω", max_size=30), st.integers(0, 5))
def test_a_typo_changes_few_letters(line, seed):
    changed = with_typos(line, random.Random(seed))
    assert abs(len(changed) - len(line)) <= len(line.split())
    if re.search(r"[^\W\d_]{4}", line):
        assert Counter(changed) != Counter(line) or changed != line or len(set(line)) < 3
    else:
        assert changed == line
    assert changed.count(" ") == line.count(" ")


def test_every_kind_of_typo_occurs():
    found = {with_typos("house", random.Random(seed)) for seed in range(200)}
    assert {"huose", "hose", "hoouse"} <= found
    assert {"hpuse", "hiuse"} & found  # neighbours of o
    assert all(text[0] == "h" and text[-1] == "e" for text in found)


@given(st.text(alphabet="ab ,.", max_size=20), st.integers(0, 5))
def test_blanks_only_add_blanks(line, seed):
    changed = with_extra_blanks(line, random.Random(seed))
    assert changed.split() == line.split()
    assert len(changed) >= len(line)


@given(st.text(alphabet="0123456789 a.", max_size=20), st.integers(0, 5))
def test_numbers_keep_their_length_and_none_stays(line, seed):
    changed = with_other_numbers(line, random.Random(seed))
    before, after = re.findall("[0-9]+", line), re.findall("[0-9]+", changed)
    assert [len(number) for number in before] == [len(number) for number in after]
    assert all(old != new for old, new in zip(before, after, strict=True))
    assert re.sub("[0-9]", "#", line) == re.sub("[0-9]", "#", changed)
    replaced = dict(zip(before, after, strict=True))
    assert [replaced[old] for old in before] == after


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Hello, world!", "Hello world"),
        ("Don't stop - it's rock-and-roll.", "Don't stop it's rock-and-roll"),
        ("«Ja», sagt sie …", "Ja sagt sie"),
        ("我，你。", "我你"),
        (" a. ", " a "),
        ("", ""),
    ],
)
def test_without_punctuation(line, expected):
    assert without_punctuation(line) == expected


def test_case_and_words_by_hand():
    assert BY_NAME["title case"](["don't STOP the élan"], 1) == ["Don't Stop The Élan"]
    assert BY_NAME["upper case"](["straße ok"], 1) == ["STRASSE OK"]
    assert single_words(["the dog, the cat's 3 toys"]) == ["the", "dog", "cat's", "toys"]
    assert single_words(["a b c"], limit=2) == ["a", "b"]
    assert numbers("1,234 and 5.5 and 007") == {"1234", "5", "007"}


def suite(translate, sources, references):
    clean = translate(sources)
    config = EvaluationConfig(metrics=("chrf", "exact_match"))
    return {row.name: row for row in robustness(translate, sources, references, clean, config)}


SOURCES = ["The dog runs, fast.", "Two of 17 cats sleep.", "Nothing else matters here."]


def test_a_system_that_copies_loses_nothing_by_case_or_punctuation():
    rows = suite(lambda texts: [Output(text, truncated=False) for text in texts], SOURCES, SOURCES)
    for name in ("upper case", "lower case", "title case", "no punctuation"):
        assert rows[name].scores["chrf"] == rows[name].clean["chrf"] == pytest.approx(100), name
        assert rows[name].unchanged == 1
        assert (rows[name].empty, rows[name].truncated) == (0, 0)
    assert rows["typos"].scores["chrf"] < 100
    assert rows["typos"].unchanged == 0
    assert rows["other numbers"].num_lines == 1
    assert rows["other numbers"].figures["numbers carried"] == 1
    assert rows["single words"].figures["ran away"] == 0
    assert rows["single words"].figures["same in capitals"] == 1
    assert rows["single words"].figures["units a word"] == 1


def test_a_system_that_breaks_is_seen_to():
    def brittle(texts):
        return [
            Output("" if text.isupper() else "a dog " * 20 + "17", truncated=not text.isupper())
            for text in texts
        ]

    rows = suite(brittle, SOURCES, SOURCES)
    assert rows["upper case"].empty == 1
    assert rows["upper case"].scores["chrf"] == 0
    assert rows["upper case"].clean["chrf"] > 0
    assert rows["typos"].truncated == 1
    assert rows["other numbers"].figures["numbers carried"] == 0
    assert rows["other numbers"].figures["numbers carried before"] == 1
    words = rows["single words"].figures
    assert words["ran away"] == 1
    assert words["repeated units"] > 0.9
    assert words["same in capitals"] == 0


def test_what_cannot_be_tried_is_skipped_with_the_reason():
    rows = suite(lambda texts: [Output(text) for text in texts], ["我是学生"], ["我是学生"])
    assert "no letters with case" in rows["title case"].skipped
    assert rows["upper case"].skipped and rows["lower case"].skipped
    assert "no numbers" in rows["other numbers"].skipped
    assert rows["typos"].skipped is None
    rows = suite(lambda texts: [Output(text) for text in texts], ["12"], ["12"])
    assert rows["single words"].skipped
    assert rows["other numbers"].truncated is None

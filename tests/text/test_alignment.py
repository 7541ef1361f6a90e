"""The place where two files part is found, wherever it is and whichever side lacks lines."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnomon.text.alignment import find_divergence

NOUNS = {"dog": "Hund", "house": "Haus", "bridge": "Brücke", "river": "Fluss", "year": "Jahr"}
NAMES = ["Berlin", "Kyoto", "Oslo", "Lima", "Quito", "Accra", "Hanoi"]


def parallel(count, seed):
    """Phrases of varying length with a number or a name here and there, and their translations."""
    choose = random.Random(seed)
    pairs = []
    for _ in range(count):
        words = choose.choices(list(NOUNS), k=choose.randint(1, 9))
        extra = choose.choice([str(choose.randint(1, 999)), choose.choice(NAMES), "", ""])
        end = choose.choice([".", "?", "!", ""])
        source = " and ".join(words) + f" {extra}{end}"
        target = " und ".join(NOUNS[word] for word in words) + f" {extra}{end}"
        pairs.append((source, target))
    return [list(side) for side in zip(*pairs, strict=True)]


def divergence(folder, source, target):
    for name, lines in (("s", source), ("t", target)):
        (folder / name).write_text("".join(line + "\n" for line in lines), "utf-8")
    return find_divergence(folder / "s", folder / "t")


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("missing", [1, 2, 30])
@pytest.mark.parametrize("place", [0, 150, 260])
def test_missing_lines(tmp_path, side, missing, place):
    texts = parallel(300, seed=side)
    del texts[side][place : place + missing]
    found = divergence(tmp_path, *texts)
    assert abs(found.line - (place + 1)) <= 3
    assert found.source == texts[0][found.line - 1]


def test_the_first_of_several(tmp_path):
    source, target = parallel(300, seed=2)
    for place in (250, 170, 80):
        del target[place]
    assert abs(divergence(tmp_path, source, target).line - 81) <= 3


def test_blank_lines_alone_are_evidence(tmp_path):
    source = ["" if number % 7 in (0, 3) else "the same line" for number in range(70)]
    target = source[:30] + source[31:]
    assert 29 <= divergence(tmp_path, source, target).line <= 32


def test_without_evidence_the_end_is_named(tmp_path):
    choose = random.Random(0)
    for _ in range(20):
        source, target = (["x" * choose.randint(20, 30) for _ in range(n)] for n in (12, 11))
        assert divergence(tmp_path, source, target).line == 12


def test_a_split_line(tmp_path):
    source, target = parallel(200, seed=4)
    source[60:61] = [source[60][:8], source[60][8:]]
    assert abs(divergence(tmp_path, source, target).line - 61) <= 3


def test_a_file_that_ends_early(tmp_path):
    source, target = parallel(100, seed=5)
    found = divergence(tmp_path, source, target[:70])
    assert found.line == 71
    assert found.target is None
    shown = found.describe([tmp_path / "s", tmp_path / "t"])
    assert "(ends before)" in shown
    assert "line 71" in shown


@settings(max_examples=30, deadline=None)
@given(
    source=st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=30),
    target=st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=30),
)
def test_any_two_files_give_a_place(tmp_path_factory, source, target):
    folder = tmp_path_factory.mktemp("any")
    source = [line.replace("\n", " ") for line in source]
    target = [line.replace("\n", " ") for line in target]
    found = divergence(folder, source, target)
    assert 1 <= found.line <= min(len(source), len(target)) + 1
    found.describe([folder / "s", folder / "t"])


def test_long_lines_are_shown_shortened(tmp_path):
    found = divergence(tmp_path, ["x" * 1000, "y"], ["x" * 1000])
    assert all(len(line) < 200 for line in found.describe([tmp_path, tmp_path]).split("\n"))

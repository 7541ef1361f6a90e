"""Pairs stay pairs: counts, TABs and options are checked, and nothing is dropped in silence."""

import os

import numpy as np
import pytest

from gnomon.errors import DataError
from gnomon.text import DataConfig, Pair, ParallelCorpus


def written(path, lines, end="\n"):
    path.write_bytes(end.join([*lines, ""]).encode())
    return path


@pytest.fixture
def files(tmp_path):
    lines = [f"line {number}\u2028same \x85 line" for number in range(10)]
    source = written(tmp_path / "s", lines)
    return source, written(tmp_path / "t", [line.upper() for line in lines], "\r\n")


def test_two_files(files):
    source, target = files
    corpus = ParallelCorpus("train", source=source, target=target)
    assert len(corpus) == 10
    pairs = list(corpus.pairs())
    assert pairs[3][:3] == (4, "line 3\u2028same \x85 line", "LINE 3\u2028SAME \x85 LINE")
    assert list(corpus.sources) == list(corpus.sources) == [pair.source for pair in pairs]
    assert list(corpus.targets) == [pair.target for pair in pairs]
    assert len(corpus.targets) == 10


def test_tsv(tmp_path):
    corpus = ParallelCorpus("train", pairs=written(tmp_path / "x.tsv", ["a b\tc", "\td", '"e\t"f']))
    assert list(corpus.pairs()) == [
        Pair(1, "a b", "c"),
        Pair(2, "", "d"),
        Pair(3, '"e', '"f'),
    ]


@pytest.mark.parametrize(("line", "tabs"), [("no tab", 0), ("a\tb\tc", 2), ("", 0)])
def test_tsv_with_another_number_of_tabs(tmp_path, line, tabs):
    corpus = ParallelCorpus("train", pairs=written(tmp_path / "x.tsv", ["a\tb", line]))
    with pytest.raises(DataError, match=f"line 2: {tabs} TABs"):
        list(corpus.pairs())


def test_selection_keeps_line_numbers(files):
    source, target = files
    corpus = ParallelCorpus("all", source=source, target=target)
    part = corpus.select("part", np.array([0, 4, 9]))
    assert [pair.line for pair in part.pairs()] == [1, 5, 10]
    assert len(part) == 3
    assert part.name == "part"
    assert list(corpus.select("none", np.array([], np.int64)).pairs()) == []
    rest = corpus.without("rest", np.array([0, 4, 9]))
    assert [pair.line for pair in rest.pairs()] == [2, 3, 4, 6, 7, 8, 9]
    assert len(rest) == 7


def test_fingerprint_follows_content(files):
    source, target = files
    corpus = ParallelCorpus("a", source=source, target=target)
    assert ParallelCorpus("b", source=source, target=target).fingerprint == corpus.fingerprint
    prints = {
        corpus.fingerprint,
        ParallelCorpus("a", source=target, target=source).fingerprint,
        corpus.select("a", np.array([0, 1])).fingerprint,
        corpus.select("a", np.array([0, 2])).fingerprint,
        corpus.without("a", np.array([0, 2])).fingerprint,
    }
    source.write_text(source.read_text("utf-8").replace("line 9", "line 8"), "utf-8")
    prints.add(ParallelCorpus("a", source=source, target=target).fingerprint)
    assert len(prints) == 6
    rest = corpus.without("a", np.array([0, 1, 2]))
    assert rest.fingerprint == corpus.select("a", np.arange(3, 10)).fingerprint


def test_unequal_counts_name_the_place(tmp_path):
    source = [f"There are {7 * n} lines, and {n % 13} of them are red." for n in range(60)]
    target = [f"Es gibt {7 * n} Zeilen, und {n % 13} davon sind rot." for n in range(60)]
    del target[30]
    files = written(tmp_path / "s", source), written(tmp_path / "t", target)
    with pytest.raises(DataError) as caught:
        ParallelCorpus("train", source=files[0], target=files[1])
    message = str(caught.value)
    assert f"{files[0]}: 60 lines, {files[1]}: 59 lines" in message
    assert "at about line 31:" in message
    assert "There are 210 lines" in message
    assert "Es gibt 217 Zeilen" in message


def test_files_that_cannot_be_used(tmp_path):
    good = written(tmp_path / "good", ["a"])
    (tmp_path / "empty").touch()
    (tmp_path / "bom").write_bytes(b"\xef\xbb\xbf")
    os.mkfifo(tmp_path / "pipe")
    for bad, message in (
        ("empty", "must not be empty"),
        ("bom", "must not be empty"),
        ("pipe", "more than once"),
        ("absent", "must exist"),
        (".", "folder"),
    ):
        with pytest.raises(DataError, match=message):
            ParallelCorpus("train", source=good, target=tmp_path / bad)


def test_options():
    assert DataConfig().problems() == []  # a preset, to be given its text later
    assert DataConfig(source="a", target="b").problems() == []
    assert (
        DataConfig(pairs="a", valid_source="b", valid_target="c", test_pairs="d").problems() == []
    )
    for config, fault in (
        (DataConfig(source="a"), "data.target is missing"),
        (DataConfig(pairs="a", test_target="b"), "data.test_source is missing"),
        (DataConfig(pairs="a", source="b", target="c"), "cannot stand beside"),
        (DataConfig(pairs="a", holdout=-1), "holdout"),
        (DataConfig(pairs="a", max_length=1), "max_length"),
    ):
        (problem,) = config.problems()
        assert fault in problem
    assert len(DataConfig(source="a", valid_target="b", holdout=-1).problems()) == 3

"""Validation pairs are taken by hash, shared sources never lie on both sides, overlap is told."""

import random

import pytest

from gnomon.errors import DataError
from gnomon.text import DataConfig, open_corpora

PAIRS = [(f"source {n}", f"target {n}") for n in range(400)]


def write(path, pairs):
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), "utf-8")
    return str(path)


def opened(tmp_path, pairs, **options):
    return open_corpora(DataConfig(pairs=write(tmp_path / "train.tsv", pairs), **options))


def texts(corpus):
    return {(pair.source, pair.target) for pair in corpus.pairs()}


def test_holdout_takes_pairs_away_from_training(tmp_path):
    corpora = opened(tmp_path, PAIRS, holdout=30)
    assert corpora.test is None
    assert (len(corpora.train), len(corpora.valid)) == (370, 30)
    assert corpora.report.held_out == 30
    assert texts(corpora.train) | texts(corpora.valid) == set(PAIRS)
    assert (corpora.train.name, corpora.valid.name) == ("train", "valid")


def test_holdout_does_not_depend_on_order_and_hardly_on_growth(tmp_path):
    first = texts(opened(tmp_path, PAIRS, holdout=30).valid)
    shuffled = random.Random(0).sample(PAIRS, len(PAIRS))
    assert texts(opened(tmp_path, shuffled, holdout=30).valid) == first
    more = [*PAIRS, *((f"more {n}", "x") for n in range(20))]
    assert len(texts(opened(tmp_path, more, holdout=30).valid) & first) > 25


def test_same_sources_stay_on_one_side(tmp_path):
    pairs = [(f"{'A' if n % 2 else 'a'}  text {n // 8} ", f"target {n}") for n in range(800)]
    corpora = opened(tmp_path, pairs, holdout=50)
    assert 40 < len(corpora.valid) <= 50

    def sources(corpus):
        return {" ".join(pair.source.lower().split()) for pair in corpus.pairs()}

    assert not sources(corpora.train) & sources(corpora.valid)


def test_one_source_for_everything_leaves_nothing_to_hold_out(tmp_path):
    corpora = opened(tmp_path, [("same", f"target {n}") for n in range(100)], holdout=10)
    assert corpora.valid is None
    assert len(corpora.train) == 100


def test_holdout_is_at_most_a_tenth_and_may_be_none(tmp_path):
    assert len(opened(tmp_path, PAIRS).valid) == 40
    assert opened(tmp_path, PAIRS, holdout=0).valid is None
    assert opened(tmp_path, PAIRS[:5]).valid is None


def test_blank_pairs_are_not_held_out(tmp_path):
    pairs = [("", "x"), ("x", " "), ("\u3000", "")] * 5 + PAIRS
    valid = opened(tmp_path, pairs, holdout=40).valid
    assert all(source.strip() and target.strip() for source, target in texts(valid))


def test_given_validation_files_are_used_as_they_are(tmp_path):
    valid = write(tmp_path / "valid.tsv", [*PAIRS[:3], ("new", "neu"), ("SOURCE  7", "other")])
    test = write(tmp_path / "test.tsv", [("new", "neu"), PAIRS[9]])
    corpora = opened(tmp_path, PAIRS, valid_pairs=valid, test_pairs=test)
    assert (len(corpora.train), len(corpora.valid), len(corpora.test)) == (400, 5, 2)
    report = corpora.report
    assert report.held_out == 0
    assert (report.valid_in_train.count, report.valid_in_train.first_lines) == (4, [1, 2, 3, 5])
    assert (report.test_in_train.count, report.test_in_train.first_lines) == (1, [2])


def test_sources_are_compared_whatever_the_number_of_parts(tmp_path, monkeypatch):
    pairs = [*PAIRS, *PAIRS[::3]]
    whole = opened(tmp_path, pairs, holdout=30)
    monkeypatch.setattr("gnomon.text.key_file._PARTITION", 50)
    assert texts(opened(tmp_path, pairs, holdout=30).valid) == texts(whole.valid)


def test_contradicting_options_are_told_at_once():
    with pytest.raises(DataError, match=r"data\.target is missing.*holdout"):
        open_corpora(DataConfig(source="a", holdout=-1))


def test_no_training_text_is_told():
    with pytest.raises(DataError, match="none is"):
        open_corpora(DataConfig(test_pairs="a"))

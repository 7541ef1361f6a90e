"""Gzip is read by what it is, and gzip that is cut off is never a shorter text."""

import gzip
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnomon.errors import DataError
from gnomon.text import ParallelCorpus, count_lines, read_lines

TEXT = "".join(f"line {number} {number * 7919 % 10007}\n" for number in range(20_000))
LINES = TEXT.splitlines()


@pytest.mark.parametrize("name", ["text.gz", "text"])
def test_gzip_is_known_by_its_first_bytes(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(gzip.compress(TEXT.encode()))
    assert list(read_lines(path)) == LINES
    assert count_lines(path) == len(LINES)


def test_plain_text_named_gz_is_plain_text(tmp_path):
    path = tmp_path / "text.gz"
    path.write_text(TEXT)
    assert list(read_lines(path)) == LINES


def test_several_members_are_one_text(tmp_path):
    """As `cat a.gz b.gz` and bgzip make them."""
    path = tmp_path / "text.gz"
    middle = len(TEXT) // 2
    parts = TEXT[:middle], TEXT[middle:]
    path.write_bytes(b"".join(gzip.compress(part.encode()) for part in parts))
    assert list(read_lines(path)) == LINES


def test_a_stream_is_unpacked():
    stream = io.BufferedReader(io.BytesIO(gzip.compress(b"a\nb\n")))
    assert list(read_lines(stream, errors="replace")) == ["a", "b"]


def test_bom_within_gzip(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(gzip.compress("\ufeffa\r\nb".encode()))
    assert list(read_lines(path)) == ["a", "b"]


WHOLE = gzip.compress(TEXT.encode())


@given(st.integers(2, len(WHOLE) - 1))
def test_cut_off_anywhere_is_told(tmp_path_factory, size):
    path = tmp_path_factory.getbasetemp() / "cut.gz"
    path.write_bytes(WHOLE[:size])
    with pytest.raises(DataError, match=r"gzip data must be whole(.|\n)*after line"):
        count_lines(path)
    with pytest.raises(DataError, match=r"gzip data must be whole(.|\n)*after line"):
        list(read_lines(path))
    with pytest.raises(DataError, match="gzip data must be whole"):
        list(read_lines(path, errors="replace"))


def test_the_line_that_was_reached_is_named(tmp_path):
    path = tmp_path / "cut.gz"
    path.write_bytes(WHOLE[:-8])  # all the text is there, its checksum is not
    lines = []
    with pytest.raises(DataError) as caught:
        for line in read_lines(path):
            lines.append(line)  # what came before the error counts
    assert lines == LINES[: len(lines)]
    assert len(lines) > 10_000
    assert f"after line {len(lines):,}" in str(caught.value)


def test_a_changed_byte_is_told(tmp_path):
    path = tmp_path / "text.gz"
    damaged = bytearray(WHOLE)
    damaged[-6] ^= 1  # within the checksum
    path.write_bytes(damaged)
    with pytest.raises(DataError, match="gzip data must be whole"):
        list(read_lines(path))


def test_bytes_behind_the_end_are_told(tmp_path):
    path = tmp_path / "text.gz"
    path.write_bytes(WHOLE + b"something else")
    with pytest.raises(DataError, match="gzip data must be whole"):
        list(read_lines(path))


def test_a_corpus_of_one_packed_and_one_plain_file(tmp_path):
    (tmp_path / "s.gz").write_bytes(gzip.compress(b"a\nb\n"))
    (tmp_path / "t").write_bytes(b"A\nB\n")
    corpus = ParallelCorpus("train", source=tmp_path / "s.gz", target=tmp_path / "t")
    assert [(pair.source, pair.target) for pair in corpus.pairs()] == [("a", "A"), ("b", "B")]


def test_nothing_within_gzip_is_an_empty_file(tmp_path):
    (tmp_path / "s.gz").write_bytes(gzip.compress(b""))
    with pytest.raises(DataError, match="must not be empty"):
        ParallelCorpus("train", pairs=tmp_path / "s.gz")

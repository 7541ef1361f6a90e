"""One line rule: "\\n" ends a line, nothing else does, and bad bytes have a defined result."""

import bz2
import gzip
import io
import lzma
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnomon.errors import DataError
from gnomon.text import Replacements, count_lines, read_lines

NOT_LINE_ENDS = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\rh"


def lines_of(path, data, **options):
    path.write_bytes(data)
    return list(read_lines(path, **options))


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"a\nb\n", ["a", "b"]),
        (b"a\nb", ["a", "b"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\r\r\n", ["a\r"]),  # one "\r" only
        (b"a\rb\n", ["a\rb"]),
        (b"\n\n\n", ["", "", ""]),
        (b"\n", [""]),
        (b"\xef\xbb\xbfa\nb\n", ["a", "b"]),
        (b"a\n\xef\xbb\xbfb\n", ["a", "\ufeffb"]),  # a BOM only at the start of the file
        (b"\xef\xbb\xbf\n", [""]),
        (b"\xef\xbb\xbf", []),
        (NOT_LINE_ENDS.encode() + b"\n", [NOT_LINE_ENDS]),
    ],
)
def test_lines(tmp_path, data, lines):
    path = tmp_path / "text"
    assert lines_of(path, data) == lines
    assert count_lines(path) == len(lines)
    assert list(read_lines(io.BytesIO(data))) == lines


@given(st.binary(max_size=200))
def test_any_bytes_give_as_many_lines_as_there_are_line_ends(data):
    lines = list(read_lines(io.BytesIO(data), errors="replace"))
    body = data.removeprefix(b"\xef\xbb\xbf")
    assert len(lines) == body.count(b"\n") + (not body.endswith(b"\n") and body != b"")
    assert not any("\n" in line or "\0" in line for line in lines)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\n\r"))))
def test_written_lines_come_back(lines):
    data = "".join(line + "\n" for line in lines).encode()
    expected = [lines[0].removeprefix("\ufeff"), *lines[1:]] if lines else []
    assert list(read_lines(io.BytesIO(data), errors="replace")) == expected


def test_counting_agrees_across_blocks(tmp_path):
    path = tmp_path / "text"
    for data in (b"x" * (1 << 20) + b"\ny", b"x" * ((1 << 20) - 1) + b"\n", b"\n" * (1 << 20)):
        assert len(lines_of(path, data)) == count_lines(path)


def test_strict_names_line_and_byte(tmp_path):
    with pytest.raises(DataError, match=r"line 2, byte offset 7"):
        lines_of(tmp_path / "text", b"\xef\xbb\xbfab\nc\xffd\n")
    with pytest.raises(DataError, match=r"NUL.*\n.*line 2, byte offset 4"):
        lines_of(tmp_path / "text", b"ab\nc\0\n")
    with pytest.raises(DataError, match="line 1, byte offset 1"):  # cut in mid-character
        lines_of(tmp_path / "text", b"a\xe2\x82")
    with pytest.raises(DataError, match="line 1"):  # a surrogate is no UTF-8
        lines_of(tmp_path / "text", b"\xed\xa0\x80\n")


def test_strict_raises_only_at_the_bad_line(tmp_path):
    (tmp_path / "text").write_bytes(b"good\nb\xffd\n")
    lines = read_lines(tmp_path / "text")
    assert next(lines) == "good"
    with pytest.raises(DataError):
        next(lines)


def test_replace_counts_what_it_changed():
    changed = Replacements()
    assert not changed
    data = "ok \ufffd\n".encode() + b"b\xffa\0d\xc3\n\xff\xef\xbf\xbd\n"
    lines = list(read_lines(io.BytesIO(data), errors="replace", replacements=changed))
    assert lines == ["ok \ufffd", "b\ufffda d\ufffd", "\ufffd\ufffd"]
    assert changed
    assert (changed.num_invalid, changed.num_nul, changed.first_line) == (3, 1, 2)


def test_replace_takes_an_empty_file(tmp_path):
    assert lines_of(tmp_path / "text", b"", errors="replace") == []


def test_faults_are_told_before_reading(tmp_path):
    (tmp_path / "empty").touch()
    (tmp_path / "train.en").write_text("x\n")
    for path, message in (
        (tmp_path / "empty", "must not be empty"),
        (tmp_path, "is a folder"),
        (tmp_path / "train.en.gz", "did you mean train.en"),
        (tmp_path / "none" / "there", "does not exist either"),
    ):
        with pytest.raises(DataError, match=message):
            read_lines(path)  # not iterated


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_file(tmp_path):
    path = tmp_path / "text"
    path.write_text("x\n")
    path.chmod(0)
    with pytest.raises(DataError, match="permission"):
        read_lines(path)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (gzip.compress(gzip.compress(b"a\n", mtime=0), mtime=0), "gzip within gzip"),
        ("a\n".encode("utf-16"), "UTF-16"),
        (b"PK\x03\x04", "zip"),
        (bz2.compress(b"a\n"), "bzip2"),
        (lzma.compress(b"a\n"), "xz"),
        (b"PAR1 and so on", "Parquet"),
    ],
)
def test_other_formats_are_named(tmp_path, data, kind):
    with pytest.raises(DataError, match=kind):
        lines_of(tmp_path / "text", data)


def test_a_very_long_line(tmp_path):
    assert lines_of(tmp_path / "text", b"x" * 1_000_000 + b"\n") == ["x" * 1_000_000]

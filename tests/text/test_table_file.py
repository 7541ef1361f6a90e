"""Rows with named fields from every format, and what is said of files that are not so."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from gnomon.errors import DataError
from gnomon.text.table_file import TableFile

ROWS = [("good, really", "1"), ('he said "no"', "0"), ("two\nlines", "1")]


def rows_of(path: Path, fields: tuple[str, ...] = ("text", "label")) -> list[tuple[object, ...]]:
    return list(TableFile(path, fields).rows())


def test_every_format_gives_the_same_rows(tmp_path: Path) -> None:
    csv = 'label,extra,text\n1,x,"good, really"\n0,y,"he said ""no"""\n1,z,"two\nlines"\n'
    (tmp_path / "a.csv").write_text(csv)
    with gzip.open(tmp_path / "a.csv.gz", "wt") as file:
        file.write(csv)
    lines = [json.dumps({"text": text, "label": label}) for text, label in ROWS]
    (tmp_path / "a.jsonl").write_text("\n".join(lines) + "\n")
    (tmp_path / "a.tsv").write_text('text\tlabel\ngood, really\t1\nhe said "no"\t0\n')
    for name in ("a.csv", "a.csv.gz", "a.jsonl"):
        assert rows_of(tmp_path / name) == ROWS, name
    assert rows_of(tmp_path / "a.tsv") == ROWS[:2]


def test_numbers_name_columns_of_a_file_without_a_head(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("1\tgood\n0\tbad\n")
    assert rows_of(tmp_path / "a.tsv", ("2", "1")) == [("good", "1"), ("bad", "0")]
    with pytest.raises(DataError, match=r"must hold column 3\n.*line 1: 2 columns"):
        rows_of(tmp_path / "a.tsv", ("3", "1"))
    with pytest.raises(DataError, match="counted from 1"):
        rows_of(tmp_path / "a.tsv", ("0", "1"))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.tsv", "text\tlabl\na\t1\n", "no column label among 'text', 'labl'"),
        ("a.tsv", "text\tlabel\na\n", r"must hold column 2\n.*line 2: 1 columns"),
        ("a.csv", 'text,label\n"a,1\n', "well formed"),
        ("a.csv", 'text,label\n"a"b,1\n', "well formed"),
        ("a.jsonl", '{"text": "a"}\n', "must hold the field label"),
        ("a.jsonl", "[1]\n", "one object"),
        ("a.tsv", "", "empty|must hold"),
    ],
)
def test_what_is_no_table_is_named(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=message):
        rows_of(tmp_path / name)


def test_a_name_that_two_columns_have_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,label,text\na,1,b\n")
    with pytest.raises(DataError, match=r"'text' 2 times"):
        rows_of(tmp_path / "a.csv")
    assert rows_of(tmp_path / "a.csv", ("label",)) == [("1",)]


def test_blank_lines_at_the_end_of_csv_are_no_rows(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,label\na,1\n\n\n")
    assert rows_of(tmp_path / "a.csv") == [("a", "1")]
    (tmp_path / "a.csv").write_text("text,label\na,1\n\nb,2\n")
    with pytest.raises(DataError, match=r"must hold column 2\n.*row 3: 0 columns"):
        rows_of(tmp_path / "a.csv")

"""TSV, JSON lines and Parquet give the same pairs; what is no pair of texts is named."""

import gzip
import json
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gnomon.errors import DataError
from gnomon.text import DataConfig, ParallelCorpus, open_corpora
from gnomon.text.occurrences import Occurrences
from gnomon.text.pair_files import PairFile

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

any_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
any_pairs = st.lists(st.tuples(any_text, any_text), min_size=1, max_size=8)


def write_jsonl(path, rows, **options):
    path.write_text("".join(json.dumps(row, **options) + "\n" for row in rows), "utf-8")
    return path


def rows_of(path, **options):
    corpus = ParallelCorpus("train", pairs=path, **options)
    rows = [(pair.source, pair.target) for pair in corpus.pairs()]
    assert len(corpus) == len(rows)
    return rows


def on_one_line(text):
    return text.replace("\r\n", " ").replace("\n", " ")


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(any_pairs, st.booleans(), st.booleans())
def test_json_lines_round_trip(tmp_path, pairs, ascii_only, packed):
    path = tmp_path / "pairs.jsonl"
    rows = [{"target": target, "source": source, "id": 3} for source, target in pairs]
    write_jsonl(path, rows, ensure_ascii=ascii_only)
    if packed:
        path.write_bytes(gzip.compress(path.read_bytes()))
    assert rows_of(path) == [tuple(map(on_one_line, pair)) for pair in pairs]


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(any_pairs, st.integers(1, 3), st.sampled_from(["string", "large_string", "dictionary"]))
def test_parquet_round_trip(tmp_path, pairs, group, kind):
    path = tmp_path / "pairs.parquet"
    sides = []
    for side in zip(*pairs, strict=True):
        array = pa.array(side, pa.large_string() if kind == "large_string" else pa.string())
        sides.append(array.dictionary_encode() if kind == "dictionary" else array)
    pq.write_table(pa.table({"source": sides[0], "target": sides[1]}), path, row_group_size=group)
    assert rows_of(path) == [tuple(map(on_one_line, pair)) for pair in pairs]


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(*[any_text.map(lambda t: t.translate({9: " ", 10: " ", 13: " "}))] * 2),
        min_size=1,
        max_size=8,
    )
)
def test_tsv_round_trip(tmp_path, pairs):
    path = tmp_path / "pairs.tsv"
    path.write_bytes("\ufeff".encode() + "".join(f"{s}\t{t}\n" for s, t in pairs).encode())
    assert rows_of(path) == pairs


@pytest.mark.parametrize("suffix", [".jsonl", ".ndjson", ".json", ".JSONL", ".jsonl.gz"])
def test_the_name_says_json_lines(tmp_path, suffix):
    path = write_jsonl(tmp_path / f"a.b{suffix}", [{"source": "x", "target": "y"}])
    assert rows_of(path) == [("x", "y")]


def test_format_may_be_given(tmp_path):
    path = write_jsonl(tmp_path / "pairs", [{"source": "x", "target": "y"}])
    assert rows_of(path, format="jsonl") == [("x", "y")]
    with pytest.raises(DataError, match="0 TABs"):
        rows_of(path)


def test_fields_may_be_named_and_nested(tmp_path):
    rows = [{"translation": {"en": "a", "de": "b"}, "en.us": "c"}]
    jsonl = write_jsonl(tmp_path / "a.jsonl", rows)
    parquet = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_pylist(rows), parquet)
    for path in (jsonl, parquet):
        fields = {"source_field": "translation.en", "target_field": "translation.de"}
        assert rows_of(path, **fields) == [("a", "b")]
        fields = {"source_field": "en.us", "target_field": "translation.en"}
        assert rows_of(path, **fields) == [("c", "a")]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "line 2"),
        ("not json", "line 2: not json"),
        ("[1, 2]", r"line 2: \[1, 2\]"),
        ('"text"', "one object"),
        ("[" * 100_000, "one object"),
        ('{"source": "a"}', "line 2: fields 'source'"),
        ("{}", "line 2: fields none"),
        ('{"source": "a", "target": null}', "line 2, field target: null"),
        ('{"source": 5, "target": "b"}', "line 2, field source: 5"),
        ('{"source": {"a": 1}, "target": "b"}', "line 2, field source"),
        ('{"source": "a\\u0000", "target": "b"}', "NUL"),
        ('{"source": "\\ud800", "target": "b"}', "lone surrogates"),
        ('{"source": ' + "9" * 5000 + "}", "one object"),
        ('{"source": "a", "target": "b"', "line 2"),
    ],
)
def test_json_lines_that_are_no_pairs(tmp_path, line, message):
    path = tmp_path / "pairs.jsonl"
    path.write_text('{"source": "a", "target": "b"}\n' + line + "\n")
    with pytest.raises(DataError, match=message):
        rows_of(path)


def test_parquet_that_cannot_be_used(tmp_path):
    path = tmp_path / "pairs.parquet"
    table = pa.table({"source": ["a", "b"], "target": ["A", None], "number": [1, 2]})
    pq.write_table(table, path)
    with pytest.raises(DataError, match="row 2, field target: null"):
        rows_of(path)
    with pytest.raises(DataError, match="row 1, field number: 1"):
        rows_of(path, target_field="number")
    with pytest.raises(DataError, match=r"column en(.|\n)*columns source, target, number"):
        rows_of(path, source_field="en")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="whole and readable"):
        rows_of(path)
    path.write_bytes(gzip.compress(whole))
    with pytest.raises(DataError, match="gunzip"):
        rows_of(path)
    with pytest.raises(DataError, match="must exist"):
        rows_of(tmp_path / "absent.parquet")
    with pytest.raises(DataError, match="folder"):
        (tmp_path / "folder.parquet").mkdir()
        rows_of(tmp_path / "folder.parquet")
    pq.write_table(table.slice(0, 0), path)
    with pytest.raises(DataError, match="must not be empty"):
        rows_of(path)


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    path = tmp_path / "pairs.parquet"
    pq.write_table(pa.table({"source": ["a"], "target": ["b"]}), path)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DataError, match=r"pip install 'gnomon\[parquet\]'"):
        rows_of(path)


def test_line_breaks_are_counted_and_named(tmp_path):
    rows = [{"source": f"a{n}", "target": "b\r\nc\n" if n % 3 == 0 else "b"} for n in range(30)]
    path = write_jsonl(tmp_path / "pairs.jsonl", rows)
    breaks = Occurrences()
    assert [*PairFile(path).rows(breaks)].count(("a0", "b c ")) == 1
    assert (breaks.count, breaks.first_lines) == (10, [1, 4, 7, 10, 13])
    report = open_corpora(DataConfig(pairs=str(path), holdout=0)).report
    assert (report.line_breaks.count, report.line_breaks.first_lines) == (10, [1, 4, 7, 10, 13])

"""Labelled texts: labels of three kinds, what is held out, and every fault named with its row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gnomon.errors import DataError
from gnomon.text.labelled import LabelledDataConfig, open_labelled, read_labelled


def write(folder: Path, text: str, name: str = "a.tsv") -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def test_one_label_a_text(tmp_path: Path) -> None:
    train = write(tmp_path, "text\tlabel\n" + "".join(f"t{i}\t{i % 3 + 9}\n" for i in range(30)))
    splits = open_labelled(LabelledDataConfig(train=train))
    assert splits.labels == ("9", "10", "11")  # numbers in their own order
    assert splits.held_out == 3
    assert splits.valid is not None
    assert len(splits.train.examples) + len(splits.valid.examples) == 30
    other = open_labelled(LabelledDataConfig(train=train, labels=("x", "11", "10", "9")))
    assert other.labels == ("x", "11", "10", "9")


def test_what_is_held_out_does_not_depend_on_the_order(tmp_path: Path) -> None:
    rows = [f"text {i}\t{i % 2}" for i in range(200)]
    found = []
    for some in (rows, rows[::-1]):
        path = write(tmp_path, "text\tlabel\n" + "\n".join(some) + "\n")
        valid = open_labelled(LabelledDataConfig(train=path)).valid
        assert valid is not None
        found.append(sorted(valid.texts))
    assert found[0] == found[1]


def test_equal_texts_stay_on_one_side(tmp_path: Path) -> None:
    rows = [f"text {i // 4}\t{i % 2}" for i in range(200)]
    path = write(tmp_path, "text\tlabel\n" + "\n".join(rows) + "\n")
    splits = open_labelled(LabelledDataConfig(train=path))
    assert splits.valid is not None
    assert not set(splits.train.texts) & set(splits.valid.texts)
    assert splits.seen_before == {"valid": []}


def test_held_out_text_that_is_trained_on_is_told(tmp_path: Path) -> None:
    train = write(tmp_path, "text\tlabel\na\t0\nb\t1\n")
    test = write(tmp_path, "text\tlabel\nnew\t0\nA \t1\n", "test.tsv")
    splits = open_labelled(LabelledDataConfig(train=train, test=test, holdout=0))
    assert splits.seen_before == {"test": [3]}


def test_several_labels_and_pairs(tmp_path: Path) -> None:
    path = write(tmp_path, 'text,pair,label\na,b,"x, y"\nc,d,\ne,f,y\n', "a.csv")
    config = LabelledDataConfig(train=path, pair="pair", labels_are="multi", holdout=0)
    splits = open_labelled(config)
    assert [one.labels for one in splits.train.examples] == [("x", "y"), (), ("y",)]
    assert splits.train.pairs == ["b", "d", "f"]
    lists = write(tmp_path, '{"text": "a", "label": ["y", "x", "y"]}\n', "a.jsonl")
    config = LabelledDataConfig(train=lists, labels_are="multi", holdout=0)
    assert open_labelled(config).train.examples[0].labels == ("y", "x")


def test_a_label_for_each_word(tmp_path: Path) -> None:
    path = write(tmp_path, "text\tlabel\nBob  ran home\tN V A\n")
    config = LabelledDataConfig(train=path, labels_are="words", holdout=0)
    (one,) = open_labelled(config).train.examples
    assert (one.text, one.labels) == ("Bob ran home", ("N", "V", "A"))
    lists = '{"text": ["Bob", "ran"], "label": ["N", "V"]}\n'
    config = LabelledDataConfig(
        train=write(tmp_path, lists, "a.jsonl"), labels_are="words", holdout=0
    )
    assert open_labelled(config).train.examples[0].labels == ("N", "V")


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("text\tlabel\na\t\n", {}, r"every text needs a label\n.*line 2, field label"),
        ("text\tlabel\na\tx\nb\tx\n", {}, "2 different labels"),
        ("text\tlabel\na b\tx\n", {"labels_are": "words"}, "2 words, 1 labels"),
        ("text\tlabel\na\tx\n", {"labels": ("p", "q")}, r"row 2: 'x'; known: 'p', 'q'"),
        ("text\tlabel\n", {}, "must hold some"),
        ("a\tb\n", {}, "no column text"),
    ],
)
def test_faults_are_named(
    tmp_path: Path, text: str, options: dict[str, object], message: str
) -> None:
    config = LabelledDataConfig(train=write(tmp_path, text), **options)  # type: ignore[arg-type]
    with pytest.raises(DataError, match=message):
        open_labelled(config)


@pytest.mark.parametrize("label", ["a\nb", "a\tb", "a\u2028b"])
def test_a_label_is_one_line_and_one_column(tmp_path: Path, label: str) -> None:
    path = write(tmp_path, f'text,label\nx,"{label}"\n', "a.csv")
    with pytest.raises(DataError, match="one line without TABs"):
        read_labelled(LabelledDataConfig(), "train", path)
    assert "one line" in LabelledDataConfig(labels=(label, "b")).problems()[0]


def test_labels_of_more_digits_than_python_reads_are_labels(tmp_path: Path) -> None:
    many = "1" * 5000
    path = write(tmp_path, f"text\tlabel\na\t{many}\nb\t10\nc\t9\nd\tx\n")
    labels = open_labelled(LabelledDataConfig(train=path, holdout=0)).labels
    assert labels == ("9", "10", many, "x")


def test_json_labels_are_texts_or_whole_numbers(tmp_path: Path) -> None:
    for value in ("null", "true", "1.5", "{}"):
        path = write(tmp_path, f'{{"text": "a", "label": {value}}}\n', "a.jsonl")
        with pytest.raises(DataError, match="a text or a whole number"):
            read_labelled(LabelledDataConfig(), "train", path)
    path = write(tmp_path, '{"text": "a", "label": 3}\n', "a.jsonl")
    assert read_labelled(LabelledDataConfig(), "train", path).examples[0].labels == ("3",)


def test_unknown_labels_of_held_out_text_are_named(tmp_path: Path) -> None:
    train = write(tmp_path, "text\tlabel\na\t0\nb\t1\n")
    valid = write(tmp_path, "text\tlabel\na\t0\nb\t2\n", "v.tsv")
    with pytest.raises(DataError, match=r"v\.tsv, row 3: '2'"):
        open_labelled(LabelledDataConfig(train=train, valid=valid))


def test_rules_of_the_table() -> None:
    for options, message in (
        ({"holdout": -1}, "holdout"),
        ({"max_length": 3}, "max_length"),
        ({"labels_are": "words", "pair": "b"}, "pair"),
        ({"labels": ("a", "a")}, "repeat"),
        ({"labels": ("a",)}, "two or more"),
        ({"label": "text"}, "columns of their own"),
        ({"separator": ""}, "separator"),
    ):
        (problem,) = LabelledDataConfig(**options).problems()  # type: ignore[arg-type]
        assert message in problem
    assert "separator" in LabelledDataConfig(separator=";").unused()[0]


def test_numbers_of_columns_are_written_with_or_without_quotes(tmp_path: Path) -> None:
    path = write(tmp_path, "x\tgood\ny\tbad\n")
    for one, other in ((2, 1), ("2", "1")):
        config = LabelledDataConfig(train=path, text=one, label=other, holdout=0)
        assert open_labelled(config).train.texts == ["good", "bad"]
    assert "columns of their own" in LabelledDataConfig(text=1, label="1").problems()[0]


def parquet(path: Path, **columns: Any) -> str:
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(arrow.table(columns), path)
    return str(path)


def test_parquet(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    texts = ["a\r\nb", "", "c", "d"]
    for labels in ([1, 0, 1, 1], arrow.array(["x", "y", "x", "x"]).dictionary_encode()):
        file = parquet(tmp_path / "a.parquet", text=texts, label=labels)
        splits = open_labelled(LabelledDataConfig(train=file, holdout=0))
        assert splits.train.texts == ["a b", "", "c", "d"]
        assert splits.labels in (("0", "1"), ("x", "y"))
        assert splits.train.num_breaks == 1
    nested = [{"good": "x", "hyp": "h"}] * 4
    file = parquet(tmp_path / "b.parquet", row=nested, tags=[["p", "q"], [], ["q"], ["q", "q"]])
    config = LabelledDataConfig(
        train=file, text="row.good", pair="row.hyp", label="tags", labels_are="multi", holdout=0
    )
    splits = open_labelled(config)
    assert splits.train.pairs == ["h"] * 4
    assert [one.labels for one in splits.train.examples] == [("p", "q"), (), ("q",), ("q",)]
    file = parquet(tmp_path / "c.parquet", text=[["a", "b"], ["c"]], label=[[1, 0], [0]])
    splits = open_labelled(LabelledDataConfig(train=file, labels_are="words", holdout=0))
    assert [one.labels for one in splits.train.examples] == [("1", "0"), ("0",)]


@pytest.mark.parametrize(
    ("columns", "seen"),
    [
        ({"text": ["a", "b"], "label": ["x", None]}, "row 2, field label: None"),
        ({"text": ["a", None], "label": ["x", "y"]}, "row 2, field text: null"),
        ({"text": ["a", "b"], "label": [0.5, 1.0]}, "row 1, field label: 0.5"),
        ({"text": ["a", "b"], "label": [b"x", b"y"]}, "row 1, field label: b'x'"),
        ({"text": ["a", "b"], "labels": ["x", "y"]}, "columns text, labels"),
        ({"text": ["a", "b"], "label": ["x", " "]}, "row 2, field label: none"),
    ],
)
def test_faults_of_parquet_are_named(tmp_path: Path, columns: dict[str, Any], seen: str) -> None:
    file = parquet(tmp_path / "a.parquet", **columns)
    with pytest.raises(DataError, match=seen):
        open_labelled(LabelledDataConfig(train=file))
    (tmp_path / "no.parquet").write_bytes(b"text,label\na,b\n")
    with pytest.raises(DataError, match="whole and readable"):
        open_labelled(LabelledDataConfig(train=str(tmp_path / "no.parquet")))


def test_what_is_no_word_is_no_word(tmp_path: Path) -> None:
    config = LabelledDataConfig(
        train=write(tmp_path, '{"text": ["a", "b"], "label": ["x", null]}\n', "a.jsonl"),
        labels_are="words",
    )
    with pytest.raises(DataError, match="line 1, field label: None"):
        open_labelled(config)


def test_word_labels_are_judged_on_words(tmp_path: Path) -> None:
    train = write(tmp_path, "text\tlabel\na b\tx y\n\t\n")
    valid = write(tmp_path, "text\tlabel\n\t\n \t\n", "valid.tsv")
    config = LabelledDataConfig(train=train, valid=valid, labels_are="words")
    with pytest.raises(DataError, match=r"not empty texts alone\n.*2 valid texts, 0 words"):
        open_labelled(config)
    alone = LabelledDataConfig(train=train, labels_are="words", holdout=0)
    assert len(open_labelled(alone).train.examples) == 2

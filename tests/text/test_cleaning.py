"""Every reason is found where it is and nowhere else; what is left out is what was said."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnomon.errors import DataError
from gnomon.text import REASONS, CleaningConfig, ParallelCorpus, clean, cleaning_pass, look
from gnomon.text.cleaning_controls import is_control, mend_controls
from gnomon.text.cleaning_traits import Traits
from gnomon.text.key_file import KeyFile

DEFAULT = CleaningConfig()
LATIN = CleaningConfig(source_scripts=("Latin",), target_scripts=("Latin",))
NINE = "one two three four five six seven eight nine"

# Pairs that show exactly one reason, with the part of the detail that says what was seen.
SHOWN = {
    "empty_side": [("a house", " \t ", "target"), ("\x0b\u2028", "ein Haus", "source")],
    "control_characters": [
        ("a\x0bhouse", "ein Haus", "source: U+000B"),
        ("a house", "ein\u2028Haus \u2029", "target: U+2028 U+2029"),
        ("a house\x85", "ein Haus", "U+0085"),
        ("a \rhouse", "ein Haus", "U+000D"),
        ("\u202ea house\u202c", "ein Haus", "U+202C U+202E"),
        ("a house", "ein\ufeffHaus", "U+FEFF"),
    ],
    "encoding_damage": [
        ("a house", "ein H\ufffdus", "U+FFFD"),
        ("many houses", "viele HÃ¤user", r"Ã\xa4".encode("ascii", "backslashreplace").decode()),
        ("it's", "esâ€™s", "target"),
        ("a house", "дом".encode().decode("latin-1").replace("´", "µ"), "target"),
    ],
    "identical_sides": [
        ("Paris is big", "Paris is big", ""),
        ("Paris is big ", "Paris is big", ""),
    ],
    "length_ratio": [
        (NINE, "eins zwei", "9 and 2 words"),
        ("one", "一二三四五六七八九十" * 3, "16"),
    ],
    "too_long": [
        (f"{NINE} " * 23, f"{NINE}! " * 22, "207 words"),
        ("x" * 2001, "y" * 1999, "2001 characters"),
    ],
    "few_letters": [("a house", "... --- !!!", "0% letters"), ("12-34-56", "Haus", "source")],
    "repeated_words": [
        ("no no no no no I say", "nein nein nein nein, sage ich", "'no' 5 times"),
        ("well then, my friend", "na na na na na denn", "target"),
    ],
    "numbers_differ": [("page 12 and 3", "Seite 12 und 4", "12 3 and 12 4")],
    "wrong_script": [("a house", "дом у реки", "0% Latin"), ("ένα σπίτι", "ein Haus", "source")],
    "duplicate_pair": [],
    "duplicate_source": [],
    "duplicate_target": [],
    "wrong_language": [],
}
CLEAN = [
    ("a house", "ein Haus"),
    ("It cost 1,000.50 in 2019.", "2019 kostete es 1.000,50."),
    ("one house", "1 Haus steht da"),
    ("I like tea", "我喜欢喝茶"),
    ("very very very very good", "sehr sehr sehr sehr gut"),
    ("a child \U0001f469\u200d\U0001f467 with \u00adhyphen", "ein Kind \U0001f469\u200d\U0001f467"),
    ("می\u200cخواهم", "ich will\u200f"),
    ("NÃO é, Âmbar, âmago", "IRMÃ, não"),
    ("Ñandú", "Øre, Ðetta"),
]


def corpus_of(folder, pairs, name="pairs"):
    (folder / f"{name}.s").write_bytes("".join(s + "\n" for s, _ in pairs).encode())
    (folder / f"{name}.t").write_bytes("".join(t + "\n" for _, t in pairs).encode())
    return ParallelCorpus("train", source=folder / f"{name}.s", target=folder / f"{name}.t")


def findings(path):
    header, *rows = path.read_text("utf-8").split("\n")[:-1]
    assert header.split("\t") == ["line", "reason", "action", "detail"]
    return [row.split("\t") for row in rows]


def test_every_reason_has_cases():
    assert SHOWN.keys() == REASONS.keys()


@pytest.mark.parametrize("reason", [reason for reason, cases in SHOWN.items() if cases])
def test_a_reason_is_found_and_no_other(tmp_path, reason):
    config = LATIN if reason == "wrong_script" else DEFAULT
    for source, target, detail in SHOWN[reason]:
        cleaned = clean(
            corpus_of(tmp_path, [("some words here", "einige Wörter hier"), (source, target)]),
            config,
            tmp_path / "cache",
        )
        ((line, found, _, seen),) = findings(cleaned.findings)
        assert (line, found) == ("2", reason)
        assert detail in seen, (source, seen)
        assert cleaned.report.findings[reason].lines == [2]


def test_clean_pairs_show_nothing(tmp_path):
    corpus = corpus_of(tmp_path, CLEAN)
    cleaned = clean(corpus, DEFAULT, tmp_path / "cache")
    assert findings(cleaned.findings) == []
    assert cleaned.corpus is corpus
    assert cleaned.report.num_kept == len(CLEAN)


EVERY = [(s, t) for cases in SHOWN.values() for s, t, _ in cases]


@pytest.mark.parametrize("reason", [reason for reason, cases in SHOWN.items() if cases])
def test_dropping_leaves_out_those_pairs_and_shifts_none(tmp_path, reason):
    corpus = corpus_of(tmp_path, EVERY)
    config = replace(LATIN, control_characters="keep")
    if reason != "empty_side":
        config = replace(config, **{reason: "drop"})
    cleaned = clean(corpus, config, tmp_path / "cache")
    lines = {int(line) for line, found, *_ in findings(cleaned.findings) if found == reason}
    empty = {1, 2}
    assert lines
    kept = list(cleaned.corpus.pairs())
    assert kept == [pair for pair in corpus.pairs() if pair.line not in lines | empty]
    assert len(kept) == len(cleaned.corpus) == cleaned.report.num_kept
    assert list(cleaned.corpus.sources) == [pair.source for pair in kept]
    assert cleaned.corpus.fingerprint != corpus.fingerprint


def test_only_empty_sides_are_left_out_by_default(tmp_path):
    corpus = corpus_of(tmp_path, [*EVERY, *EVERY])
    cleaned = clean(corpus, LATIN, tmp_path / "cache")
    actions = {reason: finding.action for reason, finding in cleaned.report.findings.items()}
    assert {r for r, action in actions.items() if action == "drop"} == {"empty_side"}
    assert {r for r, action in actions.items() if action == "repair"} == {"control_characters"}
    assert cleaned.report.num_dropped == 4
    assert cleaned.report.num_repaired == 2 * len(SHOWN["control_characters"])


def test_repair_puts_a_blank_or_nothing(tmp_path):
    cases = [(s, t) for s, t, _ in SHOWN["control_characters"]]
    cleaned = clean(corpus_of(tmp_path, cases), DEFAULT, tmp_path / "cache")
    pairs = [(pair.line, pair.source, pair.target) for pair in cleaned.corpus.pairs()]
    assert pairs == [
        (1, "a house", "ein Haus"),
        (2, "a house", "ein Haus  "),
        (3, "a house ", "ein Haus"),
        (4, "a  house", "ein Haus"),
        (5, "a house", "ein Haus"),
        (6, "a house", "einHaus"),
    ]


def test_repeats_are_those_of_whole_pairs_then_of_sides(tmp_path):
    pairs = [("a", "A"), ("b", "B"), ("a", "A"), ("a", "X"), ("c", "B"), ("a", "A"), ("A", "A")]
    corpus = corpus_of(tmp_path, pairs)
    kept = replace(DEFAULT, identical_sides="keep")
    report = look(corpus, kept)
    lines = {reason: finding.lines for reason, finding in report.findings.items()}
    assert lines["duplicate_pair"] == [3, 6]
    assert lines["duplicate_source"] == [4]
    assert lines["duplicate_target"] == [5, 7]
    assert report.findings["duplicate_pair"].details == ["as line 1", "as line 1"]
    for reason, left in (
        ("duplicate_pair", [1, 2, 4, 5, 7]),
        ("duplicate_source", [1, 2, 3, 5, 6, 7]),
        ("duplicate_target", [1, 2, 3, 4, 6]),
    ):
        cleaned = clean(corpus, replace(kept, **{reason: "drop"}), tmp_path / "cache")
        assert [pair.line for pair in cleaned.corpus.pairs()] == left, reason


@settings(deadline=None)
@given(keys=st.lists(st.integers(0, 6), max_size=60), partition=st.sampled_from([2, 7, 100]))
def test_repeated_keys_whatever_the_partition(keys, partition):
    import tempfile
    from pathlib import Path
    from unittest.mock import patch

    import numpy as np

    with tempfile.TemporaryDirectory() as folder, KeyFile(Path(folder) / "keys") as file:
        hashes = np.array(keys, np.uint64) << np.uint64(61)  # spread over the whole range
        file.add(hashes[:20])
        file.add(hashes[20:])
        with (
            patch("gnomon.text.key_file._PARTITION", partition),
            patch("gnomon.text.key_file._BLOCK", 3),
        ):
            pairs = [
                pair
                for part in file.repeated()
                for pair in zip(part.rows.tolist(), part.first.tolist(), strict=True)
            ]
    assert pairs == sorted(pairs)
    assert dict(pairs) == {
        row: keys.index(key) for row, key in enumerate(keys) if key and key in keys[:row]
    }


def test_languages(tmp_path):
    pytest.importorskip("py3langid")
    config = CleaningConfig(source_language="en", target_language="de", wrong_language="drop")
    pairs = [
        ("The weather is nice today, is it not?", "Das Wetter ist heute schön, nicht wahr?"),
        ("The weather is nice today, is it not?", "Il fait beau aujourd'hui, n'est-ce pas ?"),
        ("Yes.", "Oui."),
    ]
    cleaned = clean(corpus_of(tmp_path, pairs), config, tmp_path / "cache")
    assert [pair.line for pair in cleaned.corpus.pairs()] == [1, 3]
    assert cleaned.report.findings["wrong_language"].details[0].startswith("target: fr")
    with pytest.raises(DataError, match="ISO 639-1"):
        look(corpus_of(tmp_path, pairs), CleaningConfig(source_language="english"))


def test_stray_bytes_of_another_encoding_are_damage_too(tmp_path):
    report = look(corpus_of(tmp_path, [("program", "禀\x8b序"), ("a\x85house", "Haus")]), DEFAULT)
    assert report.findings["encoding_damage"].lines == [1]
    assert report.findings["control_characters"].lines == [1, 2]


def test_thresholds_count(tmp_path):
    pairs = [(NINE, "eins zwei"), ("no no no no no no", "nein"), ("abc 123456", "Haus")]
    corpus = corpus_of(tmp_path, pairs)

    def found(**options):
        return set(look(corpus, CleaningConfig(**options)).findings)

    assert found() == {"length_ratio", "repeated_words"}
    assert found(max_length_ratio=9.0) == {"repeated_words"}
    assert found(max_repeats=6) == {"length_ratio"}
    assert "few_letters" in found(min_letters=0.5)
    assert "too_long" in found(max_words=8)
    assert "too_long" in found(max_characters=20)


def test_nothing_left_says_why(tmp_path):
    corpus = corpus_of(tmp_path, [("a", "a"), ("", "b")])
    with pytest.raises(DataError, match="left out 1 empty_side, 1 identical_sides"):
        clean(corpus, CleaningConfig(identical_sides="drop"), tmp_path / "cache")


def test_looked_at_once_and_again_if_damaged(tmp_path, monkeypatch):
    corpus = corpus_of(tmp_path, EVERY)
    first = clean(corpus, DEFAULT, tmp_path / "cache")
    pairs = list(first.corpus.pairs())
    with monkeypatch.context() as patch:
        patch.setattr(cleaning_pass, "judge", None)  # not called again
        again = clean(corpus, DEFAULT, tmp_path / "cache")
    assert again.report == first.report
    assert again.corpus.fingerprint == first.corpus.fingerprint
    verdicts = first.findings.with_name("verdicts")
    verdicts.write_bytes(bytes(verdicts.stat().st_size))
    assert list(clean(corpus, DEFAULT, tmp_path / "cache").corpus.pairs()) == pairs


def test_chunks_do_not_show(tmp_path, monkeypatch):
    corpus = corpus_of(tmp_path, [*EVERY, *CLEAN, *EVERY])
    config = replace(LATIN, duplicate_pair="drop", length_ratio="drop")
    whole = clean(corpus, config, tmp_path / "whole")
    monkeypatch.setattr(cleaning_pass, "_CHUNK_PAIRS", 3)
    parts = clean(corpus, config, tmp_path / "parts")
    assert list(parts.corpus.pairs()) == list(whole.corpus.pairs())
    assert sorted(findings(parts.findings)) == sorted(findings(whole.findings))
    assert parts.report.num_dropped == whole.report.num_dropped


def test_selected_rows_keep_their_line_numbers(tmp_path):
    import numpy as np

    part = corpus_of(tmp_path, EVERY).select("train", np.array([1, 3, 5]))
    cleaned = clean(part, DEFAULT, tmp_path / "cache")
    assert [pair.line for pair in cleaned.corpus.pairs()] == [4, 6]
    assert cleaned.report.findings["empty_side"].lines == [2]


# Everything that a line can hold: no "\n", no NUL, no surrogates, no "\r" at its end.
lines = st.text(st.characters(exclude_characters="\n\0", exclude_categories=("Cs",))).map(
    lambda text: text.rstrip("\r")
)


@settings(deadline=None, max_examples=30)
@given(pairs=st.lists(st.tuples(lines, lines), min_size=1, max_size=12))
def test_any_text(tmp_path_factory, pairs):
    folder = tmp_path_factory.mktemp("any")
    corpus = corpus_of(folder, [("ok", "gut"), *pairs])
    everything = {name: "drop" for name in REASONS if name != "empty_side"}
    for config in (DEFAULT, CleaningConfig(**everything)):
        cleaned = clean(corpus, config, folder / "cache")
        report = cleaned.report
        kept = list(cleaned.corpus.pairs())
        assert len(kept) == report.num_kept == len(cleaned.corpus)
        assert report.num_pairs == len(corpus)
        raw = {pair.line: pair for pair in corpus.pairs()}
        dropped = {
            int(line) for line, _, action, _ in findings(cleaned.findings) if action == "drop"
        }
        assert {pair.line for pair in kept} == raw.keys() - dropped
        for pair in kept:
            source, target = raw[pair.line].source, raw[pair.line].target
            assert (pair.source, pair.target) == (mend_controls(source), mend_controls(target))
            assert not any(map(is_control, pair.source + pair.target))


@settings(deadline=None)
@given(texts=st.lists(lines, min_size=1, max_size=8))
def test_counts_are_those_of_a_plain_loop(texts):
    traits = Traits(texts)
    for row, text in enumerate(texts):
        assert traits.num_controls[row] == sum(map(is_control, text))
        spaces = sum(c.isspace() or is_control(c) for c in text)
        assert traits.num_written[row] == len(text) - spaces
        digits = [c for c in text if c.isdecimal()]
        assert traits.digits[row].sum() == len(digits)
        assert all(traits.digits[row][int(c)] for c in digits)


@settings(deadline=None)
@given(
    words=st.lists(st.sampled_from(["a", "b", "ab", "ba"]), max_size=14), times=st.integers(2, 5)
)
def test_repeats_are_never_missed(words, times):
    text = " ".join(words)
    runs = any(len(set(words[i : i + times])) == 1 for i in range(len(words) - times + 1))
    rows = Traits(["x y", text, "a"]).may_repeat(times).tolist()
    assert not runs or 1 in rows
    assert not {0, 2} & set(rows)

"""Shifted runs are found with their place and size; sound corpora raise no alarm."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from gnomon.doctor import Patient, Report, all_checks
from gnomon.doctor.examine import examine
from gnomon.text.corpus import Pair
from gnomon.text.shifts import Fit, find_shifts

WORDS = [f"{a}{b}" for a in ("house", "river", "stone", "sea") for b in ("", "s", "let")]
OTHER = [f"{a}{b}" for a in ("haus", "fluss", "stein", "see") for b in ("", "e", "chen")]


def corpus(num: int, seed: int = 0, *, cues: bool = True) -> list[tuple[str, str]]:
    """Pairs of like length; with cues, some hold the same number or name and end alike."""
    rng = random.Random(seed)
    pairs = []
    for _ in range(num):
        length = rng.randint(2, 25)
        other = max(1, round(length * rng.uniform(0.85, 1.2)))
        source, target = rng.choices(WORDS, k=length), rng.choices(OTHER, k=other)
        if cues and rng.random() < 0.3:
            number = str(rng.randint(2, 3000))
            source.insert(rng.randint(0, length), number)
            target.insert(rng.randint(0, other), number)
        end = rng.choice("..?!") if cues else ""
        pairs.append((" ".join(source) + end, " ".join(target) + end))
    return pairs


def fit(pairs: list[tuple[str, str]]) -> Fit:
    return find_shifts(Pair(line, *pair) for line, pair in enumerate(pairs, start=1))


def shifted(
    pairs: list[tuple[str, str]], first: int, last: int, shift: int
) -> list[tuple[str, str]]:
    """Lines `first` to `last` (from 1) get the target that stood `shift` lines earlier."""
    targets = [target for _, target in pairs]
    moved = targets[: first - 1] + [""] * shift + targets[first - 1 : last - shift] + targets[last:]
    return [(source, target) for (source, _), target in zip(pairs, moved, strict=True)]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("cues", [True, False])
def test_a_sound_corpus_raises_no_alarm(seed: int, cues: bool) -> None:
    found = fit(corpus(3000, seed, cues=cues))
    assert not found.runs and not found.unrelated


@pytest.mark.parametrize("cues", [True, False])
def test_a_shifted_run_is_found_with_its_edges(cues: bool) -> None:
    pairs = shifted(corpus(2000, cues=cues), 801, 1400, 1)
    (run,) = fit(pairs).runs
    assert run.shift == 1
    assert abs(run.first - 801) <= 8 and abs(run.last - 1400) <= 8


def test_several_shifts_are_told_apart() -> None:
    pairs = shifted(corpus(4000), 501, 900, 1)
    pairs = shifted(pairs, 2001, 2300, 3)
    runs = fit(pairs).runs
    assert [run.shift for run in runs] == [1, 3]
    assert all(one.last < two.first for one, two in pairwise(runs))


def test_a_run_across_blocks_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gnomon.text.shifts._BLOCK", 500)
    (run,) = fit(shifted(corpus(2000), 301, 1500, 2)).runs
    assert run.shift == 2 and run.num_lines > 1150


def test_sides_that_were_shuffled_apart_are_unrelated() -> None:
    pairs = corpus(1000, cues=False)
    targets = [target for _, target in pairs]
    random.Random(1).shuffle(targets)
    assert fit([(s, t) for (s, _), t in zip(pairs, targets, strict=True)]).unrelated


def test_a_part_in_another_order_is_found(tmp_path: Path) -> None:
    pairs = corpus(1000)
    middle = [target for _, target in pairs[300:360]][::-1]
    mixed = [(s, middle[n - 300] if 300 <= n < 360 else t) for n, (s, t) in enumerate(pairs)]
    (run,) = fit(mixed).runs
    assert run.shift == 0 and abs(run.first - 301) <= 12 and abs(run.last - 360) <= 12
    finding = examined(tmp_path, mixed, "misalignment").findings[0]
    assert finding.verdict == "fail" and "numbers of one side" in finding.evidence


def test_lines_that_were_never_translated_are_no_misalignment() -> None:
    pairs = [(s, "" if 300 <= n < 500 else t) for n, (s, t) in enumerate(corpus(1500))]
    assert not fit(pairs).runs


def test_numbers_that_one_side_writes_out_raise_no_alarm() -> None:
    pairs = corpus(2000)
    written = [(f"{n} dogs run.", "einige Hunde rennen.") for n in range(10, 90)]
    assert not fit(pairs[:1000] + written + pairs[1000:]).runs


def test_short_lines_before_long_ones_raise_no_alarm() -> None:
    """Their lengths have another ratio than those of the rest."""
    short = [("hi.", "halloechen.") for _ in range(300)]
    assert not fit(short + corpus(3000)).runs


def test_repeated_and_sorted_lines_raise_no_alarm() -> None:
    pairs = [pair for pair in corpus(500) for _ in range(4)]
    assert not fit(pairs).runs
    assert not fit(sorted(corpus(3000), key=lambda pair: len(pair[0]))).runs


def examined(folder: Path, pairs: list[tuple[str, str]], code: str, **more: Path) -> Report:
    source, target = folder / "train.en", folder / "train.de"
    source.write_text("".join(f"{pair[0]}\n" for pair in pairs))
    target.write_text("".join(f"{pair[1]}\n" for pair in pairs))
    patient = Patient(corpus={"source": source, "target": target, **more})
    return examine(patient, [all_checks()[code]])


def test_the_finding_names_the_line(tmp_path: Path) -> None:
    finding = examined(tmp_path, shifted(corpus(1000), 401, 1000, 1), "misalignment").findings[0]
    assert finding.verdict == "fail"
    line = int(finding.where[0].rsplit(" ", 1)[1])
    assert abs(line - 401) <= 8 and finding.where[0].startswith(str(tmp_path / "train.en"))
    assert "1 line later" in finding.evidence


def test_a_few_lines_are_not_judged(tmp_path: Path) -> None:
    finding = examined(tmp_path, corpus(20), "misalignment").findings[0]
    assert finding.verdict == "skip" and "20 pairs" in finding.evidence


def test_a_few_recurring_sources_are_no_overlap(tmp_path: Path) -> None:
    pairs = corpus(1000)
    test = tmp_path / "test.tsv"
    lines = [*pairs[:1], *corpus(300, seed=9)]
    test.write_text("".join(f"{source}\t{target}\n" for source, target in lines))
    finding = examined(tmp_path, pairs, "split-overlap", test_pairs=test).findings[0]
    assert finding.verdict == "pass"
    test.write_text("".join(f"{source}\t{target}\n" for source, target in pairs[:30] + lines))
    finding = examined(tmp_path, pairs, "split-overlap", test_pairs=test).findings[0]
    assert finding.verdict == "warn"
    assert "of 331 test sources are trained on: lines 1, 2" in finding.evidence


@pytest.mark.parametrize(
    ("change", "habit"),
    [
        (str.lower, "capital letters"),
        (lambda text: text.replace(".", " ."), "blanks before punctuation"),
        (lambda text: text.replace("n", "n@@ "), "marks of subwords"),
        (lambda text: text.replace("!", "&quot;"), "escaped"),
    ],
)
def test_splits_that_are_written_otherwise_are_told(
    tmp_path: Path, change: Callable[[str], str], habit: str
) -> None:
    text = [f"An Old Inn{n}. Now!" for n in range(60)]
    test = tmp_path / "test.tsv"
    test.write_text("".join(f"{line}\t{line}\n" for line in text))
    same = examined(tmp_path, [(line, line) for line in text], "tokenisation-mismatch",
                    test_pairs=test).findings[0]  # fmt: skip
    assert same.verdict == "pass", same.evidence
    train = [(change(line), change(line)) for line in text]
    other = examined(tmp_path, train, "tokenisation-mismatch", test_pairs=test).findings[0]
    assert other.verdict == "fail" and habit in other.evidence

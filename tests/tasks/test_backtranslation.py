"""Back-translation: every line a pair or counted, and a killed process loses nothing."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import gnomon
from digits import TrainedRun
from gnomon.errors import DataError, RecipeError
from gnomon.tasks import (
    BacktranslationConfig,
    BacktranslationReport,
    Translator,
    backtranslate,
    recipe_lines,
)
from gnomon.tasks import backtranslation as module

LINES = ["123", "45", "", "9 8", "77\t1", "\udcff", "1234", "5", "61", "87654321", "42"]


@pytest.fixture
def translator(trained_run: TrainedRun) -> Translator:
    return gnomon.load(trained_run.path)


@pytest.fixture
def mono(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(module, "CHUNK", 3)
    path = tmp_path / "mono.txt"
    path.write_bytes("\n".join(LINES).encode("utf-8", "surrogateescape") + b"\n")
    return path


def run(translator: Translator, mono: Path, output: Path, **more: object) -> BacktranslationReport:
    settings = {"search": {"beam": 1}, "max_ratio": 9.0}
    progress = more.pop("progress", lambda num_lines: None)
    config = BacktranslationConfig(**(settings | more))  # type: ignore[arg-type]
    return backtranslate(
        translator,
        mono,
        output,
        config,
        identity={"model": "1"},
        progress=progress,  # type: ignore[arg-type]
    )


def test_every_line_is_a_pair_or_counted(
    translator: Translator, mono: Path, tmp_path: Path
) -> None:
    report = run(translator, mono, tmp_path / "out.jsonl")
    assert report.num_lines == len(LINES)
    assert report.num_pairs + sum(item.count for item in report.dropped.values()) == len(LINES)
    assert report.dropped["empty line"].first_lines == [3]
    assert report.dropped["not valid text"].first_lines == [6]
    pairs = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert len(pairs) == report.num_pairs > 3
    expected = translator.translate([pair["target"] for pair in pairs], beam=1)
    assert [pair["source"] for pair in pairs] == [item.text for item in expected]
    kept = iter(LINES)
    assert all(pair["target"] in kept for pair in pairs), "in the order of the text"
    assert not (tmp_path / "out.jsonl.parts").exists()


def test_tsv_has_one_tab_a_line_and_gzip_the_same_bytes_each_time(
    translator: Translator, mono: Path, tmp_path: Path
) -> None:
    run(translator, mono, tmp_path / "out.tsv")
    lines = (tmp_path / "out.tsv").read_text().splitlines()
    assert all(line.count("\t") == 1 for line in lines)
    run(translator, mono, tmp_path / "a.tsv.gz")
    run(translator, mono, tmp_path / "b.tsv.gz")
    packed = (tmp_path / "a.tsv.gz").read_bytes()
    assert packed == (tmp_path / "b.tsv.gz").read_bytes()
    assert gzip.decompress(packed) == (tmp_path / "out.tsv").read_bytes()


def test_filters(translator: Translator, mono: Path, tmp_path: Path) -> None:
    strict = run(translator, mono, tmp_path / "strict.tsv", max_ratio=1.0)
    assert strict.dropped["lengths too different"].count > 0
    short = {"beam": 1, "max_length_factor": 0.0, "max_length_offset": 1}
    cut = run(translator, mono, tmp_path / "cut.tsv", search=short)
    assert cut.num_pairs == 0
    assert cut.dropped["translation reached its length limit"].count > 5
    with pytest.raises(DataError, match="max_ratio"):
        run(translator, mono, tmp_path / "no", max_ratio=float("nan"))
    with pytest.raises(RecipeError):
        run(translator, mono, tmp_path / "no", search={"beams": 1})
    assert not (tmp_path / "no.parts").exists()


def test_a_stopped_run_goes_on_where_it_was(
    translator: Translator, mono: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run(translator, mono, tmp_path / "whole.tsv")
    output = tmp_path / "out.tsv"

    def stop(num_lines: int) -> None:
        if num_lines >= 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(translator, mono, output, progress=stop)
    assert not output.exists()
    with pytest.raises(DataError, match="changed: max_ratio"):
        run(translator, mono, output, max_ratio=5.0)
    translated: list[str] = []
    translate = translator.translate
    monkeypatch.setattr(
        translator,
        "translate",
        lambda texts, **named: translated.extend(texts) or translate(texts, **named),
    )
    again = run(translator, mono, output)
    assert translated == LINES[6:], "what was done is not done again"
    assert again == whole
    assert output.read_bytes() == (tmp_path / "whole.tsv").read_bytes()
    with pytest.raises(DataError, match="not overwritten"):
        run(translator, mono, output)


def test_a_killed_process_loses_nothing(
    trained_run: TrainedRun, translator: Translator, mono: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out.tsv"
    script = f"""
import os, signal, gnomon
from pathlib import Path
from gnomon.tasks import BacktranslationConfig, backtranslate, backtranslation
backtranslation.CHUNK = 3
backtranslate(
    gnomon.load({str(trained_run.path)!r}), Path({str(mono)!r}), Path({str(output)!r}),
    BacktranslationConfig(search={{"beam": 1}}, max_ratio=9.0), identity={{"model": "1"}},
    progress=lambda done: done >= 6 and os.kill(os.getpid(), signal.SIGKILL),
)
"""
    killed = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True)
    assert killed.returncode == -9, killed.stderr
    assert not output.exists()
    run(translator, mono, output)
    run(translator, mono, tmp_path / "whole.tsv")
    assert output.read_bytes() == (tmp_path / "whole.tsv").read_bytes()


@pytest.mark.parametrize("damage", [b"{broken", b"[1]", b"\xff", b""])
def test_damaged_settings_of_unfinished_work_are_named(
    translator: Translator, mono: Path, tmp_path: Path, damage: bytes
) -> None:
    work = tmp_path / "out.tsv.parts"
    work.mkdir()
    (work / "settings.json").write_bytes(damage)
    with pytest.raises(DataError, match="which is damaged"):
        run(translator, mono, tmp_path / "out.tsv")
    assert not (tmp_path / "out.tsv").exists()


def test_one_writer(translator: Translator, mono: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.tsv"

    def second(num_lines: int) -> None:
        with pytest.raises(DataError, match="another is at work"):
            run(translator, mono, output)

    run(translator, mono, output, progress=second)
    with pytest.raises(DataError, match="must exist"):
        run(translator, tmp_path / "absent", tmp_path / "other")


def test_recipe_lines_are_toml() -> None:
    import tomllib

    table = tomllib.loads(recipe_lines(Path('a "b".tsv'), ("<bt>",)))
    assert table == {"data": {"sources": [{"pairs": 'a "b".tsv', "tags": ["<bt>"]}]}}
    assert "tags" not in recipe_lines(Path("x"), ())


def test_samples_do_not_depend_on_chunks_or_stops(
    translator: Translator, mono: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = {"sample": True, "seed": 5}
    run(translator, mono, tmp_path / "a.tsv", search=search)
    monkeypatch.setattr(module, "CHUNK", 4)
    run(translator, mono, tmp_path / "b.tsv", search=search)
    run(translator, mono, tmp_path / "c.tsv", search=search | {"seed": 6})
    a, b, c = ((tmp_path / f"{name}.tsv").read_bytes() for name in "abc")
    assert a == b
    assert a != c


def test_a_model_that_samples_by_itself_does_not_depend_on_chunks(
    translator: Translator, mono: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    translator.search = replace(translator.search, sample=True, temperature=2.0, beam=5)
    run(translator, mono, tmp_path / "a.tsv", search={})
    monkeypatch.setattr(module, "CHUNK", 4)
    run(translator, mono, tmp_path / "b.tsv", search={})
    assert (tmp_path / "a.tsv").read_bytes() == (tmp_path / "b.tsv").read_bytes()

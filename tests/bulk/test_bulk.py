"""Many files by workers, run here one after another: same bytes, restartable, faults told."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from command_line import run_command
from digits import TrainedRun
from gnomon.api.bulk import BulkReport, Listener, OnRay, bulk
from gnomon.api.bulk.inputs import find_inputs
from gnomon.api.bulk.worker import TRIES, Answer, Worker
from gnomon.api.lines import TranslateLines
from gnomon.errors import DataError, GnomonError, RecipeError, RunError
from hostile.inputs import INPUTS


class Here:
    """An engine that does parts in this process, backwards, until it is killed."""

    num_threads = None

    def __init__(self, killed_after: int | None = None) -> None:
        self.killed_after = killed_after
        self.done: list[str] = []

    def run(self, worker: Worker, count: int) -> Iterator[Answer]:
        for place in reversed(range(count)):
            if len(self.done) == self.killed_after:
                raise KeyboardInterrupt
            part = worker.parts[place]
            self.done.append(f"{part.text.input.name}:{part.number}")
            yield worker({"item": place})


class Heard(Listener):
    def __init__(self) -> None:
        self.sentences: list[str] = []
        self.errors: dict[str, str] = {}
        self.records: dict[str, list[Any]] = {}

    def told(self, text: str) -> None:
        self.sentences.append(text)

    def failed(self, name: str, error: str) -> None:
        self.errors[name] = error

    def finished(self, name: str, num_lines: int, records: Any) -> None:
        self.records[name] = list(records)


@pytest.fixture
def job(trained_run: TrainedRun) -> TranslateLines:
    search = {"beam": 1, "max_length_factor": 0.0, "max_length_offset": 20}
    return TranslateLines(model=trained_run.path, search=search)


def hostile_text(num_lines: int) -> bytes:
    """Hostile lines, then digits."""
    short = [case.text.replace(b"\n", b" ") for case in INPUTS.values() if len(case.text) < 200]
    lines = [text + b"\n" for text in short]
    lines += [b"%d\n" % (7 * number) for number in range(num_lines - len(lines))]
    return b"".join(lines)


def go(job: TranslateLines, inputs: list[Path], output: Path, **more: Any) -> BulkReport:
    more = {"engine": Here(), "part_lines": job.CHUNK, **more}
    return bulk(job, inputs, output, **more)


def write_texts(folder: Path) -> list[bytes]:
    """Three texts: of two parts and a half, gzipped of one, of none."""
    texts = [hostile_text(2500) + b"no newline at the end", b"12\r\n\n34\n", b""]
    (folder / "in" / "below").mkdir(parents=True)
    (folder / "in" / "a.txt").write_bytes(texts[0])
    (folder / "in" / "below" / "b.txt.gz").write_bytes(gzip.compress(texts[1]))
    (folder / "in" / "below" / "c").write_bytes(texts[2])
    return texts


@pytest.mark.parametrize("as_json", [False, True])
def test_the_bytes_are_those_of_the_plain_verb(
    job: TranslateLines, tmp_path: Path, as_json: bool
) -> None:
    texts = write_texts(tmp_path)
    job = TranslateLines(model=job.model, search=job.search, as_json=as_json)
    heard = Heard()
    report = go(job, [tmp_path / "in"], tmp_path / "out", listener=heard)
    assert (report.num_finished, report.num_finished_before) == (3, 0)
    for name, text in zip(("a.txt", "below/b.txt", "below/c"), texts, strict=True):
        plain = run_command(
            *("translate", job.model, "--beam=1", "--max-length-factor=0"),
            *("--max-length-offset=20", *(["--json"] if as_json else [])),
            text=text,
        )
        assert plain.returncode == 0
        assert (tmp_path / "out" / name).read_bytes() == plain.stdout, name
        # What is told of single lines and of bytes that are no text is the same, too.
        said = plain.stderr.decode()
        counts = sum(record["counts"].get("far", 0) for record in heard.records[name])
        assert (f"{counts:,} of " in said) == (counts > 10)
        replaced = [record["replaced"] for record in heard.records[name]]
        if total := sum(one["num_invalid"] for one in replaced):
            assert f"{total} invalid UTF-8 sequences" in said
            assert f"in line {replaced[0]['first_line']}" in said
    assert not list((tmp_path / "out" / ".gnomon-bulk" / "parts").rglob("*.out"))


def test_a_killed_job_goes_on(job: TranslateLines, tmp_path: Path) -> None:
    write_texts(tmp_path)
    go(job, [tmp_path / "in"], tmp_path / "whole")
    first, second, third = Here(killed_after=2), Here(), Here()
    with pytest.raises(KeyboardInterrupt):
        go(job, [tmp_path / "in"], tmp_path / "out", engine=first)
    assert not (tmp_path / "out" / "a.txt").exists()
    assert (tmp_path / "out" / "below" / "b.txt").exists()
    heard = Heard()
    report = go(job, [tmp_path / "in"], tmp_path / "out", engine=second, listener=heard)
    assert report.num_finished_before == 2
    assert sorted(first.done + second.done) == ["a.txt:0", "a.txt:1", "a.txt:2", "below/b.txt:0"]
    assert "a.txt: 1 of 3 parts were done before" in heard.sentences
    whole, out = (
        {file.name: file.read_bytes() for file in (tmp_path / name).rglob("*") if file.is_file()}
        for name in ("whole", "out")
    )
    assert whole == out
    assert go(job, [tmp_path / "in"], tmp_path / "out", engine=third).num_finished == 0
    assert third.done == []


def test_parts_of_another_job_are_never_joined(job: TranslateLines, tmp_path: Path) -> None:
    write_texts(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        go(job, [tmp_path / "in"], tmp_path / "out", engine=Here(killed_after=3))
    other = TranslateLines(model=job.model, search={**job.search, "beam": 2})
    with pytest.raises(RunError, match="changed: search"):
        go(other, [tmp_path / "in"], tmp_path / "out")
    with pytest.raises(RunError, match="changed: model"):
        model = TranslateLines(model=job.model, checkpoint="step-20", search=job.search)
        go(model, [tmp_path / "in"], tmp_path / "out")
    with pytest.raises(RunError, match="changed: part_lines"):
        go(job, [tmp_path / "in"], tmp_path / "out", part_lines=2048)
    heard, again = Heard(), Here()
    go(other, [tmp_path / "in"], tmp_path / "out", engine=again, restart=True, listener=heard)
    assert len(again.done) == 4
    assert heard.sentences == ["started again: what was done before is not used"]


def test_a_changed_text_is_done_again_and_told(job: TranslateLines, tmp_path: Path) -> None:
    write_texts(tmp_path)
    go(job, [tmp_path / "in"], tmp_path / "out")
    (tmp_path / "in" / "a.txt").write_text("5\n6\n")
    (tmp_path / "out" / "below" / "b.txt").unlink()
    heard, again = Heard(), Here()
    go(job, [tmp_path / "in"], tmp_path / "out", engine=again, listener=heard)
    assert sorted(again.done) == ["a.txt:0", "below/b.txt:0"]
    assert "a.txt: its text was changed, it is done again" in heard.sentences
    assert (tmp_path / "out" / "a.txt").read_bytes().count(b"\n") == 2


def test_parts_of_a_text_that_was_another_meanwhile_are_dropped(
    job: TranslateLines, tmp_path: Path
) -> None:
    text, path = hostile_text(1500), tmp_path / "a.txt"
    path.write_bytes(text)

    class Between(Here):
        """Works on another text and puts the old one back before it is killed."""

        def run(self, worker: Worker, count: int) -> Iterator[Answer]:
            path.write_bytes(b"7\n" * 1500)
            yield from super().run(worker, count)

    with pytest.raises(KeyboardInterrupt):
        go(job, [path], tmp_path / "out.txt", engine=Between(killed_after=1))
    path.write_bytes(text)
    go(job, [path], tmp_path / "out.txt")
    go(job, [path], tmp_path / "other.txt")
    assert (tmp_path / "out.txt").read_bytes() == (tmp_path / "other.txt").read_bytes()


def test_a_text_that_changes_meanwhile_is_no_result(job: TranslateLines, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("1\n2\n")

    class Shortened(Here):
        def run(self, worker: Worker, count: int) -> Iterator[Answer]:
            path.write_text(self.text)
            return super().run(worker, count)

        text = "1\n"

    for text, rule in (("1\n", "fewer lines"), ("1\n3\n", "must not change")):
        path.write_text("1\n2\n")
        engine, heard = Shortened(), Heard()
        engine.text = text
        with pytest.raises(DataError, match="every file"):
            go(job, [path], tmp_path / "out.txt", engine=engine, listener=heard)
        assert rule in heard.errors["a.txt"]
        assert not (tmp_path / "out.txt").exists()


def test_a_bad_file_is_named_and_the_others_are_finished(
    job: TranslateLines, tmp_path: Path
) -> None:
    write_texts(tmp_path)
    bad = tmp_path / "in" / "bad.gz"
    bad.write_bytes(gzip.compress(hostile_text(2000))[:-500])
    heard = Heard()
    with pytest.raises(DataError, match=r"1 of 4 are not: bad"):
        go(job, [tmp_path / "in"], tmp_path / "out", listener=heard)
    assert list(heard.errors) == ["bad"]
    assert "gzip" in heard.errors["bad"]
    assert {path.name for path in (tmp_path / "out").rglob("[!.]*") if path.is_file()} >= {
        "a.txt",
        "b.txt",
        "c",
    }


def test_a_part_that_ends_its_workers_is_given_up(job: TranslateLines, tmp_path: Path) -> None:
    write_texts(tmp_path)

    class Deadly(Here):
        """The middle of a.txt ends whatever process begins it."""

        def run(self, worker: Worker, count: int) -> Iterator[Answer]:
            for place, part in enumerate(worker.parts):
                if part.number == 1:
                    for _ in range(TRIES):
                        worker.ledger.try_again(part)
                yield worker({"item": place})

    heard = Heard()
    with pytest.raises(DataError, match=r"1 of 3 are not: a\.txt"):
        go(job, [tmp_path / "in"], tmp_path / "out", engine=Deadly(), listener=heard)
    assert "lines 1,025 to 2,048 did, 4 times" in heard.errors["a.txt"]
    assert (tmp_path / "out" / "below" / "b.txt").exists()
    again = Here()
    assert go(job, [tmp_path / "in"], tmp_path / "out", engine=again).num_finished == 1
    assert again.done == ["a.txt:1"]


def test_one_file_may_have_one_file_as_result(job: TranslateLines, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("12\n")
    (tmp_path / "out").mkdir()
    go(job, [tmp_path / "a.txt"], tmp_path / "out.txt")
    go(job, [tmp_path / "a.txt"], tmp_path / "out")
    assert (tmp_path / "out.txt").read_bytes() == (tmp_path / "out" / "a.txt").read_bytes()
    for place in (tmp_path, tmp_path / "a.txt"):
        with pytest.raises(DataError, match="must not take the place"):
            go(job, [tmp_path / "a.txt"], place)
    assert (tmp_path / "a.txt").read_text() == "12\n"


def test_inputs_are_found_once_and_named_apart(tmp_path: Path) -> None:
    for name in ("in/a.txt", "in/.hidden", "in/x/a.txt", "in/out/old.txt", "in/x/b.tsv", "a.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    out = tmp_path / "in" / "out"
    given = [tmp_path / "in", tmp_path / "in" / "**" / "*.txt"]
    assert [one.name for one in find_inputs(given, out)] == ["a.txt", "x/a.txt", "x/b.tsv"]
    with pytest.raises(DataError, match=r"would both be a\.txt"):
        find_inputs([tmp_path / "in", tmp_path / "a.txt"], out)
    (tmp_path / "x").write_text("")
    with pytest.raises(DataError, match="would both be"):
        find_inputs([tmp_path / "in", tmp_path / "x"], out)
    for missing in ("none.txt", "none*.txt"):
        with pytest.raises(DataError, match="none"):
            find_inputs([tmp_path / missing], out)


def test_slips_are_told_before_any_work(
    job: TranslateLines, trained_run: TrainedRun, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("12\n")

    def refused(error: type[GnomonError], words: str, **changes: Any) -> None:
        engine = Here()
        with pytest.raises(error, match=words):
            changed = TranslateLines(model=job.model, **changes)
            go(changed, [tmp_path / "a.txt"], tmp_path / "out", engine=engine)
        assert engine.done == []
        assert not (tmp_path / "out").exists()

    refused(DataError, "tag", tags=("<2xx>",))
    refused(RecipeError, "beam", search={"beam": 0})
    with pytest.raises(RecipeError, match="1,024"):
        go(job, [tmp_path / "a.txt"], tmp_path / "out", part_lines=1000)
    with pytest.raises(RunError, match="in use"):
        from gnomon.api.bulk.ledger import Ledger

        with Ledger(tmp_path / "out.txt", single=True).locked():
            go(job, [tmp_path / "a.txt"], tmp_path / "out.txt")


def test_options_for_many_files_are_refused_without_on(
    trained_run: TrainedRun, tmp_path: Path
) -> None:
    for arguments, words in (
        (["--workers", "2"], "add --on ray"),
        (["-i", "a", "-i", "b"], "add --on ray"),
        (["--on", "ray", "-i", "a"], "no --output"),
        (["--on", "ray", "-o", "a"], "no --input"),
        (["--on", "ray", "-i", "a", "-o", "b", "--prefix-file", "c"], "line by line"),
    ):
        done = run_command("translate", trained_run.path, *arguments, cwd=tmp_path)
        assert done.returncode == 2
        assert words in done.stderr.decode()


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ray", "ray.data"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(RunError, match=r"gnomon\[ray\]"):
        OnRay(workers=2)


def test_records_are_json_that_a_person_can_read(job: TranslateLines, tmp_path: Path) -> None:
    write_texts(tmp_path)
    go(job, [tmp_path / "in"], tmp_path / "out")
    folder = tmp_path / "out" / ".gnomon-bulk"
    record = json.loads((folder / "job.json").read_text())
    assert record["verb"] == "translate"
    assert record["search"] == job.search
    assert json.loads((folder / "done" / "a.txt.json").read_text())["num_lines"] == 2501

"""Hostile text to translate: as many lines out as in, none shifted, nothing that breaks a line."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from digits import TrainedRun
from gnomon import api
from gnomon.tasks import Translator
from hostile.inputs import INPUTS, Input
from hostile.running import Command


@pytest.fixture(scope="module")
def translator(trained_run: TrainedRun) -> Translator:
    return api.load(trained_run.path)


def _known(translator: Translator) -> dict[bytes, bytes]:
    texts = ["12", "34"]
    results = translator.translate(texts, max_length_factor=1.0, max_length_offset=20, beam=1)
    return {text.encode(): r.text.encode() for text, r in zip(texts, results, strict=True)}


def _check(out: bytes, given: Input, known: dict[bytes, bytes]) -> None:
    lines = out.split(b"\n")
    assert lines.pop() == b""
    assert len(lines) == given.num_lines
    raw = given.text.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    for source, line in zip(raw, lines, strict=False):
        assert len(line.decode("utf-8").splitlines()) <= 1, line  # by any program's rule
        if (plain := source.removesuffix(b"\r")) in known:
            assert line == known[plain], "shifted"
        if not plain.strip():
            assert not line.strip()


@pytest.mark.parametrize("name", INPUTS)
def test_a_line_out_for_each_line_in(
    name: str, command: Command, trained_run: TrainedRun, translator: Translator
) -> None:
    given = INPUTS[name]
    arguments = ["translate", trained_run.path, "--beam", "1"]
    arguments += ["--max-length-factor", "1", "--max-length-offset", "20"]
    # What a model of digits makes of twenty thousand letters is not worth the time it takes.
    if len(given.text) > 5_000 and given.text.strip(b"\n"):
        arguments[-3] = "0"
    done = command(*arguments, text=given.text)
    assert done.code == 0, done.message
    assert given.says in done.message, done.message
    assert not any(c in done.message for c in "\x1b\x07\u202e")
    _check(done.out, given, _known(translator))


def test_json_lines_for_everything_at_once(command: Command, trained_run: TrainedRun) -> None:
    short = [case.text for case in INPUTS.values() if len(case.text) < 200]
    text = b"".join(part + b"\n" for part in short)
    done = command("translate", trained_run.path, "--json", "--beam", "1", text=text)
    lines = done.out.split(b"\n")
    assert len(lines) - 1 == Input(text).num_lines
    assert all(json.loads(line)["text"] is not None for line in lines[:-1])


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(parts=st.lists(st.binary(max_size=10) | st.sampled_from([b"12", b"34", b"\r"]), max_size=8))
def test_any_bytes(
    parts: list[bytes], command: Command, trained_run: TrainedRun, translator: Translator
) -> None:
    given = Input(b"\n".join(parts))
    done = command(
        *("translate", trained_run.path, "--beam", "1"),
        *("--max-length-factor", "1", "--max-length-offset", "20"),
        text=given.text,
    )
    assert done.code == 0, done.message
    _check(done.out, given, _known(translator))

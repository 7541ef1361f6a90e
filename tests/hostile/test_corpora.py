"""Hostile training text: a defined result for each, nothing lost, nothing shifted."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gnomon import api
from gnomon.errors import GnomonError
from gnomon.text.cleaning_controls import mend_controls
from hostile.corpora import LEARNED, REFUSED, Hostile
from hostile.running import Command

SMALL = ["tokenizer.vocab_size=400", "tokenizer.min_frequency=1"]


def _files(case: Hostile, folder: Path) -> dict[str, Path]:
    if case.target is None:
        (folder / "pairs.tsv").write_bytes(case.source)
        return {"data": folder / "pairs.tsv"}
    (folder / "text.s").write_bytes(case.source)
    (folder / "text.t").write_bytes(case.target)
    return {"source": folder / "text.s", "target": folder / "text.t"}


def _lines(content: bytes) -> list[str]:
    """The rule of the whole house, written down once more: "\\n" and nothing else ends a line."""
    lines = content.decode("utf-8-sig").split("\n")
    return [line.removesuffix("\r") for line in (lines[:-1] if lines[-1] == "" else lines)]


def _pairs(case: Hostile) -> list[tuple[str, str]]:
    if case.target is None:
        return [tuple(line.split("\t")) for line in _lines(case.source)]  # type: ignore[misc]
    return list(zip(_lines(case.source), _lines(case.target), strict=True))


@pytest.mark.parametrize("name", LEARNED)
def test_what_can_be_used_is_used_line_by_line(name: str, tmp_path: Path) -> None:
    case = LEARNED[name]
    said: list[str] = []
    recipe = api.read_recipe("tiny", **_files(case, tmp_path), overrides=[*SMALL, "data.holdout=0"])
    prepared = api.prepare(recipe, run=tmp_path / "runs" / "x", say=said.append)
    pairs = _pairs(case)
    store = prepared.train
    left_out = set(range(1, len(pairs) + 1)) - set(store.line_numbers.tolist())
    assert left_out == case.left_out
    assert case.says in " ".join(said), said
    for index, line in enumerate(store.line_numbers.tolist()):
        for side, ids, text in (
            (prepared.tokenizers.source, store.source(index), pairs[line - 1][0]),
            (prepared.tokenizers.target, store.target(index), pairs[line - 1][1]),
        ):
            assert side.decode([ids]) == [side.normalise(mend_controls(text))], (line, text[:80])


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_used_is_named(name: str, tmp_path: Path, command: Command) -> None:
    case = REFUSED[name]
    files = _files(case, tmp_path)
    options = {"data": "--data", "source": "--src", "target": "--tgt"}
    arguments = [part for key, path in files.items() for part in (options[key], path)]
    done = command("prepare", "tiny", *arguments, "--run", "runs/x", "--set", SMALL[0])
    assert done.code == 2, done.message
    assert "error:" in done.message
    assert case.says in done.message
    assert done.out == b""
    assert not list(tmp_path.glob("runs/.prepared/train-*"))


line = st.binary(max_size=12) | st.text(max_size=12).map(
    lambda text: text.encode("utf-8", "surrogatepass")
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    source=st.lists(line, max_size=8).map(b"\n".join),
    target=st.lists(line, max_size=8).map(b"\n".join),
)
def test_any_bytes(source: bytes, target: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Whatever two files hold: a store of the files' own lines, or an error one can read."""
    folder = tmp_path_factory.mktemp("any")
    case = Hostile(source, target)
    try:
        recipe = api.read_recipe("tiny", **_files(case, folder), overrides=SMALL)
        prepared = api.prepare(recipe, run=folder / "runs" / "x", say=lambda message: None)
    except GnomonError as error:
        assert error.rule
        return
    pairs = _pairs(case)
    for index, number in enumerate(prepared.train.line_numbers.tolist()):
        tokenizer = prepared.tokenizers.target
        expected = tokenizer.normalise(mend_controls(pairs[number - 1][1]))
        assert tokenizer.decode([prepared.train.target(index)]) == [expected]

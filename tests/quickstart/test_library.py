"""Python's own sources: what is left out, what is held out, and that no near copy crosses over."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gnomon.errors import DataError
from gnomon.quickstart.library import ALIKE, SourceFile, find_library, read_library


def _module(number: int) -> str:
    return "".join(f"def function_{number}_{place}():\n    pass\n" for place in range(20))


@pytest.fixture
def made_up(tmp_path: Path) -> Path:
    """A library whose modules have the real ones' names."""
    names = sorted(name for name in sys.stdlib_module_names if name.isidentifier())
    for number, name in enumerate(names):
        (tmp_path / f"{name}.py").write_text(_module(number), encoding="utf-8")
    for left_out in ("test", "idlelib", "json/tests", "site-packages", "mine"):
        (tmp_path / left_out).mkdir(parents=True)
        (tmp_path / left_out / "some.py").write_text("left_out = True\n", encoding="utf-8")
    return tmp_path


def test_modules_are_split_by_their_names(made_up: Path) -> None:
    found = read_library(made_up)
    every = [*found.train, *found.valid, *found.test]
    assert not any("left_out = True" in file.text for file in every)
    assert {file.name for file in every} <= {path.name for path in made_up.glob("*.py")}
    assert len({file.name for file in every}) == len(every) > 200
    assert 0.03 < len(found.test) / len(every) < 0.1
    (made_up / f"{found.train[0].name}").write_text("nothing = 'like it was'\n", encoding="utf-8")
    again = read_library(made_up)
    assert [file.name for file in again.test] == [file.name for file in found.test]


def test_near_copies_stay_together(made_up: Path) -> None:
    held_out, trained_on = (found[0].name for found in _ends(made_up))
    shared = (made_up / trained_on).read_text("utf-8").splitlines(keepends=True)[:12]
    with (made_up / held_out).open("a", encoding="utf-8") as file:
        file.writelines(shared)
    found = read_library(made_up)
    sides = [{file.name for file in side} for side in (found.train, found.valid, found.test)]
    assert sum({held_out, trained_on} <= side for side in sides) == 1


def _ends(folder: Path) -> tuple[list[SourceFile], list[SourceFile]]:
    found = read_library(folder)
    return found.test, found.train


def test_text_that_is_no_utf8_is_read_as_it_says(made_up: Path) -> None:
    name = _ends(made_up)[1][0].name
    text = "# -*- coding: latin-1 -*-\nname = 'Käse'\n"
    (made_up / name).write_bytes(text.encode("latin-1"))
    broken = _ends(made_up)[1][1].name
    (made_up / broken).write_bytes(b"name = '\xff\xfe'\n")
    trained_on = {file.name: file.text for file in read_library(made_up).train}
    assert trained_on[name] == text
    assert broken not in trained_on


def test_no_held_out_file_of_this_python_is_like_one_trained_on() -> None:
    found = read_library(find_library())
    trained_on = [set(_lines(file)) for file in found.train]
    assert sum(len(file.text) for file in found.train) > 3_000_000
    for file in found.test:
        own = set(_lines(file))
        alike = max(len(own & other) for other in trained_on) / max(1, len(own))
        # In small files what stands in very many (imports, licences) is a large share.
        assert alike < ALIKE or len(own) < 60, (file.name, alike)


def _lines(file: SourceFile) -> Iterator[str]:
    return (line for each in file.text.split("\n") if len(line := each.strip()) >= 16)


def test_a_library_without_sources_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="must be there as source files"):
        read_library(tmp_path)

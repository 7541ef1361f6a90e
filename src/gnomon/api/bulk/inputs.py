"""Which files are meant, and what their results are called."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from gnomon.errors import DataError
from gnomon.text.lines import check_readable

MAGIC = "*?["


@dataclass(frozen=True)
class Input:
    """A text to work on."""

    path: Path
    name: str  # of its results in the folder of results: a path with "/"


def find_inputs(given: Sequence[Path], results: Path) -> list[Input]:
    """Every file that is named, lies in a folder that is, or fits a pattern, each once.

    The results of a file are called as the file is, less ".gz": by its name alone, or by its path
    below the folder or the unchanging part of the pattern. Hidden files and those in `results`
    are not looked at in folders.

    Raises:
        DataError: a file is not there, nothing fits, or two files' results have one name.
    """
    found: dict[Path, Input] = {}
    for path in given:
        here = list(_found(path, results.resolve()))
        if not here:
            raise DataError(
                "there must be text to work on",
                seen=f"{path}: no file",
                mend="name files, folders or a pattern in quotes such as 'in/**/*.txt'",
            )
        for one in here:
            found.setdefault(one.path, one)
    _check_names(list(found.values()))
    return list(found.values())


def _found(path: Path, results: Path) -> Iterator[Input]:
    if path.is_dir():
        root, files = path, sorted(path.rglob("*"))
    elif path.exists() or not any(sign in str(path) for sign in MAGIC):
        check_readable(path, allow_empty=True)
        yield Input(path.resolve(), _name(PurePosixPath(path.name)))
        return
    else:
        fixed = 0
        while not any(sign in path.parts[fixed] for sign in MAGIC):
            fixed += 1
        root = Path(*path.parts[:fixed])
        files = sorted(root.glob("/".join(path.parts[fixed:])))
    for file in files:
        below = PurePosixPath(file.relative_to(root).as_posix())
        hidden = any(part.startswith(".") for part in below.parts)
        if file.is_file() and not hidden and results not in file.resolve().parents:
            yield Input(file.resolve(), _name(below))


def _name(path: PurePosixPath) -> str:
    return str(path.with_suffix("") if path.suffix == ".gz" else path)


def _check_names(inputs: Sequence[Input]) -> None:
    names: dict[str, Input] = {}
    for one in inputs:
        if (other := names.setdefault(one.name, one)) is not one:
            raise _clash(other, one)
    for one in inputs:
        for folder in PurePosixPath(one.name).parents:
            if (there := names.get(str(folder))) is not None:
                raise _clash(there, one)


def _clash(one: Input, other: Input) -> DataError:
    return DataError(
        "the results of each file need a name of their own",
        seen=f"{one.path} and {other.path} would both be {one.name}",
        mend="name the folder above both, or give them one at a time with two folders for results",
    )

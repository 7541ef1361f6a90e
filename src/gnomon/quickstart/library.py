"""Source code to go on from: the modules of Python's own standard library, on every machine.

What a person would not read for the library's own sake is left out: tests, the programs idlelib,
lib2to3 and distutils (gone from newer Pythons, and full of copies), tables and texts that a script
wrote. Whole files are held out, by a hash of their name. Files that share much of their text (two
backends of one interface, a module and its rewrite in C's stead) stay on one side.
"""

from __future__ import annotations

import hashlib
import sys
import sysconfig
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from gnomon.errors import DataError

LEFT_OUT = frozenset({"distutils", "encodings", "idlelib", "lib2to3", "pydoc_data", "turtledemo"})
_NOT_READ = frozenset({"__pycache__", "test", "tests", "idle_test", "site-packages"})
_HELD_OUT = {"test": range(5), "valid": range(5, 10)}  # of 100

ALIKE = 0.15
"""Files that share this much of the distinct lines of the shorter one are never parted."""
_TELLING = 16  # characters of a line by which files are compared; `else:` stands in all of them
_COMMON = 10  # a line in more files than this is nobody's own


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One module: its path below the library's folder, and its text."""

    name: str
    text: str


@dataclass(frozen=True)
class Sources:
    """Modules to learn from, to validate on, and held out, each ordered by a hash of the name."""

    train: list[SourceFile]
    valid: list[SourceFile]
    test: list[SourceFile]


def find_library() -> Path:
    """The folder of the running Python's standard library."""
    return Path(sysconfig.get_path("stdlib"))


def read_library(folder: Path) -> Sources:
    """All modules, split by file.

    Raises:
        DataError: the folder holds no sources.
    """
    texts = dict(_texts(folder))
    splits: dict[str, list[SourceFile]] = {"train": [], "valid": [], "test": []}
    for group in _groups(texts):
        place = _hash(group[0]) % 100
        split = next((name for name, places in _HELD_OUT.items() if place in places), "train")
        splits[split] += [SourceFile(name, texts[name]) for name in group]
    if not all(splits.values()):
        raise DataError(
            "Python's standard library must be there as source files",
            seen=f"{folder}: {len(texts)} of them",
            mend="use a Python whose library is neither zipped nor compiled alone",
        )
    for found in splits.values():
        found.sort(key=lambda file: _hash(file.name))
    return Sources(**splits)


def _texts(folder: Path) -> Iterator[tuple[str, str]]:
    """Name and text of each module, in a fixed order."""
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).parts
        top = parts[0].removesuffix(".py")
        if top not in sys.stdlib_module_names or top in LEFT_OUT or _NOT_READ & {*parts}:
            continue
        try:
            with tokenize.open(path) as file:  # as its first lines say it is encoded
                text = file.read()
        except (OSError, SyntaxError, UnicodeDecodeError):
            continue
        if text.strip():
            yield "/".join(parts), text


def _groups(texts: Mapping[str, str]) -> list[list[str]]:
    """Names of files that must not be parted, each group and all of them in order of names."""
    lines = {
        name: {line for each in text.split("\n") if len(line := each.strip()) >= _TELLING}
        for name, text in texts.items()
    }
    owners: dict[str, list[str]] = defaultdict(list)
    for name, own in lines.items():
        for line in own:
            owners[line].append(name)
    shared: Counter[tuple[str, str]] = Counter()
    for names in owners.values():
        if len(names) <= _COMMON:
            shared.update(combinations(names, 2))
    first = {name: name for name in texts}

    def head(name: str) -> str:
        while first[name] != name:
            name = first[name]
        return name

    for (one, other), count in shared.items():
        if count >= ALIKE * min(len(lines[one]), len(lines[other])):
            earlier, later = sorted((head(one), head(other)))
            first[later] = earlier
    found: dict[str, list[str]] = defaultdict(list)
    for name in texts:
        found[head(name)].append(name)
    return list(found.values())


def _hash(name: str) -> int:
    return int.from_bytes(hashlib.sha1(name.encode("utf-8")).digest()[:8], "big")

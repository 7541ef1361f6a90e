"""Files that hold something for every input line: they are read along with it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from gnomon.errors import DataError
from gnomon.text import read_lines


class Beside:
    """Prefixes and required phrases, line by line beside the input.

    Args:
        prefixes: a file with the beginning of each output.
        required: a file with the phrases of each output, TABs between them.

    Raises:
        DataError: a file cannot be read.
    """

    def __init__(self, *, prefixes: Path | None, required: Path | None) -> None:
        named = {"prefixes": prefixes, "required": required}
        self._files = {name: path for name, path in named.items() if path is not None}
        self._lines: dict[str, Iterator[str]] = {
            name: iter(read_lines(path)) for name, path in self._files.items()
        }

    def next(self, count: int) -> dict[str, Any]:
        """What belongs to the next `count` input lines, as `Translator.translate` takes it."""
        found: dict[str, Any] = {}
        for name, lines in self._lines.items():
            part = list(islice(lines, count))
            if len(part) < count:
                raise self._uneven(name, "fewer")
            found[name] = part
        if "required" in found:
            found["required"] = [line.split("\t") for line in found["required"]]
        return found

    def finish(self) -> None:
        """The input ended; so must the files.

        Raises:
            DataError: one of them goes on.
        """
        for name, lines in self._lines.items():
            if next(lines, None) is not None:
                raise self._uneven(name, "more")

    def _uneven(self, name: str, which: str) -> DataError:
        return DataError(
            "a file that goes along with the input has one line per input line",
            seen=f"{self._files[name]} has {which} lines than the input",
            mend="put a blank line where there is nothing to ask for",
        )

"""Texts in, as many lines out: what the verbs that go through a text line by line share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Generic, TypeVar

from gnomon.cli.console import console, standard_input, warn_of_replaced
from gnomon.cli.destination import destination
from gnomon.cli.line_progress import LineProgress, lines_of
from gnomon.cli.line_warnings import LineWarnings

if TYPE_CHECKING:
    from gnomon.api.lines import Made

Item = TypeVar("Item")


@dataclass
class Flow(Generic[Item]):
    """A text on its way through a model; made by `line_flow` or `flow`.

    Iterating gives chunks of lines (or pairs), each with the number of its first one, from 1.

    Attributes:
        items: those that are still to come.
        out: where results go.
        size: of a chunk: items that are read before any is done, as models sort them by length.
        done: is told how many more items are done.
        warnings: about single items.
        count: items of the chunks that are done.
    """

    items: Iterator[Item]
    out: BinaryIO
    size: int
    done: Callable[[float], None]
    warnings: LineWarnings
    count: int = 0

    def __iter__(self) -> Iterator[tuple[int, list[Item]]]:
        while chunk := list(islice(self.items, self.size)):
            yield self.count + 1, chunk
            self.out.flush()
            self.count += len(chunk)

    def write(self, line: str) -> None:
        """One result, on a line of its own."""
        self.out.write(line.encode("utf-8", errors="replace") + b"\n")

    def write_made(self, made: Iterable[Made]) -> None:
        """What a job made of a chunk's lines; what is to be said of them is said."""
        for line, notes in made:
            self.write(line)
            for kind, text in notes:
                self.warnings.add(kind, text)


@contextmanager
def flow(
    items: Iterable[Item],
    output: Path | None,
    *,
    total: Callable[[], int | None],
    size: int,
    doing: str,
    progress: bool | None,
    warnings: LineWarnings | None = None,
) -> Iterator[Flow[Item]]:
    """Open the place of results; at the end say what is to be said of single items.

    Args:
        items: what is gone through.
        output: see `destination`.
        total: how many there are, asked where somebody is shown.
        size: of a chunk.
        doing: what is done, such as "translating".
        progress: --progress or --no-progress; None: as `LineProgress` sees fit.
        warnings: of the verb.

    Raises:
        DataError: the output cannot be written.
    """
    shown = LineProgress(progress, prints=output is None)
    number = total() if shown.shown else None
    with destination(output) as out, shown:
        done = shown.begin(doing, number)
        found = Flow(iter(items), out, size, done, warnings or LineWarnings({}))
        yield found
    found.warnings.finish(found.count)


@contextmanager
def line_flow(
    input_: Path | None,
    output: Path | None,
    *,
    size: int,
    doing: str,
    progress: bool | None,
    warnings: LineWarnings | None = None,
) -> Iterator[Flow[str]]:
    """`flow` of the lines of a text; what is typed at a terminal is answered line by line.

    Args:
        input_: a text file, also gzip; None: standard input. Bytes that are no text are replaced,
            which is told.
        output, size, doing, progress, warnings: see `flow`.

    Raises:
        DataError: a file that cannot be read or written.
    """
    from gnomon.text import Replacements, read_lines

    given = input_ or standard_input()
    replaced = Replacements()
    if input_ is None and sys.stdin.isatty():
        console().print("[dim]Type a line and press Enter; Ctrl-D ends.[/]")
        size, progress = 1, False
    with flow(
        read_lines(given, errors="replace", replacements=replaced),
        output,
        total=lambda: lines_of(given),
        size=size,
        doing=doing,
        progress=progress,
        warnings=warnings,
    ) as lines:
        yield lines
    warn_of_replaced(replaced)

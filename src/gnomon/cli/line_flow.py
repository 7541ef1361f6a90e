"""Lines in, as many lines out: what the verbs that go through a text line by line share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from gnomon.cli.console import standard_input, warn_of_replaced
from gnomon.cli.destination import destination
from gnomon.cli.line_progress import LineProgress, lines_of
from gnomon.cli.line_warnings import LineWarnings


@dataclass
class LineFlow:
    """A text on its way through a model; made by `line_flow`.

    Iterating gives chunks of lines, each with the number of its first one, from 1.

    Attributes:
        lines: those that are still to come.
        out: where results go.
        size: of a chunk: lines that are read before any is done, as models sort them by length.
        done: is told how many more lines are done.
        warnings: about single lines.
        count: lines of the chunks that are done.
    """

    lines: Iterator[str]
    out: BinaryIO
    size: int
    done: Callable[[float], None]
    warnings: LineWarnings
    count: int = 0

    def __iter__(self) -> Iterator[tuple[int, list[str]]]:
        while chunk := list(islice(self.lines, self.size)):
            yield self.count + 1, chunk
            self.out.flush()
            self.count += len(chunk)

    def write(self, line: str) -> None:
        """One result, on a line of its own."""
        self.out.write(line.encode("utf-8", errors="replace") + b"\n")


@contextmanager
def line_flow(
    input_: Path | None,
    output: Path | None,
    *,
    size: int,
    doing: str,
    progress: bool | None,
    warnings: LineWarnings | None = None,
) -> Iterator[LineFlow]:
    """Open a text and the place of its results; at the end say what is to be said of its lines.

    Args:
        input_: a text file, also gzip; None: standard input. Bytes that are no text are replaced,
            which is told.
        output: see `destination`.
        size: lines of a chunk.
        doing: what is done to them, such as "translating".
        progress: --progress or --no-progress; None: as `LineProgress` sees fit.
        warnings: of the verb.

    Raises:
        DataError: a file that cannot be read or written.
    """
    from gnomon.text import Replacements, read_lines

    given = input_ or standard_input()
    replaced = Replacements()
    shown = LineProgress(progress, prints=output is None)
    total = lines_of(given) if shown.shown else None
    lines = read_lines(given, errors="replace", replacements=replaced)
    with destination(output) as out, shown:
        done = shown.begin(doing, total)
        flow = LineFlow(iter(lines), out, size, done, warnings or LineWarnings({}))
        yield flow
    flow.warnings.finish(flow.count)
    warn_of_replaced(replaced)

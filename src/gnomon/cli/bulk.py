"""Verbs that make a line of each line: of one text here, or with `--on ray` of many by workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict, Unpack

import typer

from gnomon.cli import options
from gnomon.cli.console import say, warn
from gnomon.cli.line_flow import line_flow
from gnomon.cli.line_progress import LineProgress
from gnomon.cli.line_warnings import LineWarnings

if TYPE_CHECKING:
    from gnomon.api.lines import LineJob

_PANEL = "Many files (--on ray)"

InputsOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--input",
        "-i",
        help="Text file, also gzip; with --on also a folder or a pattern, and may be given again. "
        "Default: standard input.",
        show_default=False,
    ),
]
OnOption = Annotated[
    Literal["ray"] | None,
    typer.Option(
        "--on", help="Run by workers; goes on where it was killed.", rich_help_panel=_PANEL
    ),
]
WorkersOption = Annotated[
    int | None,
    typer.Option(
        min=1, help="Processes, each with the model. Default: a core each.", rich_help_panel=_PANEL
    ),
]
ThreadsOption = Annotated[
    int | None, typer.Option(min=1, help="Of each worker. Default: 1.", rich_help_panel=_PANEL)
]
PartOption = Annotated[
    int | None,
    typer.Option(
        "--part-lines",
        min=1,
        help="Lines done or not done together, a multiple of 1024. Default: 8192.",
        rich_help_panel=_PANEL,
    ),
]
AddressOption = Annotated[
    str | None,
    typer.Option(
        "--ray-address",
        help="Of a Ray cluster. Default: RAY_ADDRESS, or Ray is started here.",
        rich_help_panel=_PANEL,
    ),
]
RestartOption = Annotated[
    bool,
    typer.Option(
        "--restart", help="Do everything again, whatever was done before.", rich_help_panel=_PANEL
    ),
]


class Many(TypedDict):
    """The options that are for --on alone."""

    workers: int | None
    threads: int | None
    part_lines: int | None
    ray_address: str | None
    restart: bool


def run_lines(
    job: LineJob,
    inputs: Sequence[Path] | None,
    output: Path | None,
    *,
    on: Literal["ray"] | None,
    progress: bool | None,
    prefixes: Path | None = None,
    required: Path | None = None,
    **many: Unpack[Many],
) -> None:
    """Do what such a verb is asked to.

    Args:
        prefixes, required: what goes along with one text line by line, see `Beside`.

    Raises:
        DataError: inputs or options that do not go with `on`; see also `gnomon.api.bulk`.
    """
    from gnomon.cli.beside import Beside

    if on is not None:
        line_by_line = {"--prefix-file": prefixes, "--required": required}
        _run_on_ray(job, inputs, output, progress=progress, beside=line_by_line, **many)
        return
    one = _one_input(inputs, many)
    beside = Beside(prefixes=prefixes, required=required)
    work = job.open()
    warnings = LineWarnings(job.KINDS, always=job.ALWAYS)
    with line_flow(
        one, output, size=job.CHUNK, doing=job.DOING, progress=progress, warnings=warnings
    ) as flow:
        for first, chunk in flow:
            flow.write_made(work(chunk, first, progress=flow.done, **beside.next(len(chunk))))
        beside.finish()


def _one_input(inputs: Sequence[Path] | None, many: Many) -> Path | None:
    """The one text of a verb that runs here.

    Raises:
        DataError: several texts, or such an option.
    """
    from gnomon.errors import DataError

    if given := [name for name, value in many.items() if value not in (None, False)]:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise DataError("this is for many files", seen=flags, mend="add --on ray")
    if inputs is not None and len(inputs) > 1:
        raise DataError(
            "one text is read at a time",
            seen=", ".join(map(str, inputs)),
            mend="add --on ray, and name a folder with --output",
        )
    return inputs[0] if inputs else None


def _run_on_ray(
    job: LineJob,
    inputs: Sequence[Path] | None,
    output: Path | None,
    *,
    progress: bool | None,
    beside: Mapping[str, object],
    **many: Unpack[Many],
) -> None:
    """Run a job on Ray and tell how it goes.

    Args:
        beside: options that go along with one text line by line, by name.

    Raises:
        DataError: no inputs, no output, or such an option; see also `gnomon.api.bulk`.
    """
    from gnomon.api.bulk import OnRay, bulk
    from gnomon.api.bulk.run import PART_LINES
    from gnomon.errors import DataError

    options.refuse_beside("--on", beside, "these go along with one text, line by line")
    if not inputs or output is None:
        raise DataError(
            "workers read files and write files",
            seen="no --input" if not inputs else "no --output",
            mend="name both: gnomon … --on ray --input IN --output OUT",
        )
    engine = OnRay(
        workers=many["workers"], threads=many["threads"] or 1, address=many["ray_address"]
    )
    warnings = LineWarnings(job.KINDS, always=job.ALWAYS)
    with LineProgress(progress, prints=False) as shown:
        listener = _listener(job, shown, warnings)
        try:
            report = bulk(
                job,
                inputs,
                output,
                engine=engine,
                part_lines=many["part_lines"] or PART_LINES,
                restart=many["restart"],
                listener=listener,
            )
        finally:
            warnings.finish(listener.num_lines)
    if report.num_finished:
        say(f"{report.num_finished:,} files, {listener.num_lines:,} lines: {output}")


def _listener(job: LineJob, shown: LineProgress, warnings: LineWarnings) -> Any:
    from gnomon.api.bulk import Listener
    from gnomon.cli.console import warn_of_replaced
    from gnomon.text import Replacements

    class Telling(Listener):
        """Tells a person."""

        num_lines = 0
        advance: Callable[[float], None]

        def told(self, text: str) -> None:
            say(text)

        def begins(self, num_lines: int) -> None:
            self.advance = shown.begin(job.DOING, num_lines)

        def done(self, num_lines: int) -> None:
            self.advance(num_lines)

        def finished(self, name: str, num_lines: int, records: Sequence[Mapping[str, Any]]) -> None:
            self.num_lines += num_lines
            replaced = Replacements()
            for record in records:
                for kind, text in record["notes"]:
                    warnings.add(kind, f"{name}: {text}")
                for kind, count in record["counts"].items():
                    told = sum(kind == noted for noted, _ in record["notes"])
                    warnings.counts[kind] += count - told
                replaced.num_invalid += record["replaced"]["num_invalid"]
                replaced.num_nul += record["replaced"]["num_nul"]
                replaced.first_line = replaced.first_line or record["replaced"]["first_line"]
            warn_of_replaced(replaced, name)

        def failed(self, name: str, error: str) -> None:
            warn(f"{name}: {error}")

    return Telling()

"""`gnomon runs`: list runs, compare two or more, hold one against its expected curve."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gnomon.cli import options
from gnomon.cli.console import print_line, say
from gnomon.files import json_value

if TYPE_CHECKING:
    from gnomon.api import CurveVerdict, RunComparison, RunSummary
    from gnomon.cli.report import Sheet


def runs(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            help="A folder to list (default: runs), one run, or two runs and more to compare.",
            metavar="[DIR | RUN …]",
        ),
    ] = None,
    expected: Annotated[
        bool,
        typer.Option(
            "--expected", help="Hold runs against the curve that ships with their preset."
        ),
    ] = False,
    curve: Annotated[
        Path | None, typer.Option(help="Hold runs against this curve instead.")
    ] = None,
    save_curve: Annotated[
        Path | None,
        typer.Option(help="Write the curve of these finished runs of one recipe to a file."),
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(help="With --save-curve: share of the loss that widens the band; 0.05."),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the validation curves: a .png, .svg or .pdf file.")
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Everything as one JSON object.")] = False,
) -> None:
    """List runs with state, best validation and scores; compare runs; check expected curves."""
    from gnomon import api
    from gnomon.cli.report import print_sheets
    from gnomon.errors import RunError

    given = paths or [Path("runs")]
    if tolerance is not None and save_curve is None:
        raise RunError("--tolerance is of a curve that is saved", mend="add --save-curve FILE")
    if save_curve is not None:
        options.refuse_beside(
            "--save-curve",
            {"--expected": expected, "--curve": curve, "--plot": plot, "--json": json_},
            "a curve is saved, and nothing else is done",
        )
        api.save_curve(given, save_curve, tolerance=0.05 if tolerance is None else tolerance)
        say(f"curve: {save_curve}")
        return
    if expected or curve is not None:
        options.refuse_beside("--expected or --curve", {"--plot": plot}, "verdicts are sentences")
        verdicts = [api.check_curve(path, curve) for path in given]
        _show_verdicts(verdicts, json_)
        raise typer.Exit(0 if all(one.passed for one in verdicts) else 1)
    if len(given) > 1:
        comparison = api.compare_runs(given)
        listed = list(comparison.runs)
        _draw(listed, plot)
        if json_:
            print_line(json.dumps(json_value(comparison), ensure_ascii=False, indent=2))
        else:
            print_sheets(_comparison_sheets(comparison))
        return
    listed = api.list_runs(given[0])
    _draw(listed, plot)
    if json_:
        found = [json_value(run) for run in listed]
        print_line(json.dumps(found, ensure_ascii=False, indent=2))
        return
    if not listed:
        say(f"no runs in {given[0]}; `gnomon train` and `gnomon quickstart` write some")
        return
    print_sheets([_list_sheet(listed)])
    for run in listed:
        if run.problem is not None:
            say(f"{run.path} is damaged: {run.problem}")


def _list_sheet(listed: list[RunSummary]) -> Sheet:
    from gnomon.cli.report import Sheet

    return Sheet(
        "runs",
        ["run", "recipe", "state", "step", "best validation", "scores", "time", "size", "date"],
        [
            [
                str(run.path),
                run.name or "–",
                run.state,
                f"{run.step:,}" + (f" of {run.max_steps:,}" if run.max_steps else ""),
                _best(run),
                _scores(run),
                _time(run.seconds),
                _size(run.num_bytes),
                "–" if run.date is None else run.date.strftime("%Y-%m-%d %H:%M"),
            ]
            for run in listed
        ],
        left=("recipe", "state", "best validation", "scores"),
    )


def _comparison_sheets(found: RunComparison) -> list[Sheet]:
    from gnomon.cli.report import Sheet, comparison_sheet

    first, *others = found.runs
    names = [str(run.path) for run in found.runs]
    sheets = [
        Sheet(
            f"recipe, {first.path} → {other.path}",
            ["key", "from → to"],
            [row.split(": ", 1) for row in rows] or [["no difference", ""]],
            left=("from → to",),
        )
        for other, rows in zip(others, found.differences, strict=True)
    ]
    for run, keys in zip(found.runs, found.unknown, strict=True):
        if keys:
            say(
                f"{run.path} was begun by a gnomon without these keys, so their defaults stand for "
                f"it: {', '.join(_by_table(keys))}"
            )
    sheets.append(
        Sheet(
            "validation loss, nats per token",
            ["step", *names],
            [
                [f"{step:,}", *("–" if one is None else f"{one:.4f}" for one in values)]
                for step, values in found.curves.items()
            ],
        )
    )
    sheets.append(
        Sheet(
            "runs",
            ["", *names],
            [
                ["state", *(run.state for run in found.runs)],
                ["step", *(f"{run.step:,}" for run in found.runs)],
                ["best validation", *(_best(run) for run in found.runs)],
                ["time", *(_time(run.seconds) for run in found.runs)],
                ["target tokens/s", *(f"{run.tokens_per_second:,.0f}" for run in found.runs)],
                ["size", *(_size(run.num_bytes) for run in found.runs)],
                ["scores", *(_scores(run) for run in found.runs)],
            ],
        )
    )
    for other, scored in zip(others, found.scores, strict=True):
        if scored is None:
            say(
                f"{other.path} and {first.path} were not evaluated on the same text: "
                "`gnomon evaluate` both, then compare again"
            )
        else:
            files, comparisons = scored
            title = f"{other.path} against {first.path} on {files}"
            sheets.append(comparison_sheet(title, comparisons))
    return sheets


def _by_table(keys: list[str]) -> list[str]:
    """Keys, those of one table together: "training.seed", "averaging (kind, count)"."""
    tables: dict[str, list[str]] = {}
    for key in keys:
        table, _, name = key.rpartition(".")
        tables.setdefault(table, []).append(name)
    return [
        f"{table}.{names[0]}" if len(names) == 1 else f"{table} ({', '.join(names)})"
        for table, names in tables.items()
    ]


def _show_verdicts(verdicts: list[CurveVerdict], as_json: bool) -> None:
    if as_json:
        print_line(json.dumps([json_value(one) for one in verdicts], ensure_ascii=False))
        return
    for one in verdicts:
        print_line(one.sentence)


def _draw(listed: list[RunSummary], plot: Path | None) -> None:
    if plot is not None:
        from gnomon.cli.plot import plot_curves

        plot_curves({str(run.path): run.curve for run in listed}, plot)
        say(f"plot: {plot}")


def _best(run: RunSummary) -> str:
    return "–" if run.best is None else "{} {:.4g} at {:,}".format(*run.best)


def _scores(run: RunSummary) -> str:
    """Those of the newest evaluation."""
    if not run.evaluations:
        return "–"
    return " ".join(f"{name} {value:.2f}" for name, value in run.evaluations[0].scores.items())


def _time(seconds: float) -> str:
    hours, rest = divmod(round(seconds), 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}"


def _size(num_bytes: int) -> str:
    return f"{num_bytes / 1e6:,.1f} MB"

"""`gnomon doctor`: examine a run, model, recipe, corpus or anybody's code; say what is wrong."""

from __future__ import annotations

import json
import os
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gnomon.cli import options
from gnomon.cli.console import console, print_line, say
from gnomon.files import json_value

if TYPE_CHECKING:
    from gnomon.doctor import Check, Finding, Report
    from gnomon.doctor.targets import Target


def doctor(
    target: Annotated[
        str | None,
        typer.Argument(
            help="What to examine; the kinds are listed above. None: --src and --tgt.",
            show_default=False,
        ),
    ] = None,
    symptom: Annotated[
        str | None,
        typer.Option(
            help="Only what explains it: nan, stuck, too-good, gibberish, long-input, padding, "
            "slow or deployed; every step is shown."
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(help="Only this check or group. May be given again.", show_default=False),
    ] = None,
    skip: Annotated[
        list[str] | None,
        typer.Option(help="Not this check or group. May be given again.", show_default=False),
    ] = None,
    cost: Annotated[
        Literal["static", "probe", "step", "run"] | None,
        typer.Option(help="The most expensive class of checks. Default: step; of text alone, run."),
    ] = None,
    src: options.SourceOption = None,
    tgt: options.TargetOption = None,
    data: options.DataOption = None,
    causal: Annotated[
        bool | None,
        typer.Option(
            "--causal/--bidirectional",
            help="Whether positions must not see later ones. Default: inferred.",
            show_default=False,
        ),
    ] = None,
    pad_id: Annotated[int | None, typer.Option(help="The id of padding.", min=0)] = None,
    precision: Annotated[
        Literal["fp32", "fp16", "bf16"] | None,
        typer.Option(help="What training or serving will compute in. Default: both what-ifs."),
    ] = None,
    checkpoint: options.CheckpointOption = "best",
    device: options.DeviceOption = "auto",
    code: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.py:FUNCTION",
            help="Of a crash bundle of your own loop: what builds its model. Runs that code.",
        ),
    ] = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="Run the code that lies beside a Hugging Face model.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="The whole report as one JSON object.")
    ] = False,
    as_sarif: Annotated[
        bool, typer.Option("--sarif", help="The report as SARIF 2.1.0, for code hosts.")
    ] = False,
    html: Annotated[
        Path | None, typer.Option(help="Also write one self-contained page with pictures.")
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Also what passed, and why others were skipped.")
    ] = False,
    list_: Annotated[
        bool, typer.Option("--list", help="List the checks: code, group, cost, title.")
    ] = False,
    explain: Annotated[
        str | None,
        typer.Option(metavar="CODE", help="Explain one check, with a faulty and a mended example."),
    ] = None,
) -> None:
    """Find silent faults of a model, its data and its training, with evidence and a mend.

    Nothing is changed. Exit code 1 where something is wrong. TARGET is one of:

    - a run: gnomon doctor runs/small

    - a model folder or checkpoint: gnomon doctor runs/small/checkpoints/step-00002000

    - a recipe, preset or TOML file: gnomon doctor tiny

    - a Hugging Face folder: gnomon doctor models/bert

    - your own code, which is run: gnomon doctor train.py:patient

    - text: gnomon doctor corpus/ (or pairs.tsv, or --src train.en --tgt train.de)

    - a crash bundle: gnomon doctor runs/small/bundles/step-00000812 (of a model of your own with
    --code train.py:build)
    """
    if list_ or explain is not None:
        _tell_of_checks(explain, as_json)
        return
    if as_json and as_sarif:
        options.refuse_beside("--json", {"--sarif": True}, "standard output holds one report")
    from gnomon import api
    from gnomon.doctor.reports import html_page, plan_sentence, sarif
    from gnomon.doctor.targets import Options

    declared = {"causal": causal, "pad_id": pad_id, "precision": precision}
    if html is not None:
        html = _writable(html.absolute())  # told now: an examination may take minutes
    with redirect_stdout(sys.stderr):  # what the examined code prints is no part of the report
        report = api.examine_target(
            target,
            Options(
                source=src,
                target=tgt,
                data=data,
                checkpoint=checkpoint,
                device=device,
                trust=trust,
                code=code,
                declared={name: value for name, value in declared.items() if value is not None},
            ),
            symptom=symptom,
            only=only or (),
            skip=skip or (),
            cost=cost,
            pictures=html is not None,
            opened=_say_what,
            announce=lambda plan: say(plan_sentence(plan)),
            progress=_Progress(),
        )
    if html is not None:
        from gnomon.files import write_atomically

        write_atomically(html, html_page(report))
        say(f"page: {html}")
    if as_json:
        _print_json(report.as_json())
    elif as_sarif:
        _print_json(sarif(report))
    else:
        _draw(report, verbose or symptom is not None)
    if report.failed:
        raise typer.Exit(1)


def _writable(page: Path) -> Path:
    """The path, if a file can be written there.

    Raises:
        DoctorError: it is a folder, or lies in none that can be written.
    """
    from gnomon.errors import DoctorError

    folder = next(each for each in page.parents if each.exists())
    if page.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
        what = "is a folder" if page.is_dir() else f"{folder} cannot be written to"
        raise DoctorError(
            "--html names a file that can be written",
            seen=f"{page}: {what}",
            mend="name a file in a folder of yours",
        )
    return page


def _say_what(target: Target) -> None:
    say(f"examining {target.what}")
    for note in target.notes:
        say(f"  {note}")


def _draw(report: Report, verbose: bool) -> None:
    from gnomon.doctor.reports import draw_report, report_text

    if sys.stdout.isatty():
        from rich.console import Console

        draw_report(report, Console(file=sys.stdout), verbose=verbose)
    else:
        print_line(report_text(report, verbose=verbose))


def _print_json(value: Any) -> None:
    print_line(json.dumps(json_value(value), ensure_ascii=False, indent=2))


class _Progress:
    """One line at a terminal that says which check was made last."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, finding: Finding) -> None:
        self.count += 1
        if console().is_terminal:
            console().print(
                f"\r\x1b[2K{self.count} {finding.code}\r", end="", markup=False, highlight=False
            )


def _tell_of_checks(explain: str | None, as_json: bool) -> None:
    from gnomon.doctor import all_checks

    checks = all_checks()
    if explain is not None:
        from gnomon.doctor.reports import check_page
        from gnomon.errors import DoctorError

        if explain not in checks:
            raise DoctorError(
                "a check is named by its code",
                seen=explain,
                mend="`gnomon doctor --list` names all of them",
            )
        print_line(check_page(checks[explain]).rstrip("\n"))
        return
    if as_json:
        _print_json([_row(each) for each in checks.values()])
        return
    for each in checks.values():
        print_line("\t".join(_row(each).values()))


def _row(check: Check) -> dict[str, str]:
    return {
        "code": check.code,
        "group": check.group,
        "cost": check.cost,
        "title": check.title,
    }

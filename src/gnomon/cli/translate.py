"""`gnomon translate`: lines in, exactly as many lines out, in the same order."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gnomon.cli import options
from gnomon.cli.console import console
from gnomon.cli.line_flow import line_flow
from gnomon.cli.line_warnings import LineWarnings

if TYPE_CHECKING:
    from gnomon.tasks import Translation

CHUNK = 1024  # lines read before they are translated; the search sorts them by length


def translate(
    model: options.ModelArgument,
    input_: options.InputOption = None,
    output: options.OutputOption = None,
    tag: options.TagOption = None,
    beam: options.BeamOption = None,
    nbest: Annotated[
        int | None,
        typer.Option(help="Outputs a line; more than one needs --json.", rich_help_panel="Search"),
    ] = None,
    length_penalty: Annotated[
        str | None,
        typer.Option(
            help="gnmt, average or none. Default: the recipe's.", rich_help_panel="Search"
        ),
    ] = None,
    alpha: Annotated[
        float | None,
        typer.Option(help="Exponent of the gnmt length penalty.", rich_help_panel="Search"),
    ] = None,
    max_length_factor: Annotated[
        float | None,
        typer.Option(
            help="Longest output in tokens: this times the input's length …",
            rich_help_panel="Search",
        ),
    ] = None,
    max_length_offset: Annotated[
        int | None, typer.Option(help="… plus this.", rich_help_panel="Search")
    ] = None,
    split: Annotated[
        str,
        typer.Option(help="Sentence by sentence: auto (lines longer than learned), always, never."),
    ] = "auto",
    min_length: Annotated[
        int | None, typer.Option(help="Shortest output in tokens.", rich_help_panel="Search")
    ] = None,
    coverage_penalty: Annotated[
        float | None,
        typer.Option(help="Against leaving source words out: 0 to 0.5.", rich_help_panel="Search"),
    ] = None,
    repetition_penalty: Annotated[
        float | None,
        typer.Option(
            help="Against words that are there already: 1 to 1.3.", rich_help_panel="Search"
        ),
    ] = None,
    no_repeat_ngram: Annotated[
        int | None,
        typer.Option(help="No sequence of this many tokens twice.", rich_help_panel="Search"),
    ] = None,
    sample: Annotated[
        bool,
        typer.Option(
            "--sample", help="Draw at random instead of searching.", rich_help_panel="Sampling"
        ),
    ] = False,
    temperature: Annotated[
        float | None,
        typer.Option(help="Of samples: below 1 safer, above 1 wilder.", rich_help_panel="Sampling"),
    ] = None,
    top_k: Annotated[
        int | None, typer.Option(help="Sample among so many tokens.", rich_help_panel="Sampling")
    ] = None,
    top_p: Annotated[
        float | None,
        typer.Option(
            help="Sample among those that hold this much probability.", rich_help_panel="Sampling"
        ),
    ] = None,
    min_p: Annotated[
        float | None,
        typer.Option(
            help="Sample among those at least this times the best.", rich_help_panel="Sampling"
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Of samples.", rich_help_panel="Sampling")
    ] = None,
    prefix_file: Annotated[
        Path | None,
        typer.Option(
            help="What each output begins with: one line per input line, may be blank.",
            rich_help_panel="What the output holds",
        ),
    ] = None,
    required: Annotated[
        Path | None,
        typer.Option(
            help="Phrases each output contains: one line per input line, TABs between.",
            rich_help_panel="What the output holds",
        ),
    ] = None,
    banned: Annotated[
        Path | None,
        typer.Option(
            help="Phrases no output contains, one a line.", rich_help_panel="What the output holds"
        ),
    ] = None,
    terminology: Annotated[
        Path | None,
        typer.Option(
            help="Source TAB target: where the one is in the input, require the other.",
            rich_help_panel="What the output holds",
        ),
    ] = None,
    ignore_case: Annotated[
        bool,
        typer.Option(
            "--ignore-case",
            help="Find source terms in any case.",
            rich_help_panel="What the output holds",
        ),
    ] = False,
    with_: options.WithOption = None,
    combine: options.CombineOption = "mean",
    json_: Annotated[
        bool, typer.Option("--json", help="One JSON object a line: text, scores, alternatives.")
    ] = False,
    keep_space: Annotated[
        bool,
        typer.Option(help="Put the blanks around a line around its translation."),
    ] = True,
    batch_tokens: options.BatchOption = 4096,
    checkpoint: options.CheckpointOption = "best",
    device: options.DeviceOption = "auto",
    progress: options.ProgressOption = None,
) -> None:
    """Translate standard input or a file: one line out for each line in, blank lines kept.

    A line that is far from what the model was trained on is translated all the same and named on
    standard error ("far": true with --json).
    """
    from gnomon import api
    from gnomon.cli.beside import Beside
    from gnomon.decoding import SearchConfig
    from gnomon.errors import RecipeError
    from gnomon.tasks import Terminology
    from gnomon.text import read_lines

    if (nbest or 1) > 1 and not json_:
        raise RecipeError(
            "plain output has one line per input line",
            seen=f"--nbest {nbest}",
            mend="add --json to see the alternatives",
        )
    settings: dict[str, Any] = {
        "beam": beam,
        "nbest": nbest,
        "length_penalty": length_penalty,
        "alpha": alpha,
        "max_length_factor": max_length_factor,
        "max_length_offset": max_length_offset,
        "min_length": min_length,
        "coverage_penalty": coverage_penalty,
        "repetition_penalty": repetition_penalty,
        "no_repeat_ngram": no_repeat_ngram,
        "sample": sample or None,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "min_p": min_p,
        "seed": seed,
    }
    SearchConfig().changed(settings)  # a slip is told before a large model is loaded
    if ignore_case and terminology is None:
        raise RecipeError("--ignore-case is for source terms", mend="add --terminology FILE")
    shared: dict[str, Any] = {}
    if banned is not None:
        shared["banned"] = list(read_lines(banned))
    if terminology is not None:
        shared["terminology"] = Terminology.load(terminology, ignore_case=ignore_case)
    beside = Beside(prefixes=prefix_file, required=required)
    translator = api.load_for(
        "translation",
        model,
        checkpoint=checkpoint,
        device=device,
        ensemble=with_ or (),
        combination=combine,
    )
    translator.search_config(settings)
    interactive = input_ is None and sys.stdin is not None and sys.stdin.isatty()
    if interactive:
        console().print("[dim]Type a line and press Enter; Ctrl-D ends.[/]")
    warnings = _Warnings()
    with line_flow(
        input_,
        output,
        size=1 if interactive else CHUNK,
        doing="translating",
        progress=False if interactive else progress,
        warnings=warnings,
    ) as flow:
        for first, chunk in flow:
            results = translator.translate(
                [line.strip() if keep_space else line for line in chunk],
                tags=tag or [],
                batch_tokens=batch_tokens,
                split=split,
                first=first - 1,
                progress=flow.done,
                **shared,
                **beside.next(len(chunk)),
                **settings,
            )
            for number, (line, result) in enumerate(zip(chunk, results, strict=True), first):
                result = _within_its_space(line, result) if keep_space else result
                flow.write(_format(result, json_))
                warnings.note(number, line, result)
        beside.finish()


def _within_its_space(line: str, result: Translation) -> Translation:
    """The translation between the blanks that stood around its line."""
    from gnomon.text import mend_controls

    if not line.strip():
        return result
    before = mend_controls(line[: len(line) - len(line.lstrip())])
    after = mend_controls(line[len(line.rstrip()) :])
    if not before and not after:
        return result
    return replace(
        result,
        text=f"{before}{result.text}{after}",
        alternatives=tuple(_within_its_space(line, other) for other in result.alternatives),
    )


def _format(result: Translation, as_json: bool) -> str:
    import json

    return json.dumps(_plain(result), ensure_ascii=False) if as_json else result.text


def _plain(result: Translation) -> dict[str, Any]:
    from dataclasses import asdict

    plain = asdict(result)
    plain["alternatives"] = [_plain(other) for other in result.alternatives]
    return plain


class _Warnings(LineWarnings):
    """What the user should know of single translations."""

    def __init__(self) -> None:
        super().__init__(
            {
                "far": "lines are far from what this model was trained on",
                "divided": "lines had a sentence that was divided",
                "cut": "lines were read in part: they are longer than this model reads",
                "truncated": "outputs reached their length limit",
            },
            always=("cut", "truncated"),
        )

    def note(self, number: int, line: str, result: Translation) -> None:
        """Say what is to be said of line `number`."""
        from gnomon.errors import excerpt

        shown = excerpt(line, 60)
        if result.far:
            self.add(
                "far",
                f"line {number} is far from what this model was trained on; "
                f"do not trust its translation: {shown}",
            )
        if result.num_divided:
            self.add(
                "divided",
                f"line {number}: a sentence is longer than any this model was trained on and was "
                f"divided; {result.num_divided} of {result.num_parts} parts are pieces: {shown}",
            )
        if result.num_cut:
            self.add(
                "cut",
                f"line {number} is longer than this model reads; its last {result.num_cut:,} "
                f"tokens were left out: {shown}",
            )
        if result.truncated:
            self.add(
                "truncated",
                f"line {number}: the output reached its length limit and may be cut: {shown}",
            )

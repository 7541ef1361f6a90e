"""`gnomon quickstart`: a translator of phrases that are made at run time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from gnomon.cli.console import console
from gnomon.cli.quickstart.story import Corpus, Story, show_command
from gnomon.quickstart import KINDS, LIMITS, Pair

if TYPE_CHECKING:
    from gnomon.tasks import Translator

NUM_SHOWN = 12  # held-out lines shown at the end
FAR_EXAMPLE = "The weather turned before anyone had noticed."


class Phrases(Story[Pair]):
    """Short English phrases and their translations.

    Args:
        language: to translate into.
    """

    preset = "quickstart"
    judges = "on held-out lines, beside two baselines that have learned nothing"
    shows = "Held-out lines, translated"
    unit = "pairs"
    keys = ("pairs", "valid_pairs", "test_pairs")

    def __init__(self, language: str) -> None:
        self.language = language
        self.folder = "quickstart" if language == "de" else f"quickstart-{language}"
        self.prepares = (
            f"short English phrases and their translations ({language}), made from CLDR data"
        )

    def read(self) -> Corpus[Pair]:
        """See `make_corpus`."""
        from gnomon.quickstart import make_corpus

        return make_corpus(self.language)

    def written(self, items: Sequence[Pair]) -> str:
        """As TSV."""
        return "".join(f"{pair.source}\t{pair.target}\n" for pair in items)

    def introduce(self, corpus: Corpus[Pair]) -> None:
        """One example of each kind."""
        from rich.table import Table

        table = Table(title="What this model will know", title_justify="left")
        table.add_column("kind")
        table.add_column("English, for example")
        table.add_column(self.language)
        for kind, words in KINDS.items():
            examples = [
                pair for pair in corpus.train if pair.kind == kind and len(pair.source) < 36
            ]
            if examples:
                table.add_row(words, escape(examples[0].source), escape(examples[0].target))
        console().print(table)

    def overrides(self) -> list[str]:
        """The language, for the scores."""
        return [f"evaluation.language='{self.language}'"]

    def evaluate(self, corpus: Corpus[Pair], run: Path) -> None:
        """Beside the source itself, and the translation of the nearest training line."""
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

    def show(self, corpus: Corpus[Pair], model: Translator) -> None:
        """Some held-out lines, and one that the model cannot know."""
        from rich.table import Table

        pairs = corpus.test[:NUM_SHOWN]
        table = Table()
        for name in ("English", "translated", ""):
            table.add_column(name)
        found = model.translate([pair.source for pair in pairs])
        for pair, translation in zip(pairs, found, strict=True):
            right = translation.text == pair.target
            mark = "[green]exact[/]" if right else f"[yellow]expected: {escape(pair.target)}[/]"
            table.add_row(escape(pair.source), escape(translation.text), mark)
        console().print(table)
        (far,) = model.translate([FAR_EXAMPLE])
        verdict = "far from its training text: do not trust it" if far.far else "not noticed as far"
        console().print(
            f"And a line it cannot know: {FAR_EXAMPLE} → {escape(far.text)} [yellow]({verdict})[/]"
        )

    def say_what_next(self, corpus: Corpus[Pair], run: Path) -> None:
        """A line, a line that it cannot know, the user's own files."""
        console().print(
            f"The model knows the kinds of phrases listed at the start. {LIMITS} Such a line is "
            "translated all the same, but named as far from the training text:"
        )
        show_command(f'echo "{corpus.test[0].source}" | gnomon translate {run}')
        show_command(f'echo "{FAR_EXAMPLE}" | gnomon translate {run}')
        console().print(
            "Your own two files, line i of one being the translation of line i of the other:"
        )
        show_command("gnomon train small --src my.en --tgt my.de --run runs/mine")
        show_command("gnomon evaluate runs/mine")
        show_command("gnomon translate runs/mine < input.txt > output.txt")

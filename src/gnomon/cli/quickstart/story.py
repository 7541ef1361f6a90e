"""What the quickstarts of all tasks have in common: from a corpus to a judged model, told aloud."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

import typer
from rich.markup import escape

from gnomon.cli.console import console, say

if TYPE_CHECKING:
    from gnomon.doctor import Report

Item = TypeVar("Item")


class Corpus(Protocol[Item]):
    """What there is to learn from, to validate on, and held out."""

    @property
    def train(self) -> list[Item]:
        """To learn from."""

    @property
    def valid(self) -> list[Item]:
        """To choose a checkpoint by."""

    @property
    def test(self) -> list[Item]:
        """To judge by, at the end."""


class Story(ABC, Generic[Item]):
    """One task's own part.

    Attributes:
        preset: the recipe.
        folder: of the run, below runs/.
        prepares, judges, shows: headings of the first and the two last stations.
        unit: what an item of the corpus is called, in the plural.
        suffix: of the files of text.
        keys: of the recipe's [data], for training, validation and test text.
    """

    preset: ClassVar[str]
    folder: str
    prepares: str
    judges: ClassVar[str]
    shows: ClassVar[str]
    unit: ClassVar[str]
    suffix: ClassVar[str] = ".tsv"
    keys: ClassVar[tuple[str, str, str]] = ("train", "valid", "test")

    @abstractmethod
    def read(self) -> Corpus[Item]:
        """Find or make the corpus."""

    @abstractmethod
    def written(self, items: Sequence[Item]) -> str:
        """A split as a file's text."""

    def introduce(self, corpus: Corpus[Item]) -> None:
        """Show what is in it."""

    def overrides(self) -> list[str]:
        """Further changes to the recipe, as `--set` takes them."""
        return []

    @abstractmethod
    def evaluate(self, corpus: Corpus[Item], run: Path) -> None:
        """Print scores on the held-out text, and a plain baseline's beside them."""

    @abstractmethod
    def show(self, corpus: Corpus[Item], model: Any) -> None:
        """Print what the model makes of some text."""

    @abstractmethod
    def say_what_next(self, corpus: Corpus[Item], run: Path) -> None:
        """Print commands to try."""


def tell(story: Story[Any], run: Path | None) -> None:
    """Prepare, examine, train, evaluate, show.

    Args:
        story: the task.
        run: the folder to write; default runs/ and the story's own.
    """
    from gnomon import api
    from gnomon.cli.progress import TrainingProgress

    started = time.monotonic()
    folder = run or Path("runs") / story.folder
    _show_step(1, f"Prepare: {story.prepares}")
    corpus = story.read()
    files = _write(story, corpus, folder.with_name(f"{folder.name}-data"))
    story.introduce(corpus)

    def examined(report: Report) -> None:
        _show_examined(report)
        _show_step(3, "Train; Ctrl-C stops, the same command continues")

    training = api.train(
        story.preset,
        overrides=[
            *(f"data.{key}='{path.resolve()}'" for key, path in files.items()),
            *story.overrides(),
        ],
        run=folder,
        listeners=[TrainingProgress(console())],
        say=say,
        examined=examined,
    )
    if not training.outcome.finished:
        raise typer.Exit(training.outcome.exit_code)
    _show_step(4, f"Evaluate {story.judges}")
    story.evaluate(corpus, training.run)
    _show_step(5, story.shows)
    story.show(corpus, api.load(training.run))
    minutes = (time.monotonic() - started) / 60
    _show_step(6, f"Done in {minutes:.1f} minutes. What to type next")
    story.say_what_next(corpus, training.run)


def show_command(command: str) -> None:
    """What to type."""
    console().print(f"  [bold]{escape(command)}[/]", highlight=False)


def _show_step(number: int, text: str) -> None:
    """Which station of the story begins."""
    console().print(f"\n[bold cyan]{number}. {text}[/]", highlight=False)


def _write(story: Story[Item], corpus: Corpus[Item], folder: Path) -> dict[str, Path]:
    """The three splits as files, by their keys in the recipe's [data]."""
    from gnomon.files import write_atomically

    files = {}
    splits = {"train": corpus.train, "valid": corpus.valid, "test": corpus.test}
    for (name, items), key in zip(splits.items(), story.keys, strict=True):
        path = folder / f"{name}{story.suffix}"
        text = story.written(items)
        if not path.exists() or path.read_text("utf-8") != text:
            write_atomically(path, text)
        files[key] = path
    console().print(
        f"{len(corpus.train):,} {story.unit} to learn from, {len(corpus.valid):,} to validate on, "
        f"{len(corpus.test):,} held out, in {folder}"
    )
    return files


def _show_examined(report: Report) -> None:
    """What the doctor says of the untrained model."""
    from gnomon.cli.train import preflight_line

    _show_step(2, "The doctor examines the untrained model on the first text")
    marks = {"pass": "[green]ok  [/]", "warn": "[yellow]warn[/]", "fail": "[bold red]FAIL[/]"}
    for each in report:
        if each.verdict in marks:
            evidence = escape(each.evidence)
            line = f"{marks[each.verdict]} {each.title} [dim]({evidence})[/]"
            console().print(line, highlight=False)
    say(preflight_line(report))

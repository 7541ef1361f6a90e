"""What a verb does with lines, told apart from where they come from and go to.

A job is a description: it can be compared with another one and sent to another process, which
opens it. `gnomon translate` of standard input and a worker of a cluster do the same work with it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, Self

from gnomon.api.load import model_folder
from gnomon.tasks.progress import Progress


class Made(NamedTuple):
    """What was made of one line."""

    line: str
    notes: Sequence[tuple[str, str]]  # what the user should know of it: a kind and a sentence


class LineWork(Protocol):
    """A job whose model is loaded."""

    def __call__(
        self, lines: Sequence[str], first: int, *, progress: Progress = ..., **beside: Any
    ) -> Iterator[Made]:
        """One result a line, in order.

        Args:
            first: the number of the first of them in the whole text, from 1.
            progress: is told how many more are done.
            beside: what else belongs to these lines, one for one, such as prefixes.
        """

    def check(self) -> None:
        """Raise the `GnomonError` that would be raised whatever the text."""


@dataclass(frozen=True, kw_only=True)
class LineJob(ABC):
    """What is to be made of each line.

    Args:
        model, checkpoint, device: see `gnomon.api.load`.
        batch_tokens: padded tokens at once: memory and speed, not results.
        as_json: a JSON object a line, with all that is known of it.
    """

    VERB: ClassVar[str]  # such as "translate"
    TASK: ClassVar[str]  # that its model is of
    DOING: ClassVar[str]  # such as "translating"
    KINDS: ClassVar[Mapping[str, str]]  # of notes, see `cli.line_warnings`
    ALWAYS: ClassVar[Collection[str]]
    CHUNK: ClassVar[int] = 1024  # lines made at once: models sort them by length

    model: Path
    checkpoint: str = "best"
    device: str = "auto"
    batch_tokens: int = 4096
    as_json: bool = False

    @property
    def models(self) -> tuple[Path, ...]:
        """Runs, checkpoints or model folders."""
        return (self.model,)

    def located(self) -> Self:
        """The same with folders in place of runs, which may get better checkpoints meanwhile."""
        return replace(self, model=model_folder(self.model, self.checkpoint).resolve())

    @abstractmethod
    def settings(self) -> Mapping[str, Any]:
        """What beside the models decides the results, as JSON has it."""

    @abstractmethod
    def open(self) -> LineWork:
        """Load the model."""

"""A bulk job from its inputs to its results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import gnomon
from gnomon.api.bulk.inputs import Input, find_inputs
from gnomon.api.bulk.ledger import Ledger, Part, Text
from gnomon.api.bulk.worker import Answer, Worker, fingerprint
from gnomon.api.lines import LineJob
from gnomon.api.load import check_task
from gnomon.errors import DataError, GnomonError, RecipeError

PART_LINES = 8192


class Engine(Protocol):
    """Runs workers."""

    @property
    def num_threads(self) -> int | None:
        """Threads a worker."""

    def run(self, worker: Worker, count: int) -> Iterable[Answer]:
        """Have copies of `worker` do parts 0 to `count` - 1, in any order.

        Answers come as parts are done. A part whose worker dies is given to another.
        """


class Listener:
    """Is told how a bulk job goes; this one passes everything over."""

    def told(self, text: str) -> None:
        """A sentence for the user."""

    def begins(self, num_lines: int) -> None:
        """So many lines are to be worked on."""

    def done(self, num_lines: int) -> None:
        """So many more of them are done."""

    def finished(self, name: str, num_lines: int, records: Sequence[Mapping[str, Any]]) -> None:
        """The results of a file are there; `records` are those of its parts."""

    def failed(self, name: str, error: str) -> None:
        """A file could not be finished."""


@dataclass(frozen=True)
class BulkReport:
    """How a bulk job ended: numbers of files."""

    num_finished: int
    num_finished_before: int


def bulk(
    job: LineJob,
    inputs: Sequence[Path],
    output: Path,
    *,
    engine: Engine,
    part_lines: int = PART_LINES,
    restart: bool = False,
    listener: Listener | None = None,
) -> BulkReport:
    """Work on many files; each gets as many lines of results as it has lines, in order.

    The results are those of one process that goes through each file by itself. Given again after
    it was killed, it goes on: finished files and parts are not worked on again, but those whose
    input was changed are.

    Args:
        inputs: files, folders and patterns, see `find_inputs`.
        output: the folder of results; where the input is one file that is named, and there is no
            such folder, the file.
        part_lines: lines that are done or not done together.
        restart: work on everything anew.

    Raises:
        DataError: no input, or two whose results have one name, or that of their text; or, in the
            end, a file could not be finished (the others are).
        ModelError, RecipeError: the job cannot be done whatever the text.
        RunError: the results there are of another job, or another process writes them.
    """
    if part_lines < 1 or part_lines % job.CHUNK:
        raise RecipeError(
            f"a part is so many times {job.CHUNK:,} lines, which are worked on together",
            seen=part_lines,
            mend=f"for example {PART_LINES}",
        )
    single = len(inputs) == 1 and inputs[0].is_file() and not output.is_dir()
    output = output.absolute()
    found = find_inputs(inputs, output)
    ledger = Ledger(output, single=single)
    for one in found:
        if ledger.output(one).resolve() == one.path:
            raise DataError(
                "results must not take the place of their text",
                seen=one.path,
                mend="name another folder with --output",
            )
    job = _ready(job)
    with ledger.locked():
        made_from = {
            "gnomon": gnomon.__version__,
            "verb": job.VERB,
            "model": fingerprint(job),
            "part_lines": part_lines,
            **job.settings(),
        }
        listener = listener or Listener()
        for sentence in ledger.begin(made_from, restart=restart):
            listener.told(sentence)
        return _Bulk(job, made_from["model"], ledger, part_lines, listener).run(found, engine)


def _ready(job: LineJob) -> LineJob:
    """The located job; what is wrong with it whatever the text is told here and now."""
    job = job.located()
    for path in job.models:
        check_task(job.TASK, path)
    replace(job, device="cpu").open().check()
    return job


class _Bulk:
    """One go at a bulk job."""

    def __init__(
        self,
        job: LineJob,
        models: str,
        ledger: Ledger,
        part_lines: int,
        listener: Listener,
    ) -> None:
        self.job = job
        self.models = models
        self.ledger = ledger
        self.part_lines = part_lines
        self.listener = listener
        self.failed: dict[str, str] = {}
        self.num_finished = 0

    def run(self, inputs: Sequence[Input], engine: Engine) -> BulkReport:
        texts = list(self._to_do(inputs))
        num_before = len(inputs) - len(texts) - len(self.failed)
        if num_before:
            self.listener.told(f"{num_before:,} of {len(inputs):,} files were finished before")
        parts = [part for text in texts for part in self._missing(text)]
        self.listener.begins(sum(part.count for part in parts))
        left = Counter(part.text.input.name for part in parts)
        for text in texts:
            if not left[text.input.name]:
                self._join(text)
        if parts:
            worker = Worker(self.job, self.models, self.ledger, parts, engine.num_threads)
            for answer in engine.run(worker, len(parts)):
                part = parts[answer["place"]]
                name = part.text.input.name
                left[name] -= 1
                self.listener.done(part.count)
                if answer["error"]:
                    self._fail(name, answer["error"])
                elif not left[name] and name not in self.failed:
                    self._join(part.text)
        if self.failed:
            raise DataError(
                "every file must be finished",
                seen=f"{len(self.failed):,} of {len(inputs):,} are not: "
                + ", ".join(list(self.failed)[:10]),
                mend="mend what is said above and give the same command again: what is done stays",
            )
        return BulkReport(self.num_finished, num_before)

    def _to_do(self, inputs: Sequence[Input]) -> Iterator[Text]:
        for one in inputs:
            try:
                text = self.ledger.look(one)
            except (GnomonError, OSError) as error:
                self._fail(one.name, str(error))
                continue
            if self.ledger.is_finished(text):
                continue
            if self.ledger.take_up(text):
                self.listener.told(f"{one.name}: its text was changed, it is done again")
            yield text

    def _missing(self, text: Text) -> list[Part]:
        parts = list(text.parts(self.part_lines))
        missing = [part for part in parts if not self.ledger.record_of(part)]
        if len(missing) < len(parts):
            self.listener.told(
                f"{text.input.name}: {len(parts) - len(missing):,} of {len(parts):,} parts were "
                "done before"
            )
        return missing

    def _join(self, text: Text) -> None:
        try:
            records = self.ledger.join(text, self.part_lines)
        except GnomonError as error:
            self._fail(text.input.name, str(error))
            return
        self.num_finished += 1
        self.listener.finished(text.input.name, text.look.num_lines, records)

    def _fail(self, name: str, error: str) -> None:
        if name not in self.failed:
            self.failed[name] = error
            self.listener.failed(name, error)

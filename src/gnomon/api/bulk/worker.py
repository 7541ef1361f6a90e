"""A worker: it loads the model once and does one part after another."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypedDict

import torch

from gnomon.api.bulk.ledger import Ledger, Part
from gnomon.api.lines import LineJob, LineWork
from gnomon.errors import DataError, GnomonError, ModelError, RunError, in_one_line
from gnomon.files import atomic_file, sha256_of, write_atomically
from gnomon.text import Replacements, read_lines

TRIES = 4  # of a part: whoever runs workers would give one that ends each to the next for ever
NAMED = 10  # notes of one kind that a part tells in full: no more of the whole job are shown


class Answer(TypedDict):
    """What a worker says of a part; plain values, which any engine can carry."""

    place: int  # of the part among all that are to be done
    error: str  # "" if all went well


class Worker:
    """Does parts; any number of them write for one job.

    Args:
        fingerprint: of the job's models, see `fingerprint`; others must not stand in their place.
        num_threads: of each operation; None: as torch sees fit.
    """

    def __init__(
        self,
        job: LineJob,
        fingerprint: str,
        ledger: Ledger,
        parts: Sequence[Part],
        num_threads: int | None = None,
    ) -> None:
        self.job = job
        self.fingerprint = fingerprint
        self.ledger = ledger
        self.parts = parts
        self.num_threads = num_threads
        self._work: LineWork | None = None
        self._reader = _Reader()

    def __call__(self, row: dict[str, Any]) -> Answer:
        """Do the part at `row["item"]`, unless it is there; whatever fails is told, not raised."""
        place = int(row["item"])
        part = self.parts[place]
        error = ""
        try:
            if not self.ledger.record_of(part):
                self._do(part)
        except GnomonError as problem:
            error = str(problem)
        except Exception as problem:  # of one part; the others shall go on
            error = in_one_line(problem)
        if error:
            self._reader = _Reader()
        return {"place": place, "error": error}

    def _do(self, part: Part) -> None:
        if not self.ledger.folder.is_dir():
            raise DataError(
                "the workers must see the folder of results",
                seen=f"{self.ledger.folder} is not there on this machine",
                mend="name folders on a file system that all machines share",
            )
        if (tries := self.ledger.try_again(part)) >= TRIES:
            raise RunError(
                "a part must not end its worker",
                seen=f"lines {part.first:,} to {part.first + part.count - 1:,} did, {tries} times",
                mend="look for memory: fewer --workers, or a smaller --batch-tokens",
            )
        work = self._opened()
        counts: Counter[str] = Counter()
        notes: list[tuple[str, str]] = []
        path = self.ledger.part_file(part)
        replaced = Replacements()
        lines = self._reader.lines(part, replaced)
        number = part.first
        with atomic_file(path) as out:
            while chunk := list(islice(lines, self.job.CHUNK)):
                for made in work(chunk, number):
                    out.write(made.line.encode("utf-8", errors="replace") + b"\n")
                    for kind, text in made.notes:
                        counts[kind] += 1
                        if counts[kind] <= NAMED:
                            notes.append((kind, text))
                number += len(chunk)
            num_bytes = out.tell()
        if number - part.first != part.count:
            raise DataError(
                "a text must not change while it is worked on",
                seen=f"{part.text.input.path} has fewer lines than a moment ago",
                mend="give the same command again: it is done again from its beginning",
            )
        record = {
            "num_bytes": num_bytes,
            "notes": notes,
            "counts": counts,
            "replaced": vars(replaced),
        }
        write_atomically(path.with_suffix(".json"), json.dumps(record) + "\n")

    def _opened(self) -> LineWork:
        if self._work is None:
            if self.num_threads is not None:
                torch.set_num_threads(self.num_threads)
            if fingerprint(self.job) != self.fingerprint:
                raise ModelError(
                    "a model must not change while it is used",
                    seen=", ".join(map(str, self.job.models)),
                    mend="let all machines see the same folder, and give the same command again",
                )
            self._work = self.job.open()
        return self._work


class _Reader:
    """Lines of parts; parts of one text that come in order are read in one go."""

    def __init__(self) -> None:
        self._path: Path | None = None
        self._next = 1
        self._lines: Iterator[str] = iter(())
        self._replaced = Replacements()

    def lines(self, part: Part, replaced: Replacements) -> Iterator[str]:
        """The lines of a part; `replaced` counts what in them was no text."""
        path = part.text.input.path
        if path != self._path or part.first < self._next:
            self._path, self._next = path, 1
            self._lines = read_lines(path, errors="replace", replacements=self._replaced)
        for _ in islice(self._lines, part.first - self._next):
            pass
        vars(self._replaced).update(vars(Replacements()))
        self._next = part.first
        for line in islice(self._lines, part.count):
            self._next += 1
            yield line
        vars(replaced).update(vars(self._replaced))


def fingerprint(job: LineJob) -> str:
    """Hash of everything that a located job's models are loaded from.

    Raises:
        ModelError: a model folder cannot be seen here.
    """
    files = []
    for folder in job.models:
        if not (folder / "config.json").is_file():
            raise ModelError(
                "the workers must see the model",
                seen=f"{folder} is not there on this machine",
                mend="name a folder on a file system that all machines share",
            )
        # A checkpoint's state of training and a model's card decide nothing here.
        files += sorted(
            file
            for file in folder.iterdir()
            if file.is_file() and file.suffix != ".md" and not file.name.startswith("training.")
        )
    return sha256_of(*files)

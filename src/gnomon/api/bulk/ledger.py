"""What of a bulk job is done: kept on disk beside the results, so that a killed job goes on.

A folder `.gnomon-bulk` in the folder of results (`.NAME.gnomon-bulk` beside a single file) holds

    job.json           what decides the results: model, settings, lines a part
    parts/NAME/        of a file that is worked on: input.json says what its input was; of each part
                       that is done 00000007.out, its lines, and 00000007.json, written last;
                       00000007.tries has a byte for each time it was begun
    done/NAME.json     of a finished file: what its input was, and the size of its results
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gnomon.api.bulk.inputs import Input
from gnomon.errors import DataError, RunError
from gnomon.files import atomic_file, lock, sha256_of, write_atomically
from gnomon.text.lines import count_lines

_FORMAT_VERSION = 1


@dataclass(frozen=True)
class Look:
    """An input as it was when the job looked at it."""

    sha256: str
    num_lines: int
    changed_ns: int  # when the file was changed last


@dataclass(frozen=True)
class Text:
    """An input and what is known of it."""

    input: Input
    look: Look

    def parts(self, part_lines: int) -> Iterator[Part]:
        """Its lines, cut where the numbers of lines say."""
        for number, first in enumerate(range(1, self.look.num_lines + 1, part_lines)):
            yield Part(self, number, first, min(part_lines, self.look.num_lines + 1 - first))


@dataclass(frozen=True)
class Part:
    """Some lines of a text."""

    text: Text
    number: int
    first: int  # the number of its first line, from 1
    count: int


class Ledger:
    """The folder beside the results.

    Args:
        results: the folder of results, or the one file.
        single: whether it is one file.
    """

    def __init__(self, results: Path, *, single: bool) -> None:
        self.results = results
        self.single = single
        name = f".{results.name}.gnomon-bulk" if single else ".gnomon-bulk"
        self.folder = (results.parent if single else results) / name

    def output(self, text: Input) -> Path:
        """Where the results of a file go."""
        return self.results if self.single else self.results / text.name

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One job at a time writes these results.

        Raises:
            RunError: another one does.
        """
        with _held(self.folder):
            yield

    def begin(self, job: Mapping[str, Any], *, restart: bool) -> list[str]:
        """Take up the job that is there, or begin one; returns what is to be told.

        Raises:
            RunError: the results that are there were made by another model or other settings.
        """
        record = {"format_version": _FORMAT_VERSION, **job}
        path = self.folder / "job.json"
        told = []
        if path.exists():
            before = _read(path)
            changed = sorted(
                name for name in {*record, *before} if record.get(name) != before.get(name)
            )
            if changed and not restart:
                raise RunError(
                    "a bulk job goes on with what it began with",
                    seen=f"changed: {', '.join(changed)} ({path})",
                    mend="--restart does everything again; another --output keeps both",
                )
            if restart:
                for name in ("parts", "done"):
                    shutil.rmtree(self.folder / name, ignore_errors=True)
                told = ["started again: what was done before is not used"]
        write_atomically(path, json.dumps(record, indent=2, ensure_ascii=False) + "\n")
        return told

    def look(self, text: Input) -> Text:
        """Read an input through.

        Raises:
            DataError: it cannot be read to its end.
        """
        changed = text.path.stat().st_mtime_ns
        return Text(text, Look(sha256_of(text.path), count_lines(text.path), changed))

    def is_finished(self, text: Text) -> bool:
        """Whether its results are there."""
        record, output = _read(self._done(text)), self.output(text.input)
        same = record.get("sha256") == text.look.sha256
        return same and output.is_file() and output.stat().st_size == record["num_bytes"]

    def take_up(self, text: Text) -> bool:
        """Make ready to work on a text; returns whether it was changed since it was worked on.

        Parts of a text that was written to meanwhile are dropped even if its content is the old one
        again: some of them may be of what stood there between.
        """
        folder = self._parts(text)
        begun, done = _read(folder / "input.json"), _read(self._done(text))
        changed = bool(begun and begun != asdict(text.look)) or bool(
            done and done["sha256"] != text.look.sha256
        )
        if changed:
            shutil.rmtree(folder, ignore_errors=True)
        self._done(text).unlink(missing_ok=True)
        for tries in folder.glob("*.tries"):
            tries.unlink()
        write_atomically(folder / "input.json", json.dumps(asdict(text.look)) + "\n")
        return changed

    def part_file(self, part: Part) -> Path:
        """Where the lines of a part go; its record is beside it, as ".json"."""
        return self._parts(part.text) / f"{part.number:08}.out"

    def try_again(self, part: Part) -> int:
        """How often a part was begun before since the job was given, which is now once more."""
        with self.part_file(part).with_suffix(".tries").open("ab") as file:
            before = file.tell()
            file.write(b".")
        return before

    def record_of(self, part: Part) -> dict[str, Any]:
        """What was written with a part that is done; empty where it is not."""
        return _read(self.part_file(part).with_suffix(".json"))

    def join(self, text: Text, part_lines: int) -> list[dict[str, Any]]:
        """Make the results of a text from its parts; returns the parts' records, in order.

        Raises:
            DataError: the input was changed while it was worked on, or a part is not as it was
                written.
        """
        path, output = text.input.path, self.output(text.input)
        if path.stat().st_mtime_ns != text.look.changed_ns and sha256_of(path) != text.look.sha256:
            raise DataError(
                "a text must not change while it is worked on",
                seen=path,
                mend="give the same command again: it is done again from its beginning",
            )
        records = []
        with atomic_file(output) as joined:
            for part in text.parts(part_lines):
                records.append(record := self.record_of(part))
                with self.part_file(part).open("rb") as file:
                    shutil.copyfileobj(file, joined, 1 << 20)
                    if file.tell() != record["num_bytes"]:
                        raise DataError(
                            "a part must be as it was written",
                            seen=f"{self.part_file(part)}: {file.tell():,} bytes",
                            mend="remove it and its .json, and give the same command again",
                        )
            num_bytes = joined.tell()
        done = {**asdict(text.look), "num_bytes": num_bytes}
        write_atomically(self._done(text), json.dumps(done) + "\n")
        shutil.rmtree(self._parts(text))
        return records

    def _done(self, text: Text) -> Path:
        return self.folder / "done" / f"{text.input.name}.json"

    def _parts(self, text: Text) -> Path:
        return self.folder / "parts" / text.input.name


def _read(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    try:
        with lock(folder / "lock", wait=False):
            yield
    except BlockingIOError as error:
        raise RunError(
            "one job at a time writes a folder of results",
            seen=f"{folder} is in use",
            mend="wait until the other has ended, or name another --output",
        ) from error

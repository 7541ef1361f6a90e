"""Synthetic pairs from text of the target language, by a model that translates the other way.

Sennrich et al. 2016. Real target text with machine-made sources teaches the decoder fluent output;
Edunov et al. 2018 find sampled sources better than beam search where there is much data, Caswell
et al. 2019 that a tag on the synthetic sources serves as well.

The work is done in chunks of lines. Each finished chunk is a file of its own beside the output, so
that a process killed at any moment loses one chunk's time and nothing else: what is there is not
done again, and the output is written in one go when all chunks are.
"""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from gnomon.errors import DataError
from gnomon.files import atomic_file, lock, sha256_of, write_atomically
from gnomon.tasks.translator import Translation, Translator
from gnomon.text import Occurrences, Replacements, read_lines
from gnomon.text.pair_files import PairFile

CHUNK = 1024  # lines

EMPTY, INVALID = "empty line", "not valid text"
UNTRANSLATED, TRUNCATED = "empty translation", "translation reached its length limit"
RATIO, COPY = "lengths too different", "translation is the line itself"


@dataclass(frozen=True, kw_only=True)
class BacktranslationConfig:
    """How text is translated back and which pairs are kept."""

    search: Mapping[str, Any] = field(default_factory=dict)  # fields of SearchConfig to change
    max_ratio: float = 3.0  # tokens of the longer side by those of the shorter
    tags: tuple[str, ...] = ()  # in front of every line that the model translates

    def problems(self) -> list[str]:
        """Everything wrong with these values."""
        if self.max_ratio >= 1:  # not so for NaN
            return []
        return [f"max_ratio must be 1 or more, is {self.max_ratio}: usual is 3"]


@dataclass(frozen=True)
class BacktranslationReport:
    """What became of the lines: every one is a pair or is counted under a reason."""

    num_lines: int
    num_pairs: int
    dropped: dict[str, Occurrences]  # by reason


Progress = Callable[[int], None]


def backtranslate(
    translator: Translator,
    mono: Path,
    output: Path,
    config: BacktranslationConfig,
    *,
    identity: Mapping[str, str],
    batch_tokens: int = 4096,
    progress: Progress = lambda num_lines: None,
) -> BacktranslationReport:
    """Write a pair for each line of `mono`, its translation as the source and itself as the target.

    A line that gives no good pair is left out and counted. Called again after being killed, it
    goes on where it stopped; the output is the same, byte for byte.

    Args:
        translator: of the reverse direction, from the language of `mono`.
        mono: text of the target language, one sentence a line, of any size.
        output: `.jsonl`, `.ndjson` or `.json` gives JSON lines, anything else TSV, as it is read
            again; `.gz` after it compresses.
        identity: what tells this model from another, kept to recognise unfinished work.
        batch_tokens: padded source tokens decoded at once: memory and speed, not results.
        progress: told the number of lines done after each chunk.

    Raises:
        DataError: `mono` cannot be read, `output` is there already, or unfinished work of other
            settings, or of another process, lies beside it.
    """
    if problems := config.problems():
        raise DataError("the settings must make sense", seen="; ".join(problems))
    translator.search_config(dict(config.search))  # a mistake in it shows before any work
    if output.is_dir() or not output.name:
        raise DataError("pairs are written to a file", seen=f"{output} is a folder")
    if PairFile(output).kind == "parquet":
        raise DataError(
            "pairs are written as TSV or JSON lines", seen=output, mend="name a .tsv or .jsonl file"
        )
    work = output.with_name(f"{output.name}.parts")
    if output.exists() and not work.exists():
        raise DataError(
            "hours of work are not overwritten",
            seen=f"{output} is there",
            mend="name another output, or remove it first",
        )
    settings = asdict(config) | {
        "chunk": CHUNK,
        "text": sha256_of(mono) if mono.is_file() else "",
        "model": dict(identity),
    }
    lines = _numbered(mono)
    with _only_writer(work):
        _begin(work, settings)
        done = 0
        for number, chunk in enumerate(_chunks(lines)):
            part = work / f"part-{number:08d}.jsonl"
            if not part.exists():
                _write_part(part, _pairs(translator, chunk, config, batch_tokens))
            done += len(chunk)
            progress(done)
        count = 0 if done == 0 else number + 1
        report = _collect([work / f"part-{i:08d}.jsonl" for i in range(count)], output)
        retired = work.with_name(f".{work.name}.done")
        shutil.rmtree(retired, ignore_errors=True)  # of a process that was killed right here
        work.rename(retired)  # at once, or a process killed here would do some parts again
        shutil.rmtree(retired)
    return report


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    text: str
    valid: bool


def _numbered(mono: Path) -> Iterator[_Line]:
    replaced = Replacements()
    before = 0
    for number, text in enumerate(read_lines(mono, errors="replace", replacements=replaced), 1):
        after = replaced.num_invalid + replaced.num_nul
        yield _Line(number, text, valid=after == before)
        before = after


def _chunks(lines: Iterator[_Line]) -> Iterator[list[_Line]]:
    while chunk := list(islice(lines, CHUNK)):
        yield chunk


@contextmanager
def _only_writer(work: Path) -> Iterator[None]:
    with ExitStack() as held:
        try:
            held.enter_context(lock(work / ".lock", wait=False))
        except BlockingIOError:
            raise DataError(
                "one process at a time writes an output",
                seen=f"another is at work in {work}",
                mend="wait for it, or name another output",
            ) from None
        except OSError as error:
            raise DataError("the output's folder must be writable", seen=error) from error
        yield


def _begin(work: Path, settings: Mapping[str, Any]) -> None:
    path = work / "settings.json"
    text = json.dumps(settings, indent=1, sort_keys=True, default=str)
    if not path.exists():
        write_atomically(path, text)
    elif (old := path.read_text(encoding="utf-8", errors="replace")) != text:
        try:
            before, now = (dict(json.loads(one)) for one in (old, text))
            changed = [name for name in sorted(before | now) if before.get(name) != now.get(name)]
        except (ValueError, TypeError):
            changed = [f"{path.name} itself, which is damaged"]
        raise DataError(
            "unfinished work is continued with the settings it was begun with",
            seen=f"{work}; changed: {', '.join(changed)}",
            mend="give the same text, model and options, or remove that folder to begin anew",
        )


def _pairs(
    translator: Translator, chunk: list[_Line], config: BacktranslationConfig, batch_tokens: int
) -> Iterator[dict[str, Any]]:
    # Lines that are not translated keep their place, so that samples depend on the line alone.
    texts = [line.text if line.valid else "" for line in chunk]
    first = chunk[0].number - 1
    found = translator.translate(
        texts, tags=config.tags, batch_tokens=batch_tokens, first=first, **config.search
    )
    lengths = [len(ids) + 1 for ids in translator.tokenizers.source.encode(texts)]
    for line, translation, length in zip(chunk, found, lengths, strict=True):
        reason = _fault(line, translation, length, config.max_ratio)
        pair = {"source": translation.text, "target": line.text}
        yield {"line": line.number} | (pair if reason is None else {"dropped": reason})


def _fault(line: _Line, found: Translation, length: int, max_ratio: float) -> str | None:
    if not line.valid:
        return INVALID
    if not line.text.strip():
        return EMPTY
    if not found.text.strip():
        return UNTRANSLATED
    if found.truncated:
        return TRUNCATED
    if found.text.strip() == line.text.strip():
        return COPY
    longer, shorter = max(found.num_tokens, length), min(found.num_tokens, length)
    return RATIO if longer > max_ratio * shorter else None


def _write_part(path: Path, records: Iterator[dict[str, Any]]) -> None:
    lines = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    write_atomically(path, lines.encode("utf-8", errors="replace"))


def _collect(parts: list[Path], output: Path) -> BacktranslationReport:
    """Put the pairs of all parts into the output and count the rest."""
    as_json = PairFile(output).kind == "jsonl"
    num_lines = num_pairs = 0
    dropped: dict[str, Occurrences] = {}
    with atomic_file(output) as file, _packed(file, output) as out:
        for part in parts:
            for raw in part.read_bytes().splitlines():
                record = json.loads(raw)
                num_lines += 1
                if (reason := record.get("dropped")) is not None:
                    dropped.setdefault(reason, Occurrences()).add(record["line"])
                    continue
                num_pairs += 1
                pair = {side: record[side] for side in ("source", "target")}
                text = json.dumps(pair, ensure_ascii=False) if as_json else _tsv(pair)
                out.write(text.encode("utf-8", errors="replace") + b"\n")
    return BacktranslationReport(num_lines, num_pairs, dropped)


def _tsv(pair: Mapping[str, str]) -> str:
    """One TAB between the texts and none within; a TAB in a text is a blank."""
    return "\t".join(pair[side].replace("\t", " ") for side in ("source", "target"))


@contextmanager
def _packed(file: BinaryIO, output: Path) -> Iterator[IO[bytes]]:
    if output.suffix != ".gz":
        yield file
        return
    # Neither time nor name goes into the file, so that the same pairs give the same bytes.
    with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed:
        yield cast("IO[bytes]", packed)


def model_identity(*files: Path) -> dict[str, str]:
    """SHA-256 by file name, for `identity`."""
    return {file.name: sha256_of(file) for file in files if file.is_file()}


def recipe_lines(pairs: Path, tags: tuple[str, ...]) -> str:
    """The table that adds the pairs to a recipe's training text."""
    tagged = f"tags = {json.dumps(list(tags), ensure_ascii=False)}\n" if tags else ""
    return f"[[data.sources]]\npairs = {json.dumps(str(pairs), ensure_ascii=False)}\n{tagged}"

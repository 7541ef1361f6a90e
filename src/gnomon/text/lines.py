"""Lines of a text file, by one rule everywhere: UTF-8, split on "\\n" and on nothing else.

Python's own `splitlines` and universal newlines also split at U+2028, U+0085, "\\x0b" or a lone
"\\r". Two parallel files that hold such a character in one language then pair every later line
with the wrong translation, which is why nothing in gnomon reads text any other way. Gzip is
unpacked.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Literal, TypeVar

from gnomon.errors import DataError
from gnomon.text.compression import BROKEN, damaged, naming_damage, opened, unpacked

One = TypeVar("One")
Other = TypeVar("Other")
OnBadText = Literal["strict", "replace"]

_BOM = b"\xef\xbb\xbf"
# What the first bytes say of files that are often taken for plain UTF-8 text.
_FOREIGN_FORMATS = {
    b"\x1f\x8b": ("gzip within gzip", "gunzip -c {path} > {path}.once"),
    b"BZh": ("bzip2", "bunzip2 -k {path}"),
    b"\xfd7zXZ\x00": ("xz", "unxz -k {path}"),
    b"\x28\xb5\x2f\xfd": ("zstd", "unzstd -k {path}"),
    b"PAR1": ("Parquet", "give it as a file of pairs: --data {path}"),
    b"PK\x03\x04": ("zip", "unzip {path}"),
    b"\xff\xfe": ("UTF-16", "iconv -f UTF-16 -t UTF-8 {path} > {path}.utf8"),
    b"\xfe\xff": ("UTF-16", "iconv -f UTF-16 -t UTF-8 {path} > {path}.utf8"),
}


@dataclass(kw_only=True)
class Replacements:
    """What `errors="replace"` changed, so that the caller can tell the user."""

    num_invalid: int = 0  # runs of bytes that are no UTF-8, each now U+FFFD
    num_nul: int = 0  # NUL characters, each now a blank
    first_line: int | None = None  # 1-based number of the first line that was changed

    def __bool__(self) -> bool:
        return self.first_line is not None


def read_lines(
    file: str | Path | Iterable[bytes],
    *,
    errors: OnBadText = "strict",
    replacements: Replacements | None = None,
) -> Iterator[str]:
    """Iterate over the lines of UTF-8 text without holding it in memory.

    A BOM and one "\\r" at the end of a line are dropped; a last line without "\\n" counts; a file
    that ends in "\\n" has no further, empty line.

    Args:
        file: its path, or an open binary stream such as `sys.stdin.buffer`.
        errors: "strict" (text to learn from) refuses invalid UTF-8, NUL and an empty file;
            "replace" (text to translate) puts U+FFFD and a blank in their place and goes on.
        replacements: counts what "replace" changed, while the iterator is used up.

    Raises:
        DataError: no such file, a folder, no permission; in strict mode also the faults above,
            with line number and byte offset. What can be known without reading is raised by the
            call itself, the rest while iterating. In both modes: gzip data that is cut off or
            damaged, with the line reached.
    """
    if isinstance(file, str | Path):
        path = Path(file)
        check_readable(path, allow_empty=errors == "replace")
        return _file_lines(path, errors, replacements)
    name = getattr(file, "name", "stream")
    stream = unpacked(file) if isinstance(file, BufferedReader) else file
    return _decode_lines(stream, name, errors, replacements)


def in_step(one: Iterable[One], other: Iterable[Other]) -> Iterator[tuple[One, Other]]:
    """Go through two texts that were found to be of equal length.

    Raises:
        DataError: they are not any more.
    """
    try:
        yield from zip(one, other, strict=True)
    except ValueError as error:
        raise DataError(
            "text must not change while it is read",
            seen="one side has fewer lines than were counted a moment ago",
            mend="wait until what writes it has ended, and try again",
        ) from error


def count_lines(path: str | Path) -> int:
    """Return how many lines `read_lines` would give, reading bytes only."""
    path = Path(path)
    check_readable(path, allow_empty=True)
    count = 0
    tail = b""
    with opened(path) as file:
        try:
            while block := file.read(1 << 20):
                count += block.count(b"\n")
                tail = block if len(block) > len(_BOM) else tail + block
        except BROKEN as error:
            raise damaged(path, count, error) from error
    unfinished = bool(tail) and not tail.endswith(b"\n")
    return 0 if tail == _BOM and count == 0 else count + unfinished


def _decode_lines(
    stream: Iterable[bytes], name: str, errors: OnBadText, replacements: Replacements | None
) -> Iterator[str]:
    """Decode byte strings that end in b"\\n", as those of a binary file do."""
    offset = 0
    for number, raw in enumerate(naming_damage(stream, name), start=1):
        start = offset
        offset += len(raw)
        if number == 1:
            if errors == "strict":
                _refuse_foreign_format(raw, name)
            if raw.startswith(_BOM):
                raw = raw[len(_BOM) :]
                start += len(_BOM)
                if not raw:  # a file that is nothing but a BOM holds no line
                    return
        raw = raw.removesuffix(b"\n").removesuffix(b"\r")
        if errors == "strict":
            yield _decode_strictly(raw, name, number, start)
        else:
            yield _decode_replacing(raw, number, replacements)


def _file_lines(path: Path, errors: OnBadText, replacements: Replacements | None) -> Iterator[str]:
    with opened(path) as file:
        try:
            yield from _decode_lines(file, str(path), errors, replacements)
        except OSError as error:
            raise DataError("a text file must be readable to its end", seen=error) from error


def _decode_strictly(raw: bytes, name: str, number: int, start: int) -> str:
    if (nul := raw.find(0)) >= 0:
        raise DataError(
            "text to learn from must not hold NUL characters",
            seen=f"{name}, line {number}, byte offset {start + nul}",
            mend="remove them (tr -d '\\000'), or convert the file if it is UTF-16 or binary",
        )
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        around = raw[max(0, error.start - 12) : error.start + 12]
        raise DataError(
            "text files must be UTF-8",
            seen=f"{name}, line {number}, byte offset {start + error.start}: {around!r}",
            mend=f"convert it: iconv -f LATIN1 -t UTF-8 {name} (or from whatever encoding it has)",
        ) from error


def _decode_replacing(raw: bytes, number: int, replacements: Replacements | None) -> str:
    try:
        text = raw.decode("utf-8")
        num_invalid = 0
    except UnicodeDecodeError:
        text = raw.decode("utf-8", errors="replace")
        # U+FFFD that the text held already (EF BF BD) was not put there by us.
        num_invalid = text.count("\ufffd") - raw.count(b"\xef\xbf\xbd")
    num_nul = text.count("\0")
    if num_nul:
        text = text.replace("\0", " ")
    if replacements is not None and (num_invalid or num_nul):
        replacements.num_invalid += num_invalid
        replacements.num_nul += num_nul
        replacements.first_line = replacements.first_line or number
    return text


def _refuse_foreign_format(raw: bytes, name: str) -> None:
    for magic, (kind, command) in _FOREIGN_FORMATS.items():
        if raw.startswith(magic):
            raise DataError(
                "text files must be plain UTF-8",
                seen=f"{name} is {kind} data",
                mend=f"unpack or convert it first: {command.format(path=name)}",
            )


def check_readable(path: Path, *, allow_empty: bool) -> None:
    """Raise the `DataError` that says why a file cannot be read, if so."""
    if not path.exists():
        raise DataError("a text file must exist", seen=path, mend=_suggest_name(path))
    if path.is_dir():
        raise DataError("a text file was expected", seen=f"{path} is a folder", mend="name a file")
    if not os.access(path, os.R_OK):
        raise DataError(
            "a text file must be readable",
            seen=f"{path} (permission denied)",
            mend=f"allow it: chmod u+r {path}",
        )
    if not allow_empty and path.is_file() and path.stat().st_size == 0:
        raise DataError("a text file must not be empty", seen=path, mend="name the right file")


def check_rereadable(file: Path) -> None:
    """Raise `DataError` for what gives its content once: a pipe, a device."""
    if file.exists() and not file.is_file() and not file.is_dir():
        raise DataError(
            "text to learn from must be in files, as it is read more than once",
            seen=f"{file} is a pipe or device",
            mend="write it to a file first, and name that",
        )


def _suggest_name(path: Path) -> str:
    try:
        here = sorted(entry.name for entry in path.parent.iterdir() if entry.is_file())
    except OSError:
        return f"the folder {path.parent} does not exist either; check the path"
    near = [name for name in here if name.startswith(path.stem) or path.name.startswith(name)]
    return f"did you mean {', '.join(near[:3])}?" if near else "check the path"

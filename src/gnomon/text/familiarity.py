"""Tells text that is unlike the training text, so that it is not answered with confidence.

The profile of a corpus is the set of its words and pairs of neighbouring words, whatever the
script; a text's score is the share of its own words and pairs that the corpus held. A model that
never saw most of a text's words cannot know what they mean, however fluent its output. One that
hardly ever saw two sentences together drops the second.
"""

from __future__ import annotations

import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import save

from gnomon.errors import ModelError
from gnomon.files import write_atomically
from gnomon.text.sentences import sentences

FORMAT_VERSION = 1
FILE_NAME = "familiarity.safetensors"

# In scripts written without spaces every character is taken as a word.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Myanmar, Khmer
    "\u2e80-\u2fdf\u3005-\u30ff\u31f0-\u31ff"  # radicals, kana
    "\u3100-\u312f\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # bopomofo, Han
)
# A run of digits, a run of letters, or one character: of an unspaced script, or a symbol.
_WORDS = re.compile(rf"\d+|[^\W\d_{_UNSPACED}]+|\S")

_BITS_PER_UNIT = 12  # with four probes, one unseen unit in about 300 is taken for seen
_NUM_PROBES = 4
_MAX_BITS = 1 << 26  # 8 MB
_QUANTILE = 0.01  # share of the held-out lines that the threshold calls far
_HIGHEST_THRESHOLD = 0.9  # or one new word in a long line would do, where the corpus is narrow
_CHUNK = 10_000  # texts looked at together
_RARE = 0.01  # share of the lines that hold more sentences than a model is trusted with together
_KEPT_BACK = 20  # every so many lines one is, where none are held out


class Familiarity:
    """A corpus's words and pairs of words as a Bloom filter, and the score where "far" begins.

    Args:
        bitmap: the filter, uint8 [2^k / 8].
        threshold: texts that score lower are far.
        most_sentences: the most that the lines held often, in one of a hundred; None: unknown.
    """

    def __init__(
        self, bitmap: NDArray[np.uint8], threshold: float, most_sentences: int | None = None
    ) -> None:
        self._bitmap = bitmap
        self.threshold = threshold
        self.most_sentences = most_sentences

    @classmethod
    def learn(cls, lines: Iterable[str], held_out: Iterable[str] | None = None) -> Familiarity:
        """Profile the training lines; set the threshold so that held-out lines are not far.

        Args:
            lines: the source side of the training text.
            held_out: lines of the same kind that were not trained on; without them, every
                twentieth training line is kept out while the threshold is found, or up to 10,000
                from all of a long text.
        """
        seen = _Growing()
        kept_back: list[str] = []
        stride = _KEPT_BACK
        num_sentences: Counter[int] = Counter()
        lines = iter(lines)
        while chunk := list(islice(lines, _CHUNK)):
            num_sentences.update(len(sentences(line)) for line in chunk)
            if held_out is None:
                kept_back += chunk[::stride]
                del chunk[::stride]
            seen.add(_units(chunk)[0])
            if len(kept_back) > _CHUNK:  # enough, and to stay so from all of the corpus
                seen.add(_units(kept_back[1::2])[0])
                del kept_back[1::2]
                stride *= 2
        profile = cls(seen.bitmap(), 0.0)
        calibration = kept_back if held_out is None else list(held_out)
        scores = [score for score in profile.score(calibration) if score is not None]
        threshold = min(float(np.quantile(scores, _QUANTILE)), _HIGHEST_THRESHOLD) if scores else 0
        if kept_back:
            seen.add(_units(kept_back)[0])
        return cls(seen.bitmap(), threshold, _most(num_sentences))

    def score(self, texts: Sequence[str]) -> list[float]:
        """Return for each text the share of its words and word pairs seen in training, 0..1.

        A blank text scores 1: there is nothing in it to get wrong.
        """
        scores: list[float] = []
        for start in range(0, len(texts), _CHUNK):
            chunk = texts[start : start + _CHUNK]
            units, owners = _units(chunk)
            totals = np.bincount(owners, minlength=len(chunk))
            found = np.bincount(owners[self._contains(units)], minlength=len(chunk))
            scores += np.where(totals == 0, 1.0, found / np.maximum(totals, 1)).tolist()
        return scores

    def is_far(self, texts: Sequence[str]) -> list[bool]:
        """Return for each text whether it is far from the training text."""
        return [score < self.threshold for score in self.score(texts)]

    def has_more_sentences(self, texts: Sequence[str]) -> list[bool]:
        """Return for each text whether it holds more sentences than lines of the corpus did."""
        if self.most_sentences is None:
            return [False] * len(texts)
        return [len(sentences(text)) > self.most_sentences for text in texts]

    def save(self, folder: str | Path) -> None:
        """Write `familiarity.safetensors` into a model folder."""
        metadata = {"format_version": str(FORMAT_VERSION), "threshold": repr(self.threshold)}
        if self.most_sentences is not None:
            metadata["most_sentences"] = str(self.most_sentences)
        data = save({"bitmap": self._bitmap}, metadata)
        write_atomically(Path(folder) / FILE_NAME, data)

    @classmethod
    def load_if_there(cls, folder: str | Path) -> Familiarity | None:
        """Read what `save` wrote; None where the folder holds no profile.

        Raises:
            ModelError: the file is damaged or of another version.
        """
        path = Path(folder) / FILE_NAME
        if not path.exists():
            return None
        try:
            with safe_open(path, framework="numpy") as file:
                metadata = file.metadata()
                if metadata["format_version"] != str(FORMAT_VERSION):
                    raise ModelError(
                        f"a familiarity profile must have format {FORMAT_VERSION}",
                        seen=f"{path}: format {metadata['format_version']}",
                        mend="use the gnomon version that wrote it",
                    )
                most = metadata.get("most_sentences")  # absent in what older gnomons wrote
                return cls(
                    file.get_tensor("bitmap"),
                    float(metadata["threshold"]),
                    None if most is None else int(most),
                )
        except ModelError:
            raise
        except Exception as error:  # safetensors raises its own, and KeyError for a foreign file
            raise ModelError(
                "a familiarity profile must be readable", seen=f"{path}: {error!r}"
            ) from error

    def _contains(self, units: NDArray[np.uint64]) -> NDArray[np.bool_]:
        return _contains(self._bitmap, units)


def _most(num_sentences: Counter[int]) -> int | None:
    """The greatest number of sentences that is not rare; None where there are no lines."""
    total, found = num_sentences.total(), 0
    for number in sorted(num_sentences, reverse=True):
        found += num_sentences[number]
        if found >= _RARE * total:
            return number
    return None


def _words(text: str) -> list[str]:
    """Cut a text into words; numbers are all alike, as a model spells them."""
    words = _WORDS.findall(unicodedata.normalize("NFC", text))
    return ["0" if word[0].isdigit() else word for word in words]


def _hashes(words: Sequence[str]) -> NDArray[np.uint64]:
    crc = (zlib.crc32(word.encode("utf-8", "surrogatepass")) for word in words)
    return _mixed(np.fromiter(crc, np.uint64, len(words)))


def _units(texts: Sequence[str]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return the hash of every word and every pair of neighbours, and whose text it is."""
    rows = [_words(text) for text in texts]
    words = _hashes([word for row in rows for word in row])
    owners = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    together = owners[1:] == owners[:-1]
    pairs = _mixed(words[:-1] * np.uint64(3) + words[1:])[together]
    return np.concatenate([words, pairs]), np.concatenate([owners, owners[1:][together]])


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Spread hashes over all 64 bits (the finaliser of SplitMix64, Steele et al. 2014)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _probes(units: NDArray[np.uint64], num_bits: int) -> list[NDArray[np.int64]]:
    """Return each unit's bits: two independent halves give any number of probes."""
    first, second = units & np.uint64(0xFFFFFFFF), units >> np.uint64(32)
    mask = np.uint64(num_bits - 1)
    return [
        ((first + np.uint64(probe) * (second | np.uint64(1))) & mask).astype(np.int64)
        for probe in range(_NUM_PROBES)
    ]


def _contains(bitmap: NDArray[np.uint8], units: NDArray[np.uint64]) -> NDArray[np.bool_]:
    found = np.ones(len(units), np.bool_)
    for bits in _probes(units, 8 * len(bitmap)):
        found &= (bitmap[bits >> 3] >> (bits & 7).astype(np.uint8)) & 1 == 1
    return found


class _Growing:
    """A filter of the greatest size, to which units are added; folded to what they need."""

    def __init__(self) -> None:
        self._bitmap = np.zeros(_MAX_BITS // 8, np.uint8)
        self._num_units = 0

    def add(self, units: NDArray[np.uint64]) -> None:
        """Add units; those that are there already do not count."""
        units = np.unique(units)
        units = units[~_contains(self._bitmap, units)]
        self._num_units += len(units)
        for bits in _probes(units, _MAX_BITS):
            for bit in range(8):  # one mask at a time: places may repeat, they are set alike
                self._bitmap[bits[bits & 7 == bit] >> 3] |= 1 << bit

    def bitmap(self) -> NDArray[np.uint8]:
        """The filter of the size that the number of units asks for.

        A probe is the low bits of a hash, so a smaller filter is the larger one with its parts laid
        over one another.
        """
        needed = max(64, self._num_units * _BITS_PER_UNIT)
        num_bits = min(_MAX_BITS, 1 << (needed - 1).bit_length())
        folded: NDArray[np.uint8] = np.bitwise_or.reduce(self._bitmap.reshape(-1, num_bits // 8))
        return folded

"""Texts, and the table that says how each option scores on them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gnomon.evaluation import bleu_tokenizer, paired_bootstrap
from gnomon.evaluation.measure import Rows, bleu_measure
from gnomon.tasks import Translator
from gnomon.text import ParallelCorpus


@dataclass(frozen=True)
class Text:
    """Sources and references, line by line."""

    name: str
    sources: list[str]
    references: list[str]

    @classmethod
    def read(cls, source: str | Path, target: str | Path, limit: int | None) -> Text:
        corpus = ParallelCorpus("test", source=source, target=target)
        pairs = list(corpus.pairs())[:limit]
        return cls(Path(source).name, [pair.source for pair in pairs], [p.target for p in pairs])


Translate = Callable[[Text], Sequence[str]]


class Table:
    """Prints one row an option: BLEU on each text, and p against the group's first row.

    p is the paired bootstrap's (1,000 samples of the lines), of chance in the lines alone: that
    another seed of the training would rank two options otherwise is not in it.
    """

    def __init__(self, texts: Sequence[Text], tokenize: str) -> None:
        if tokenize == "auto":
            tokenize = bleu_tokenizer(texts[0].references)
        self.texts = texts
        self.measure = bleu_measure(tokenize, lowercase=False)
        self._first: list[Rows] = []
        self._seconds = 0.0

    def begin(self, title: str) -> None:
        """A new group; its first row is what the others are compared with."""
        self._first, self._seconds = [], 0.0
        print(f"\n## {title}", flush=True)
        print("option", *(text.name for text in self.texts), "time", sep="\t", flush=True)

    def row(self, option: str, *ways: Translate) -> list[list[str]]:
        """Translate each text in each way (such as one seed each) and print the mean scores.

        Returns:
            The first way's translations of each text.
        """
        began = time.process_time()
        found = [[list(way(text)) for way in ways] for text in self.texts]
        seconds = (time.process_time() - began) / len(ways)
        rows = [
            [self.measure.rows(outputs, text.references) for outputs in each]
            for text, each in zip(self.texts, found, strict=True)
        ]
        firsts = [each[0] for each in rows]
        self._seconds = self._seconds or seconds
        cells = [
            self._cell(text, outputs, each, first)
            for text, outputs, each, first in zip(
                self.texts, found, rows, self._first or firsts, strict=True
            )
        ]
        self._first = self._first or firsts
        print(option, *cells, f"× {seconds / self._seconds:.1f}", sep="\t", flush=True)
        return [each[0] for each in found]

    def _cell(self, text: Text, outputs: list[list[str]], rows: list[Rows], first: Rows) -> str:
        values = [self.measure.value(one.sum(axis=0)) for one in rows]
        words = sum(len(line.split()) for lines in outputs for line in lines) / len(outputs)
        ratio = words / sum(len(line.split()) for line in text.references)
        cell = f"{sum(values) / len(values):.2f}"
        if len(values) > 1:
            cell += f" ({min(values):.2f} to {max(values):.2f})"
        elif rows[0] is not first:
            cell += f" (p {paired_bootstrap(self.measure, rows[0], first).p_value:.3f})"
        return f"{cell} length {ratio:.3f}"


def plain(translator: Translator, **search: Any) -> Translate:
    """How a translator translates with these settings, whole lines."""

    def translate(text: Text) -> list[str]:
        settings: dict[str, Any] = {"split": "never", **search}
        return [found.text for found in translator.translate(text.sources, **settings)]

    return translate

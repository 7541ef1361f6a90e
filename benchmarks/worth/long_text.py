"""Several lines put together into one: translated whole, and split into sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from benchmarks.worth.measure import Table, Text, Translate, plain

from gnomon.tasks import Translator

COUNTS = (2, 4)


def long_texts(translator: Translator, table: Table, tokenize: str) -> None:
    print(f"\n# longest source of the training text: {translator.longest_source} tokens")
    for count in COUNTS:
        texts = [joined(text, count) for text in table.texts]
        apart = {text.name: text for text in table.texts}
        here = Table(texts, tokenize)
        here.begin(f"long text: {count} lines put together")

        here.row("each line by itself, then joined", by_hand(translator, apart, count))
        for split in ("never", "auto", "always"):
            here.row(f"split {split}", plain(translator, split=split))
        found = translator.translate(texts[0].sources, split="always", beam=1)
        parts = sum(each.num_parts for each in found) / len(found)
        print(f"# split always made {parts:.2f} parts of a text", flush=True)


def by_hand(translator: Translator, apart: dict[str, Text], count: int) -> Translate:
    """What splitting could do at best: the lines as they were before they were put together."""
    return lambda text: joined_lines(plain(translator)(apart[text.name]), count)


def joined(text: Text, count: int) -> Text:
    return replace(
        text,
        sources=joined_lines(text.sources, count),
        references=joined_lines(text.references, count),
    )


def joined_lines(lines: Sequence[str], count: int) -> list[str]:
    return [" ".join(lines[start : start + count]) for start in range(0, len(lines), count)]

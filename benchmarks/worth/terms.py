"""A terminology: BLEU, and how often its terms arrive, without and with it.

Two rules make up terms from the text itself, so both look at the references, and what they gain in
BLEU is what a glossary gains that is right wherever it applies:

- *glossary*: pairs of words (five letters and more) that stand in the same lines, by Dice's
  coefficient of 0.7 or more and in three lines or more; one translation a source word, used
  wherever the source word stands, the reference having it or not;
- *one word of each line*: the longest word of each reference, given line by line.
"""

from __future__ import annotations

from collections import Counter

from benchmarks.worth.measure import Table, Text, Translate, plain

from gnomon.tasks import Terminology, Translator

SHORTEST, DICE, TIMES = 5, 0.7, 3


def terms(translator: Translator, table: Table) -> None:
    rules = {"glossary": by_glossary, "one word of each line": by_line}
    required = {
        name: {text.name: rule(text) for text in table.texts} for name, rule in rules.items()
    }
    table.begin("terminology")
    for beam in (5, 10):
        found = table.row(f"without, beam {beam}", plain(translator, beam=beam))
        for name, wanted in required.items():
            show(f"without, {name}", found, list(wanted.values()))
        for name, wanted in required.items():
            found = table.row(f"{name}, beam {beam}", steered(translator, wanted, beam))
            show(f"with, {name}", found, list(wanted.values()))


def steered(translator: Translator, required: dict[str, list[list[str]]], beam: int) -> Translate:
    return lambda text: plain(translator, beam=beam, required=required[text.name])(text)


def by_glossary(text: Text) -> list[list[str]]:
    terminology = Terminology(glossary(text))
    return [terminology.required(line) for line in text.sources]


def by_line(text: Text) -> list[list[str]]:
    return [[word] if (word := longest(line)) else [] for line in text.references]


def show(label: str, outputs: list[list[str]], required: list[list[list[str]]]) -> None:
    """How many of the required words stand in the outputs, as words or beginnings of words."""
    for lines, wanted in zip(outputs, required, strict=True):
        there = [
            any(word.startswith(term) for word in line.split())
            for line, each in zip(lines, wanted, strict=True)
            for term in each
        ]
        lines_with = sum(map(bool, wanted))
        print(
            f"# {label}: {sum(there)} of {len(there)} terms there, in {lines_with} lines",
            flush=True,
        )


def glossary(text: Text) -> list[tuple[str, str]]:
    """Each source word with the target word that keeps it company most."""
    sources, targets, both = Counter[str](), Counter[str](), Counter[tuple[str, str]]()
    for source, target in zip(text.sources, text.references, strict=True):
        ones = {word for word in source.split() if is_content(word)}
        others = {word for word in target.split() if is_content(word)}
        sources.update(ones)
        targets.update(others)
        both.update((one, other) for one in ones for other in others)
    best: dict[str, tuple[float, str]] = {}
    for (one, other), times in sorted(both.items()):
        dice = 2 * times / (sources[one] + targets[other])
        if times >= TIMES and dice >= DICE and dice > best.get(one, (0.0, ""))[0]:
            best[one] = (dice, other)
    return [(one, other) for one, (_, other) in best.items()]


def is_content(word: str) -> bool:
    return len(word) >= SHORTEST and word.isalpha()


def longest(line: str) -> str:
    return max((word for word in line.split() if is_content(word)), key=len, default="")

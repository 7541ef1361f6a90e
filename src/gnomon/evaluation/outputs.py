"""What can be said of outputs without knowing what is right: length, loops, copies, warnings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gnomon.evaluation.tokenization import bleu_tokenizer
from gnomon.text import Unit, units

LOOP_ORDER = 4


@dataclass(frozen=True, slots=True)
class Output:
    """One output of a system and what the system itself said of it (None: it does not know)."""

    text: str
    truncated: bool | None = None
    far: bool | None = None
    cut: bool | None = None  # only the source's beginning was read


@dataclass(frozen=True, kw_only=True, slots=True)
class OutputFigures:
    """Figures about outputs; shares are of 1.

    Attributes:
        num_lines: how many outputs.
        empty: blank outputs for a source (or, without sources, a reference) that is not blank.
        truncated: outputs that reached the length limit; None where the system does not say.
        far: inputs far from what the model was trained on; None likewise.
        cut: inputs of which the beginning alone was read; None where none ever is.
        unit: what lengths are counted in, "words" or, for text without blanks, "characters".
        length_ratio: total length of the outputs over that of the references.
        repeated: share of the outputs' 4-grams that stood earlier in the same line: loops.
        repeated_in_references: the same of the references, which is what is normal.
        copied: share of the lines, blank ones aside, whose output is the source itself; None
            without sources.
        copied_in_references: the same of the references.
    """

    num_lines: int
    empty: int
    truncated: int | None
    far: int | None
    cut: int | None
    unit: str
    length_ratio: float
    repeated: float
    repeated_in_references: float
    copied: float | None
    copied_in_references: float | None


def output_figures(
    outputs: Sequence[Output], references: Sequence[str], sources: Sequence[str] | None = None
) -> OutputFigures:
    """Count; all sequences have one entry a line."""
    texts = [output.text for output in outputs]
    unit = length_unit(references)
    reference_length = sum(line_length(line, unit) for line in references)
    output_length = sum(line_length(line, unit) for line in texts)
    asked = references if sources is None else sources
    return OutputFigures(
        num_lines=len(outputs),
        empty=sum(
            bool(line.strip()) and not text.strip() for line, text in zip(asked, texts, strict=True)
        ),
        truncated=_count([output.truncated for output in outputs]),
        far=_count([output.far for output in outputs]),
        cut=_count([output.cut for output in outputs]),
        unit=unit,
        length_ratio=output_length / reference_length if reference_length else 0.0,
        repeated=repeated_share(texts, unit),
        repeated_in_references=repeated_share(references, unit),
        copied=None if sources is None else copied_share(texts, sources),
        copied_in_references=None if sources is None else copied_share(references, sources),
    )


def length_unit(lines: Sequence[str]) -> Unit:
    """ "words" where the lines' script has blanks between words, else "characters"."""
    return "words" if bleu_tokenizer(lines) == "13a" else "characters"


def line_length(line: str, unit: Unit) -> int:
    """How many words or characters."""
    return len(units(line, unit))


def repeated_share(lines: Sequence[str], unit: Unit, order: int = LOOP_ORDER) -> float:
    """Share of n-grams that stood earlier in their own line."""
    total = distinct = 0
    for line in lines:
        texts = [line[start:end] for start, end in units(line, unit)]
        grams = list(zip(*(texts[offset:] for offset in range(order)), strict=False))
        total += len(grams)
        distinct += len(set(grams))
    return (total - distinct) / total if total else 0.0


def copied_share(lines: Sequence[str], sources: Sequence[str]) -> float:
    """Share of the lines with a source that are that source, white space at the ends aside."""
    pairs = [
        (line.strip(), source.strip())
        for line, source in zip(lines, sources, strict=True)
        if source.strip()
    ]
    return sum(line == source for line, source in pairs) / len(pairs) if pairs else 0.0


def _count(marks: Sequence[bool | None]) -> int | None:
    known = [mark for mark in marks if mark is not None]
    return sum(known) if known else None

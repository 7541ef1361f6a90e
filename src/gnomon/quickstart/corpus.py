"""The quickstart's parallel corpus, made when asked for, from nothing but CLDR data."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from babel import Locale

from gnomon.quickstart import dates, lists, measures
from gnomon.quickstart.kinds import KINDS
from gnomon.quickstart.languages import find_language
from gnomon.quickstart.names import NameTables
from gnomon.quickstart.phrase import ENGLISH, Template, Unsayable, plain
from gnomon.quickstart.split import Draw, line_is_held_out


@dataclass(frozen=True, slots=True)
class Pair:
    """One line of the corpus and where it comes from."""

    source: str
    target: str
    kind: str
    template: str
    # What the line speaks of by name, such as "territory/FR".
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Corpus:
    """English → `language` pairs: to train on, to choose a checkpoint by, and to judge by."""

    language: str
    train: list[Pair]
    valid: list[Pair]
    test: list[Pair]

    def describe(self) -> list[tuple[str, Pair]]:
        """What a model trained on this knows: per kind, plain words and a held-out example."""
        examples: dict[str, Pair] = {}
        for pair in (*self.test, *self.valid, *self.train):
            examples.setdefault(pair.kind, pair)
        return [(words, examples[kind]) for kind, words in KINDS.items() if kind in examples]


def make_corpus(
    language: str,
    *,
    num_train: int = 60_000,
    num_valid: int = 1_000,
    num_test: int = 1_000,
    seed: int = 0,
) -> Corpus:
    """Make the corpus: the same arguments (and the same Babel) give the same lines.

    Raises:
        DataError: `language` is unknown, English, or poorly covered by the CLDR.
    """
    target = find_language(language)
    templates = _usable(all_templates(target), target)
    num_held_out = num_valid + num_test
    train = _make_lines(templates, target, num_train, seed, held_out=False)
    # A few more than wanted, as some may speak of a name not yet known from elsewhere.
    spare = num_held_out // 10 + 10
    held_out = _make_lines(templates, target, num_held_out + spare, seed, held_out=True)
    held_out = list(_known_from_elsewhere(held_out, train))
    random.Random(seed).shuffle(held_out)
    return Corpus(str(target), train, held_out[:num_valid], held_out[num_valid:][:num_test])


def all_templates(target: Locale) -> list[Template]:
    """Every template there is, in a fixed order."""
    tables = NameTables(ENGLISH, target)
    return [
        *dates.templates(target),
        *measures.templates(tables),
        *lists.templates(tables),
    ]


def _usable(templates: list[Template], target: Locale) -> list[Template]:
    """Those that the target language can say: CLDR lacks a pattern here and there."""
    draw = _draw(target, seed=0, held_out=False)
    return [t for t in templates if any(_make(t, draw, target) for _ in range(20))]


def _draw(target: Locale, *, seed: int, held_out: bool) -> Draw:
    return Draw(held_out=held_out, plural_form=target.plural_form, seed=seed)


def _make(template: Template, draw: Draw, target: Locale) -> Pair | None:
    """One line, or None where this one cannot be said."""
    phrase = template.draw(draw)
    try:
        source, meaning = phrase.say(template.english), phrase.say(target)
    except (Unsayable, LookupError, NotImplementedError):
        return None
    source, meaning = plain(source), plain(meaning)
    if _FOUR_DIGITS_UNGROUPED & {target.language, str(target)} and _FOUR_DIGITS.search(source):
        return None
    return Pair(source, meaning, template.kind, template.name, phrase.names)


# In these languages 1,234 is written without a mark, but 12,345 with one (CLDR's "minimum
# grouping digits"). Babel does not know of it, so lines with four grouped digits are not made.
_FOUR_DIGITS_UNGROUPED = frozenset(
    {"be", "bg", "ca", "es", "et", "hu", "hy", "it", "ka", "lv", "pl", "pt_PT"}
)
_FOUR_DIGITS = re.compile(r"(?<![\d,])\d,\d{3}(?![\d,])")


def _make_lines(
    templates: list[Template], target: Locale, num_lines: int, seed: int, *, held_out: bool
) -> list[Pair]:
    """Distinct lines in shuffled order, each template in proportion to its weight.

    A template that has run out of new lines leaves its share to the others.
    """
    draw = _draw(target, seed=seed, held_out=held_out)
    meanings = _Meanings()
    lines: list[Pair] = []
    while templates and len(lines) < num_lines:
        missing, total_weight = num_lines - len(lines), sum(t.weight for t in templates)
        not_exhausted = []
        for template in templates:
            share = round(missing * template.weight / total_weight) + 1
            new = list(islice(_new_lines(template, draw, target, meanings), share))
            lines += new
            if len(new) == share:
                not_exhausted.append(template)
        templates = not_exhausted
    lines = [pair for pair in lines if pair.source not in meanings.contradicted]
    draw.rng.shuffle(lines)
    return lines[:num_lines]


class _Meanings:
    """What each English line was translated as, so that it is never translated in two ways."""

    def __init__(self) -> None:
        self.contradicted: set[str] = set()
        self._meanings: dict[str, str] = {}

    def is_new(self, pair: Pair) -> bool:
        """Whether the English line is seen for the first time."""
        meaning = self._meanings.get(pair.source)
        if meaning is None:
            self._meanings[pair.source] = pair.target
            return True
        if meaning != pair.target:
            self.contradicted.add(pair.source)
        return False


# A template is taken to have run out after this many draws in a row that gave nothing new. One
# draw in ten of a line without numbers falls on the held-out side, so this is far from chance.
_PATIENCE = 200


def _new_lines(
    template: Template, draw: Draw, target: Locale, meanings: _Meanings
) -> Iterator[Pair]:
    misses = 0
    while misses < _PATIENCE:
        pair = _make(template, draw, target)
        if pair is not None and _is_of_side(pair, draw.held_out) and meanings.is_new(pair):
            misses = 0
            yield pair
        else:
            misses += 1


def _is_of_side(pair: Pair, held_out: bool) -> bool:
    """Lines with numbers are on the side of their numbers by how they were drawn."""
    has_numbers = any(character.isdigit() for character in pair.source)
    return has_numbers or line_is_held_out(pair.source) == held_out


def _known_from_elsewhere(held_out: list[Pair], train: list[Pair]) -> Iterator[Pair]:
    """The held-out lines whose every name occurs in training lines of other templates too."""
    templates_of: dict[str, set[str]] = defaultdict(set)
    for pair in train:
        for name in pair.names:
            templates_of[name].add(pair.template)
    for pair in held_out:
        if all(templates_of[name] - {pair.template} for name in pair.names):
            yield pair

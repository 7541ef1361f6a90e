"""Which numbers are for training and which are held back, and draws that keep to one side.

Every number belongs to one side for good: the hash of its value decides, not the seed, the
language or the phrase around it. A training line is made of training numbers only and a held-out
line of held-out numbers only, so no number written in a held-out line was ever trained on: no
count, amount, percentage, day, year, minute or second, nor any of them in another role (7 hours
are held out, hence 7 euros and March 7 too).

Two things are not held back. 0, 1 and 2 are always trained on, as they alone show the singular.
And the hour of a clock time may be any: there are too few, and 12-hour clocks must be learned;
what is new there is the minute, hence the time as a whole.
"""

from __future__ import annotations

import datetime as dt
import functools
import hashlib
import random
from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import product
from typing import TypeVar

T = TypeVar("T")

HELD_OUT_SHARE = 10
"""One number (or one line without numbers) in this many is held out."""

ALWAYS_TRAINED = frozenset({Decimal(0), Decimal(1), Decimal(2)})
"""Never held out: in many languages they alone show the singular, the dual and the zero form."""

FIRST_YEAR, LAST_YEAR = 1800, 2100

_MOST_DAYS = dict(enumerate((31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31), start=1))


# With this salt the held-out numbers under 100 (7, 13, 23, 29, 38, 51 …) show every plural form
# of the Slavic and Baltic languages, and four of them can be days of a month.
_SALT = b"gnomon 391"


def _hashes_to_held_out(text: str) -> bool:
    digest = hashlib.blake2b(text.encode(), digest_size=8, person=_SALT).digest()
    return int.from_bytes(digest, "big") % HELD_OUT_SHARE == 0


@functools.lru_cache(maxsize=1 << 16)
def number_is_held_out(number: Decimal) -> bool:
    """Whether this number may occur in held-out lines only (True) or in training lines only.

    12, 12.0 and 12.00 are one number; so are 2021 the year and 2,021 the count. A sign does not
    make another number.
    """
    plain = abs(number).normalize()
    return plain not in ALWAYS_TRAINED and _hashes_to_held_out(f"{plain:f}")


def line_is_held_out(source: str) -> bool:
    """The side of a line that holds no number, by the hash of its English text."""
    return _hashes_to_held_out(source)


@functools.cache
def _numbers_of_side(low: int, high: int, held_out: bool) -> tuple[int, ...]:
    return tuple(n for n in range(low, high + 1) if number_is_held_out(Decimal(n)) == held_out)


class Draw:
    """Draws numbers, dates and names for the phrases of one side; the only source of chance here.

    Args:
        held_out: the side; only numbers of this side are ever returned.
        plural_form: number → plural category of the target language, so that each of its
            plural forms is drawn often enough.
        seed: the same seed gives the same draws.
    """

    def __init__(self, *, held_out: bool, plural_form: Callable[[Decimal], str], seed: int) -> None:
        self.held_out = held_out
        self.rng = random.Random(f"{seed}/{held_out}")
        self._decks: dict[tuple[object, ...], list[object]] = {}
        by_form: dict[str, list[int]] = {}
        for number in _numbers_of_side(1, 199, held_out):
            by_form.setdefault(plural_form(Decimal(number)), []).append(number)
        self._by_plural_form = list(by_form.values())

    # -- numbers ---------------------------------------------------------------------------

    def between(self, low: int, high: int) -> int:
        """A whole number of this side in low..high (both included), evenly."""
        if high - low <= 400:
            return self.rng.choice(_numbers_of_side(low, high, self.held_out))
        while True:
            number = self.rng.randint(low, high)
            if number_is_held_out(Decimal(number)) == self.held_out:
                return number

    def count(self, max_digits: int = 7) -> Decimal:
        """How many of something: mostly small, up to the millions, all plural forms alike."""
        dice = self.rng.random()
        if dice < 0.5:
            return Decimal(self.rng.choice(self.rng.choice(self._by_plural_form)))
        if dice < 0.7:
            return Decimal(self.between(1, 99))
        is_large = dice >= 0.85 and max_digits > 3
        return self.whole(self.rng.randint(4, max_digits) if is_large else 3)

    def small(self, high: int) -> Decimal:
        """A whole number from 1 to `high`."""
        return Decimal(self.between(1, high))

    def whole(self, num_digits: int) -> Decimal:
        """A whole number with this many digits; one in four ends in zeros, as people's do."""
        low, high = 10 ** (num_digits - 1), 10**num_digits - 1
        step = 10 ** (num_digits - 2) if num_digits > 2 and self.rng.random() < 0.25 else 1
        while True:
            number = Decimal(self.rng.randint(low // step, high // step) * step)
            if number_is_held_out(number) == self.held_out:
                return number

    def fraction(self, num_decimals: int, max_digits: int = 4) -> Decimal:
        """A number with exactly `num_decimals` decimals and up to `max_digits` digits before."""
        scale = 10**num_decimals
        while True:
            whole = self.rng.randrange(10 ** self.rng.randint(1, max_digits))
            number = Decimal(whole * scale + self.rng.randrange(1, scale)).scaleb(-num_decimals)
            if number_is_held_out(number) == self.held_out:
                return number

    # -- dates and times -------------------------------------------------------------------

    def date(self, *, year: int | None = None, month: int | None = None) -> dt.date:
        """A date whose day and year are both of this side (the month is written as a name)."""
        year = year or self.between(FIRST_YEAR, LAST_YEAR)
        month = month or self.rng.randint(1, 12)
        return dt.date(year, month, self.between(1, _MOST_DAYS[month]))

    def later(self, start: dt.date) -> dt.date:
        """A date after `start`: in the same month, the same year or any year, evenly.

        Gives `start` itself where no later one was found, as at the end of a year.
        """
        reach = self.rng.randrange(3)
        year = start.year if reach < 2 else None
        month = start.month if reach < 1 else None
        for _ in range(20):
            other = self.date(year=year, month=month)
            if other > start:
                return other
        return start

    def time(self) -> dt.time:
        """A time of day whose minute and second are both of this side; the hour is free."""
        return dt.time(self.rng.randrange(24), self.between(0, 59), self.between(0, 59))

    # -- choices ---------------------------------------------------------------------------

    def choose(self, options: Sequence[T]) -> T:
        """One of the options, by chance."""
        return self.rng.choice(options)

    def deal(self, cards: tuple[T, ...], deck: object = None) -> T:
        """One of `cards`, each once before any comes again: rare names are seen as often as any.

        Args:
            cards: what to deal from, hashable.
            deck: templates that name the same deck share it; others have their own.
        """
        pile = self._decks.setdefault((deck, cards), [])
        if not pile:
            pile.extend(cards)
            self.rng.shuffle(pile)
        return pile.pop()  # type: ignore[return-value]

    def deal_counted(
        self, cards: tuple[T, ...], deck: object = None, *, max_digits: int = 7
    ) -> tuple[T, Decimal]:
        """A card and how many of it: each card comes in each plural form, and with any number."""
        forms = range(len(self._by_plural_form))
        any_number = [None] * len(forms)
        card, form = self.deal(tuple(product(cards, (*forms, *any_number))), deck)
        if form is None:
            return card, self.count(max_digits)
        return card, Decimal(self.rng.choice(self._by_plural_form[form]))

    def deal_several(self, cards: tuple[T, ...], num: int) -> list[T]:
        """Several different cards."""
        hand: list[T] = []
        while len(hand) < num:
            card = self.deal(cards)
            if card not in hand:
                hand.append(card)
        return hand

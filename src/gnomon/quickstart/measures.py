"""Templates for numbers, percentages, units of measure and amounts of money."""

from __future__ import annotations

from decimal import Decimal
from functools import partial
from itertools import product

from babel import Locale
from babel.numbers import (
    format_compact_decimal,
    format_currency,
    format_decimal,
    format_percent,
    get_currency_precision,
)
from babel.units import format_compound_unit, format_unit

from gnomon.quickstart.names import PERIODS, RATE_UNITS, UNITS, NameTables
from gnomon.quickstart.phrase import (
    ENGLISH,
    Length,
    ListStyle,
    Phrase,
    Template,
    Unsayable,
    listed,
)
from gnomon.quickstart.split import Draw

_AND_OR: tuple[ListStyle, ...] = ("standard", "or")


def templates(tables: NameTables) -> list[Template]:
    """All templates about quantities, with the units and currencies both languages name."""
    units = usable_units(tables.target)
    return [*_numbers(), *_units(units, tables.target), *_money(tables)]


# -- numbers -----------------------------------------------------------------------------------


def _numbers() -> list[Template]:
    return [
        Template(kind="number", name="number", draw=_number, weight=2),
        Template(kind="number", name="millions", draw=_millions, weight=1),
        Template(kind="percent", name="percent", draw=_percent, weight=1.5),
    ]


def _number(draw: Draw) -> Phrase:
    number = _any_number(draw) * (-1 if draw.rng.random() < 0.15 else 1)
    return Phrase(partial(_decimal, number))


def _any_number(draw: Draw) -> Decimal:
    """Whole (one to seven digits) or with one to three decimals."""
    if draw.rng.random() < 0.5:
        return draw.whole(draw.rng.randint(2, 7))
    return draw.fraction(draw.rng.randint(1, 3), max_digits=6)


def _decimal(number: Decimal, locale: Locale) -> str:
    return str(format_decimal(number, decimal_quantization=False, locale=locale))


def _millions(draw: Draw) -> Phrase:
    power = draw.choose((10**6, 10**9, 10**12))
    number = draw.small(999)
    if draw.rng.random() < 0.5:
        number = draw.fraction(draw.choose((1, 2)), max_digits=3)
        while number < 1:
            number = draw.fraction(1, max_digits=3)

    def say(locale: Locale) -> str:
        return str(
            format_compact_decimal(
                number * power, format_type="long", fraction_digits=2, locale=locale
            )
        )

    return Phrase(say)


def _percent(draw: Draw) -> Phrase:
    number = draw.small(999) if draw.rng.random() < 0.5 else draw.fraction(draw.choose((1, 2)), 2)
    share = number / 100

    def say(locale: Locale) -> str:
        return str(format_percent(share, decimal_quantization=False, locale=locale))

    return Phrase(say)


# -- units -------------------------------------------------------------------------------------


def usable_units(target: Locale) -> dict[Length, tuple[str, ...]]:
    """Length ("long", "short") → the units whose English pattern has but one translation."""
    translation: dict[str, str] = {}
    usable: dict[Length, list[str]] = {"long": [], "short": []}
    for length, units in usable.items():
        for unit in UNITS:
            try:
                source = format_unit(3, unit, length, locale=ENGLISH)
                meaning = format_unit(3, unit, length, locale=target)
            except (LookupError, ValueError):
                continue
            if translation.setdefault(source, meaning) == meaning:
                units.append(unit)
    return {length: tuple(units) for length, units in usable.items()}


def _units(units: dict[Length, tuple[str, ...]], target: Locale) -> list[Template]:
    make = partial(Template, kind="unit")
    whole, decimal = partial(_measure, whole=True), partial(_measure, whole=False)
    periods = tuple(p for p in PERIODS if _has_rate(target, p))
    templates = [
        make(name="whole units", draw=partial(whole, "long", units["long"]), weight=3),
        make(name="units with decimals", draw=partial(decimal, "long", units["long"]), weight=2),
        make(name="abbreviated units", draw=partial(whole, "short", units["short"]), weight=1.5),
        make(name="two units", draw=partial(_two_measures, units["long"]), weight=1.5),
    ]
    if periods:
        rate = partial(_rate, RATE_UNITS, periods)
        templates.append(make(name="rate", draw=rate, weight=1))
    return templates


def _has_rate(target: Locale, period: str) -> bool:
    """Whether CLDR has a "per hour" of the target's own: "per" + "hour" is wrong in many."""
    return "per" in target._data["unit_patterns"].get(f"duration-{period}", {}).get("long", {})


def _measure(length: Length, units: tuple[str, ...], draw: Draw, *, whole: bool) -> Phrase:
    if whole:
        unit, number = draw.deal_counted(units, length)
    else:
        unit, number = draw.deal(units, "decimals"), draw.fraction(draw.choose((1, 1, 2)))
    return _measured(number, unit, length)


def _measured(number: Decimal, unit: str, length: Length) -> Phrase:
    return Phrase(lambda locale: format_unit(number, unit, length, locale=locale), (unit,))


def _two_measures(units: tuple[str, ...], draw: Draw) -> Phrase:
    hand = draw.deal_several(units, 2)
    phrases = [_measured(draw.count(4), unit, "long") for unit in hand]
    return listed(phrases, draw.choose(_AND_OR))


def _rate(units: tuple[str, ...], periods: tuple[str, ...], draw: Draw) -> Phrase:
    (unit, period), number = draw.deal_counted(tuple(product(units, periods)), max_digits=4)

    def say(locale: Locale) -> str:
        text = format_compound_unit(number, unit, denominator_unit=period, locale=locale)
        if text is None:
            raise Unsayable(unit)
        return text

    return Phrase(say, (unit, f"duration-{period}"))


# -- money -------------------------------------------------------------------------------------


def _money(tables: NameTables) -> list[Template]:
    make = partial(Template, kind="amount of money")
    codes = tables.codes("currency")
    return [
        make(name="whole amount", draw=partial(_whole_amount, codes), weight=2.5),
        make(name="exact amount", draw=partial(_exact_amount, codes), weight=2),
        make(name="amount with symbol", draw=partial(_symbol_amount, codes), weight=1.5),
        make(name="two amounts", draw=partial(_two_amounts, codes), weight=1),
    ]


def _whole_amount(codes: tuple[str, ...], draw: Draw) -> Phrase:
    code, number = draw.deal_counted(codes, "whole")
    return _named_amount(number, code)


def _exact_amount(codes: tuple[str, ...], draw: Draw) -> Phrase:
    code = draw.deal(codes, "exact")
    digits = get_currency_precision(code)
    return _named_amount(draw.fraction(digits) if digits else draw.count(), code)


def _two_amounts(codes: tuple[str, ...], draw: Draw) -> Phrase:
    hand = draw.deal_several(codes, 2)
    return listed([_named_amount(draw.count(4), code) for code in hand], draw.choose(_AND_OR))


def _named_amount(number: Decimal, code: str) -> Phrase:
    """An amount as given: "12 euros", not "12.00 euros"."""

    def say(locale: Locale) -> str:
        return format_currency(
            number,
            code,
            format=str(locale.decimal_formats[None].pattern),
            format_type="name",
            currency_digits=False,
            decimal_quantization=False,
            locale=locale,
        )

    return Phrase(say, (f"currency/{code}",))


def _symbol_amount(codes: tuple[str, ...], draw: Draw) -> Phrase:
    code = draw.deal(codes, "symbol")
    digits = get_currency_precision(code)
    number = draw.fraction(digits, 5) if digits else draw.whole(draw.rng.randint(3, 7))
    return Phrase(
        lambda locale: format_currency(number, code, locale=locale), (f"currency/{code}",)
    )

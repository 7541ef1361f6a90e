"""Templates for dates, times of day, intervals, durations and relative times."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Literal

from babel import Locale, dates
from babel.units import format_unit

from gnomon.quickstart.phrase import BRITISH, ENGLISH, Length, Phrase, Template, Unsayable, listed
from gnomon.quickstart.split import Draw

DateStyle = Literal["full", "long", "medium", "short"]

MAY = 5

# How many seconds babel counts for each unit of time.
_SECONDS = dict(dates.TIMEDELTA_UNITS)


def templates(target: Locale) -> list[Template]:
    """All templates about time that the target language has patterns for."""
    return [*_dates(), *_times(), *_intervals(target), *_durations(), *_relative()]


# -- dates -------------------------------------------------------------------------------------


def _dates() -> list[Template]:
    make = partial(Template, kind="date")
    return [
        make(name="full date", draw=partial(_date, "full"), weight=2),
        make(name="full date, British", draw=partial(_date, "full"), weight=1, english=BRITISH),
        make(name="long date", draw=partial(_date, "long"), weight=2),
        make(name="long date, British", draw=partial(_date, "long"), weight=1, english=BRITISH),
        # An abbreviated May looks like the whole word, and its date like a long one.
        make(name="medium date", draw=partial(_date, "medium", not_in=MAY), weight=1.5),
        make(name="weekday and date", draw=partial(_skeleton, "yMMMEd"), weight=1),
        make(name="month and day", draw=partial(_skeleton, "MMMMd"), weight=0.2),
        make(name="month and year", draw=partial(_skeleton, "yMMMM"), weight=0.5),
        make(name="week of the year", draw=_week, weight=0.5),
    ]


def _date(style: DateStyle, draw: Draw, not_in: int = 0) -> Phrase:
    day = draw.date()
    while day.month == not_in:
        day = draw.date()
    names = (f"month/{day.month}", f"weekday/{day.weekday()}")
    return Phrase(lambda locale: dates.format_date(day, style, locale=locale), names)


def _skeleton(skeleton: str, draw: Draw) -> Phrase:
    return _by_skeleton(skeleton, draw.date())


def _by_skeleton(skeleton: str, moment: dt.date | dt.time | dt.datetime) -> Phrase:
    def say(locale: Locale) -> str:
        return dates.format_skeleton(skeleton, moment, fuzzy=False, locale=locale)

    return Phrase(say)


def _week(draw: Draw) -> Phrase:
    # The number is of the ISO week. Where a language counts weeks by another rule and gives the
    # day another week or year, the line is not made: its numbers would be of the other side.
    week, year = int(draw.small(52)), draw.date().year
    day = dt.date.fromisocalendar(year, week, 4)

    def say(locale: Locale) -> str:
        if dates.format_date(day, "w Y", locale=locale) != f"{week} {year}":
            raise Unsayable(day)
        return dates.format_skeleton("yw", day, fuzzy=False, locale=locale)

    return Phrase(say)


# -- times of day ------------------------------------------------------------------------------


def _times() -> list[Template]:
    make = partial(Template, kind="time")
    both = partial(Template, kind="date and time")
    return [
        make(name="time", draw=partial(_time, "short"), weight=0.8),
        make(name="time with seconds", draw=partial(_time, "medium"), weight=0.8),
        make(name="24-hour time", draw=partial(_clock, "Hm"), weight=0.3),
        make(name="24-hour time with seconds", draw=partial(_clock, "Hms"), weight=0.5),
        make(name="weekday and 24-hour time", draw=partial(_clock, "EHm"), weight=0.5),
        both(name="long date and time", draw=partial(_date_and_time, "long"), weight=1.5),
        both(name="full date and time", draw=partial(_date_and_time, "full"), weight=1.5),
        both(name="relative day and time", draw=_relative_day_and_time, weight=0.6),
    ]


def _moment(draw: Draw) -> dt.datetime:
    return dt.datetime.combine(draw.date(), draw.time())


def _time(style: DateStyle, draw: Draw) -> Phrase:
    moment = draw.time()
    return Phrase(lambda locale: dates.format_time(moment, style, locale=locale))


def _clock(skeleton: str, draw: Draw) -> Phrase:
    return _by_skeleton(skeleton, _moment(draw))


def _date_and_time(date_style: DateStyle, draw: Draw) -> Phrase:
    moment = _moment(draw)

    def say(locale: Locale) -> str:
        pattern = _text(dates.get_datetime_format(date_style, locale=locale))
        return _join(
            pattern,
            time=dates.format_time(moment, "short", locale=locale),
            date=dates.format_date(moment, date_style, locale=locale),
        )

    return Phrase(say)


def _relative_day_and_time(draw: Draw) -> Phrase:
    moment, offset = draw.time(), draw.choose((-1, 0, 1))

    def say(locale: Locale) -> str:
        # Babel reads these from the CLDR and offers no function for them.
        data = locale._data
        pattern = data["datetime_formats_relative"].get("long")
        if pattern is None:
            raise Unsayable("relative day")
        day = data["date_fields"]["day"]["relative"][offset]
        return _join(
            _text(pattern), time=dates.format_time(moment, "short", locale=locale), date=day
        )

    return Phrase(say)


def _text(pattern: object) -> str:
    return str(getattr(pattern, "pattern", pattern))


def _join(pattern: str, *, time: str, date: str) -> str:
    """Fill CLDR's "{1} 'at' {0}" with a time and a date; '' stands for an apostrophe."""
    words = "'".join(part.replace("'", "") for part in pattern.split("''"))
    return words.replace("{1}", date).replace("{0}", time)


# -- intervals ---------------------------------------------------------------------------------


def _intervals(target: Locale) -> list[Template]:
    make = partial(Template, kind="interval")
    return [
        make(name="dates", draw=partial(_date_interval, "yMMMd"), weight=2),
        make(name="days", draw=partial(_date_interval, "MMMd"), weight=0.3),
        make(name="months", draw=partial(_date_interval, "yMMMM"), weight=1),
        make(name="years", draw=partial(_date_interval, "y"), weight=0.3),
        make(name="times", draw=partial(_time_interval, _hour_skeleton(target)), weight=1.2),
        make(name="24-hour times", draw=partial(_time_interval, lambda _: "Hm"), weight=0.8),
    ]


def _date_interval(skeleton: str, draw: Draw) -> Phrase:
    start = draw.date()
    end = draw.later(start)
    return _interval(lambda _: skeleton, start, end)


def _time_interval(skeleton: Callable[[Locale], str], draw: Draw) -> Phrase:
    start, end = sorted((draw.time(), draw.time()))
    return _interval(skeleton, start, end)


def _interval(
    skeleton: Callable[[Locale], str], start: dt.date | dt.time, end: dt.date | dt.time
) -> Phrase:
    def say(locale: Locale) -> str:
        if skeleton(locale) not in locale.interval_formats:
            raise Unsayable(skeleton(locale))
        text = dates.format_interval(start, end, skeleton(locale), fuzzy=False, locale=locale)
        if text == dates.format_interval(start, start, skeleton(locale), locale=locale):
            raise Unsayable("no interval at this precision")
        return text

    return Phrase(say)


def _hour_skeleton(target: Locale) -> Callable[[Locale], str]:
    """English says 2:05 PM; the target says it by the clock that its own short time uses."""
    uses_24_hours = "H" in _text(dates.get_time_format("short", locale=target))
    return lambda locale: "Hm" if uses_24_hours and locale.language != ENGLISH.language else "hm"


# -- durations and relative times --------------------------------------------------------------

_PARTS = (
    (("duration-hour", 23), ("duration-minute", 59)),
    (("duration-minute", 59), ("duration-second", 59)),
    (("duration-hour", 23), ("duration-minute", 59), ("duration-second", 59)),
    (("duration-day", 364), ("duration-hour", 23)),
    (("duration-month", 99), ("duration-day", 30)),
    (("duration-year", 999), ("duration-month", 11)),
    (("duration-year", 999), ("duration-month", 11), ("duration-day", 30)),
)
"""The parts of a duration with the most there may be of each."""


_DURATION_WEIGHTS: tuple[tuple[Length, float], ...] = (("long", 1.5), ("short", 0.5))


def _durations() -> list[Template]:
    return [
        Template(
            kind="duration", name=f"duration, {length}", draw=partial(_duration, length), weight=w
        )
        for length, w in _DURATION_WEIGHTS
    ]


def _duration(length: Length, draw: Draw) -> Phrase:
    parts = draw.deal(_PARTS)
    counted = [(unit, draw.small(most)) for unit, most in parts]
    return listed([_counted(unit, number, length) for unit, number in counted], "unit")


def _counted(unit: str, number: Decimal, length: Length) -> Phrase:
    return Phrase(lambda locale: format_unit(number, unit, length, locale=locale), (unit,))


TimeUnit = Literal["second", "minute", "hour", "day", "week", "month", "year"]
_RELATIVE_UNITS: tuple[TimeUnit, ...] = ("second", "minute", "hour", "day", "week", "month", "year")
_FROM_NOW = tuple((unit, sign) for unit in _RELATIVE_UNITS for sign in (1, -1))


def _relative() -> list[Template]:
    return [Template(kind="relative time", name="relative time", draw=_relative_time, weight=2)]


def _relative_time(draw: Draw) -> Phrase:
    # Up to 999, as Babel does not group the digits of these numbers.
    (unit, sign), number = draw.deal_counted(_FROM_NOW, max_digits=3)
    delta = dt.timedelta(seconds=sign * int(number) * _SECONDS[unit])

    def say(locale: Locale) -> str:
        return dates.format_timedelta(
            delta, granularity=unit, threshold=1e9, add_direction=True, locale=locale
        )

    return Phrase(say)

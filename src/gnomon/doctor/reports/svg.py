"""Small pictures as inline SVG; colours are the page's variables, so they follow light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

_LABEL = 190  # width of the column of names
_ROW = 20
_SHOWN = 27  # characters of a name


def heat_map(rows: Sequence[tuple[str, Sequence[float | None]]], *, name: str) -> str:
    """A cell for each value from 0 to 1, one row for each name.

    Args:
        name: what the columns are, "head".
    """
    columns = max(len(values) for _, values in rows)
    cell = max(16, min(34, 420 // max(1, columns)))
    width, height = _LABEL + columns * cell + 4, _ROW * len(rows) + 24
    parts = [
        _text(_LABEL + (place + 0.5) * cell, 14, str(place), anchor="middle")
        for place in range(columns)
    ]
    parts.append(_text(_LABEL - 8, 14, name, anchor="end"))
    for row, (label, values) in enumerate(rows):
        top = 20 + row * _ROW
        parts.append(_text(_LABEL - 8, top + 14, _short(label), anchor="end", title=label))
        for place, value in enumerate(values):
            told = "not seen" if value is None else f"{value:.3f}"
            strength = 0.0 if value is None else min(1.0, max(0.0, value))
            parts.append(
                f'<rect class="cell" x="{_LABEL + place * cell}" y="{top}" width="{cell - 2}" '
                f'height="{_ROW - 2}" style="fill-opacity:{strength:.3f}">'
                f"<title>{escape(label)}, {name} {place}: {told}</title></rect>"
            )
    return _svg(width, height, parts)


def bars(rows: Sequence[tuple[str, float]], *, digits: int = 3) -> str:
    """A bar for each value of 0 or more, with the value behind it."""
    largest = max((value for _, value in rows), default=0.0) or 1.0
    room, parts = 300, []
    for row, (label, value) in enumerate(rows):
        top, size = row * _ROW + 2, room * value / largest
        parts += [
            _text(_LABEL - 8, top + 14, _short(label), anchor="end", title=label),
            f'<rect class="bar" x="{_LABEL}" y="{top + 2}" width="{size:.1f}" height="{_ROW - 6}" '
            'rx="2"/>',
            _text(_LABEL + size + 6, top + 14, f"{value:.{digits}g}"),
        ]
    return _svg(_LABEL + room + 80, _ROW * len(rows) + 6, parts)


def histogram(low: float, high: float, counts: Sequence[int]) -> str:
    """Counts in bins of one width between `low` and `high`; heights go by their square root."""
    width, height, floor = 520, 150, 124
    largest = max(counts, default=0) or 1
    step = width / max(1, len(counts))
    parts = []
    for place, count in enumerate(counts):
        size = (floor - 6) * (count / largest) ** 0.5
        if count:
            size = max(size, 1.5)  # a single far value is what one looks for
        edge = low + (high - low) * place / len(counts)
        parts.append(
            f'<rect class="bar" x="{place * step:.1f}" y="{floor - size:.1f}" '
            f'width="{step - 1:.1f}" height="{size:.1f}"><title>from {edge:.3g}: {count:,}</title>'
            "</rect>"
        )
    parts.append(f'<line class="axis" x1="0" y1="{floor}" x2="{width}" y2="{floor}"/>')
    parts += [
        _text(0, floor + 18, f"{low:.3g}"),
        _text(width / 2, floor + 18, f"{(low + high) / 2:.3g}", anchor="middle"),
        _text(width, floor + 18, f"{high:.3g}", anchor="end"),
    ]
    return _svg(width, height, parts)


def _svg(width: float, height: float, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" role="img">'
        + "".join(parts)
        + "</svg>"
    )


def _text(x: float, y: float, text: str, *, anchor: str = "start", title: str = "") -> str:
    inner = escape(text) + (f"<title>{escape(title)}</title>" if title and title != text else "")
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{inner}</text>'


def _short(name: str) -> str:
    """The end of a dotted name, which tells layers apart."""
    return name if len(name) <= _SHOWN else "…" + name[1 - _SHOWN :]

"""Characters that steer a terminal, a parser or a line break and say nothing: found and mended."""

from __future__ import annotations

# Where one of these stood, other programs break the line or show nothing: a blank keeps the words
# on both sides apart. TAB is a blank already; NUL and "\n" are in no line of a file.
_SEPARATING = (
    *(code for code in range(0x20) if chr(code) != "\t"),
    *range(0x7F, 0xA0),
    *(0x2028, 0x2029),
)
# These stand within or around words and are drawn as nothing. Joiners (U+200C, U+200D) and the
# marks U+200E and U+200F are not among them: Persian, Indic scripts and emoji need the first two,
# careful writers of Arabic and Hebrew the others.
_INVISIBLE = (
    *range(0x202A, 0x202F),
    *range(0x2066, 0x206A),
    0xFEFF,
    *range(0xFFF9, 0xFFFC),
    *(0xFFFE, 0xFFFF),
)
_MENDED: dict[int, str | None] = {
    **dict.fromkeys(_SEPARATING, " "),
    **dict.fromkeys(_INVISIBLE, None),
}


def is_control(character: str) -> bool:
    """Whether `mend_controls` would take the character away."""
    return ord(character) in _MENDED


def mend_controls(text: str) -> str:
    """Return the text as a model reads it: on one line, separating control characters as blanks,
    without invisible ones. "\r\n" is one line break, so one blank."""
    return text if text.isprintable() else text.replace("\r\n", "\n").translate(_MENDED)

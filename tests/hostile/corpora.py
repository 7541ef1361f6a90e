"""Malformed training text, each with what must come of it."""

from __future__ import annotations

import gzip
from dataclasses import dataclass

BEFORE = [(f"the line {i} before", f"die Zeile {i} davor") for i in range(12)]
AFTER = [(f"the line {i} after", f"die Zeile {i} danach") for i in range(12)]
LINE = len(BEFORE) + 1  # where the hostile line stands


@dataclass(frozen=True)
class Hostile:
    """Two files or one TSV; what is said, and which lines are not learned from."""

    source: bytes
    target: bytes | None = None  # None: `source` is a TSV
    code: int = 0
    says: str = ""
    left_out: frozenset[int] = frozenset()


def _file(lines: list[str], end: bytes = b"\n") -> bytes:
    return b"".join(line.encode("utf-8", "surrogatepass") + end for line in lines)


def within(source: str, target: str, says: str = "", *, kept: bool = True) -> Hostile:
    """One hostile pair between ordinary ones, which must stay where they are."""
    pairs = [*BEFORE, (source, target), *AFTER]
    return Hostile(
        _file([s for s, _ in pairs]),
        _file([t for _, t in pairs]),
        says=says,
        left_out=frozenset() if kept else frozenset({LINE}),
    )


def bytes_within(line: bytes, says: str) -> Hostile:
    """A line that is refused, between ordinary ones."""
    ordinary = _file([s for s, _ in BEFORE])
    target = _file([t for _, t in [*BEFORE, ("", "Haus"), *AFTER]])
    return Hostile(
        ordinary + line + b"\n" + _file([s for s, _ in AFTER]), target, code=2, says=says
    )


_SOURCES = [s for s, _ in BEFORE]
_TARGETS = [t for _, t in BEFORE]
_S, _T = _file(_SOURCES), _file(_TARGETS)
_WORDS = "word and word again, "

LEARNED = {
    "BOM on both sides": Hostile(b"\xef\xbb\xbf" + _S, b"\xef\xbb\xbf" + _T),
    "BOM on one side": Hostile(b"\xef\xbb\xbf" + _S, _T),
    "BOM within the text": within("a \ufeffhouse", "ein Haus", "repaired"),
    "CRLF": Hostile(_file(_SOURCES, b"\r\n"), _file(_TARGETS, b"\r\n")),
    "CRLF on one side": Hostile(_file(_SOURCES, b"\r\n"), _T),
    "no newline at the end": Hostile(_S[:-1], _T),
    "lone CR": within("a house\rand a tree", "ein Haus\rund ein Baum", "repaired"),
    "CR CR LF": within("a house\r\r", "ein Haus", "repaired"),
    "U+2028": within(
        "a\u2028house", "ein Haus", f"repaired, control or line-separator characters: lines {LINE}"
    ),
    "U+2029": within("a house", "ein\u2029Haus", "repaired"),
    "U+0085": within("a\x85house", "ein Haus", "repaired"),
    "vertical tab, form feed": within("a\x0bhouse", "ein\x0cHaus", "repaired"),
    "file, group, record, unit separator": within("a\x1c\x1d\x1e\x1fb", "c", "repaired"),
    "escape sequences": within("\x1b[31ma house\x1b[0m", "ein Haus", "repaired"),
    "bell and backspace": within("a\x07 hou\x08se", "ein Haus", "repaired"),
    "right-to-left override": within("a \u202eesuoh", "ein Haus", "repaired"),
    "isolates and embeddings": within("\u2067a\u2069 house", "\u202bein\u202c Haus", "repaired"),
    "empty source": within("", "ein Haus", f"empty side: lines {LINE}", kept=False),
    "empty target": within("a house", "", f"empty side: lines {LINE}", kept=False),
    "both empty": within("", "", f"empty side: lines {LINE}", kept=False),
    "blanks only": within("   ", "ein Haus", "empty side", kept=False),
    "no-break blanks only": within("\u00a0\u3000", "ein Haus", "empty side", kept=False),
    "control characters only": within("\x0b\u2028", "ein Haus", "empty side", kept=False),
    "TABs within two files": within("a\thouse", "ein\tHaus"),
    "blanks around": within("  a house   ", "\u00a0ein Haus "),
    "a word of a megabyte": within("x" * 1_000_000, "ein Haus", "very long", kept=False),
    "a megabyte of words": within(_WORDS * 50_000, "ein Haus", "more than 256", kept=False),
    "many words on both sides": within(_WORDS * 500, _WORDS * 500, "left out", kept=False),
    "ten thousand combining marks": within(
        "a" + "\u0301" * 10_000, "ein Haus", "more than", kept=False
    ),
    "combining mark at the beginning": within("\u0301a house", "ein Haus"),
    "decomposed and composed": within("cafe\u0301", "caf\u00e9"),
    "emoji joined with U+200D": within(
        "a \U0001f469\u200d\U0001f467", "ein \U0001f469\u200d\U0001f467"
    ),
    "flags of tag characters": within("\U0001f3f4\U000e0067\U000e0062\U000e007f", "ein Haus"),
    "zero-width non-joiner": within("می\u200cخواهم", "ich will"),
    "zero-width blank": within("a\u200bhouse", "ein Haus"),
    "soft hyphen": within("a hou\u00adse", "ein Haus"),
    "unassigned code points": within("a \u0378\U000e0fff", "ein Haus"),
    "non-characters": within("a \ufffe\U0001ffff", "ein Haus"),
    "private use": within("a \ue000\U00100000", "ein Haus"),
    "letters beyond 16 bits": within("𐌰𐌱𐌲 𝓪 𠀀", "ein Haus"),
    "replacement character": within("a h\ufffdse", "ein Haus", "damaged encoding"),
    "UTF-8 read as Latin-1": within("houses", "HÃ¤user", "damaged encoding"),
    "names of special symbols": within("</s> <pad> <unk> <s>", "<0x0A> <0xFF>"),
    "the blank of other tokenizers": within("▁a▁house", "▁ein▁Haus"),
    "placeholders and markup": within(
        "{0} %s <b>x</b> &amp; __VAR__", "{0} %s <b>y</b> &amp; __VAR__"
    ),
    "quotes and backslashes": within("\"a\\nb' `c` $d", "\"a\\nb' `c` $d", "both sides the same"),
    "a number of a thousand digits": within("7" * 1000, "ein Haus", "more than 256", kept=False),
    "one word a thousand times": within("no " * 1000, "nein", "a word repeated", kept=False),
    "emoji only": within("\U0001f600\U0001f680", "\U0001f600\U0001f680", "hardly any letters"),
    "sides swapped half way": Hostile(_S + _T, _T + _S),
    "the same file twice": Hostile(_S, _S, says="12 training pairs are kept all the same"),
    "all pairs the same": Hostile(b"a house\n" * 30, b"ein Haus\n" * 30, says="29 training pairs"),
    "numbers only": Hostile(
        _file([f"{i}{i * i}" for i in range(30)]), _file([f"{i * 7}{i}" for i in range(30)])
    ),
    "one character a line": Hostile(b"a\nb\nc\n" * 10, b"x\ny\nz\n" * 10),
    "one pair": Hostile(b"the house the house\n", b"das Haus das Haus\n", says="no validation"),
    "very many characters": Hostile(
        _file(
            [*_SOURCES, *("".join(map(chr, range(i, i + 40))) for i in range(0x4E00, 0x9000, 40))]
        ),
        _file([*_TARGETS, *("Zeichen" for _ in range(0x4E00, 0x9000, 40))]),
    ),
    "thousands of blank lines": Hostile(
        _S + b"\n" * 5000 + _S,
        _T + b"\n" * 5000 + _T,
        says="5,000 training pairs are left out",
        left_out=frozenset(range(13, 5013)),
    ),
    "TSV with CRLF and BOM": Hostile(
        b"\xef\xbb\xbf" + _file([f"{s}\t{t}" for s, t in BEFORE], b"\r\n")
    ),
    "TSV with an empty cell": Hostile(
        _file([f"{s}\t{t}" for s, t in BEFORE]) + b"a house\t\n",
        says="empty side",
        left_out=frozenset({LINE}),
    ),
}
"""Text that can be used: nothing of it is lost or shifted but the lines that are named."""

REFUSED = {
    "empty files": Hostile(b"", b"", code=2, says="must not be empty"),
    "one empty file": Hostile(_S, b"", code=2, says="must not be empty"),
    "nothing but a BOM": Hostile(
        b"\xef\xbb\xbf", b"\xef\xbb\xbf", code=2, says="must not be empty"
    ),
    "nothing but newlines": Hostile(b"\n" * 9, b"\n" * 9, code=2, says="must hold pairs"),
    "nothing but blanks": Hostile(b" \n" * 9, b"\t\n" * 9, code=2, says="must hold pairs"),
    "one side all blank": Hostile(_S, b"\n" * 12, code=2, says="must hold pairs"),
    "nothing but control characters": Hostile(
        b"\x0b\x1f\n" * 9, b"\xc2\x85\n" * 9, code=2, says="must hold pairs"
    ),
    "NUL": bytes_within(b"a\0house", f"line {LINE}"),
    "invalid UTF-8": bytes_within(b"a h\xff\xfeouse", f"line {LINE}"),
    "UTF-8 cut in the middle": bytes_within("a hous\u00e9".encode()[:-1], f"line {LINE}"),
    "overlong UTF-8": bytes_within(b"a\xc0\xafb", f"line {LINE}"),
    "surrogates in UTF-8": bytes_within(b"a\xed\xa0\x80b", f"line {LINE}"),
    "CESU-8": bytes_within(b"\xed\xa0\xbd\xed\xb8\x80", f"line {LINE}"),
    "beyond U+10FFFF": bytes_within(b"\xf4\x90\x80\x80", f"line {LINE}"),
    "Latin-1": bytes_within("ein grünes Haus".encode("latin-1"), "iconv"),
    "Windows-1252": bytes_within("it’s".encode("cp1252"), "iconv"),
    "Shift-JIS": bytes_within("家です".encode("shift-jis"), f"line {LINE}"),
    "a character across a block's border": Hostile(
        b"a" * ((1 << 20) - 1) + b"\xc3\n" + _S, b"x\n" + _T, code=2, says="line 1"
    ),
    "a character cut by the end": Hostile(_S[:-1] + b"\xe2\x82", _T, code=2, says="line 12"),
    "UTF-16 with BOM": Hostile(_S.decode().encode("utf-16"), _T, code=2, says="UTF-16"),
    "UTF-16 big-endian": Hostile(
        b"\xfe\xff" + _S.decode().encode("utf-16-be"), _T, code=2, says="UTF-16"
    ),
    "UTF-16 without BOM": Hostile(_S.decode().encode("utf-16-le"), _T, code=2, says="NUL"),
    "UTF-32": Hostile(_S.decode().encode("utf-32"), _T, code=2),
    "a picture": Hostile(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(256)) * 9, _T, code=2),
    "a zip archive": Hostile(b"PK\x03\x04" + bytes(99), _T, code=2, says="zip"),
    "gzip cut off": Hostile(gzip.compress(_S)[:-20], _T, code=2),
    "gzip of something damaged": Hostile(gzip.compress(_S)[:30] + b"\xff" * 99, _T, code=2),
    "a line more": Hostile(_S + b"one more\n", _T, code=2, says="same number of lines"),
    "a line less": Hostile(_S, _T + b"einer mehr\n", code=2, says="same number of lines"),
    "a line missing in the middle": Hostile(
        _file(_SOURCES[:5] + _SOURCES[6:]), _T, code=2, says="stop matching"
    ),
    "a blank line more at the end": Hostile(_S + b"\n", _T, code=2, says="same number of lines"),
    "TSV without TAB": Hostile(b"a house, ein Haus\n", code=2, says="line 1: 0 TABs"),
    "TSV with two TABs": Hostile(b"a\tb\na\tb\tc\n", code=2, says="line 2: 2 TABs"),
    "TSV with a blank line": Hostile(b"a\tb\n\na\tb\n", code=2, says="line 2: 0 TABs"),
    "TSV of only newlines": Hostile(b"\n\n\n", code=2, says="line 1: 0 TABs"),
    "empty TSV": Hostile(b"", code=2, says="must not be empty"),
}
"""Text that cannot be used: said so, with the place, before anything is trained."""

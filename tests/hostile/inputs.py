"""Hostile text to translate: for each, how many lines must come out and what must be said."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Input:
    """Bytes on standard input; `num_lines` counts "\\n", and a last line without one."""

    text: bytes
    says: str = ""

    @property
    def num_lines(self) -> int:
        """Lines in, and so lines out."""
        if self.text in (b"", b"\xef\xbb\xbf"):
            return 0
        return self.text.count(b"\n") + (not self.text.endswith(b"\n"))


def _line(text: str | bytes, says: str = "") -> Input:
    """One hostile line between two that are known."""
    raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return Input(b"12\n" + raw + b"\n34\n", says)


INPUTS = {
    "nothing": Input(b""),
    "one newline": Input(b"\n"),
    "newlines": Input(b"\n\n\n"),
    "many newlines": Input(b"\n" * 100_000),
    "a BOM": Input(b"\xef\xbb\xbf"),
    "a BOM and a newline": Input(b"\xef\xbb\xbf\n"),
    "a BOM and text": Input(b"\xef\xbb\xbf12\n34\n"),
    "no newline at the end": Input(b"12\n34"),
    "CRLF": Input(b"12\r\n\r\n34\r\n"),
    "lone CR": _line("1\r2\r3"),
    "CR at the ends": _line("\r12\r\r"),
    "U+2028 and U+2029": _line("1\u20282\u20293"),
    "U+2028 alone": _line("\u2028"),
    "U+0085": _line("1\x852"),
    "vertical tab, form feed": _line("1\x0b2\x0c3"),
    "separators of files and records": _line("1\x1c2\x1d3\x1e4\x1f5"),
    "TAB": _line("1\t2\t"),
    "blanks": _line("   "),
    "no-break blanks": _line("\u00a0\u3000\u2009"),
    "blanks around": _line("   12   "),
    "NUL": _line(b"1\x002", "1 NUL characters were replaced, the first in line 2"),
    "invalid UTF-8": _line(b"1\xff\xfe2", "invalid UTF-8 sequences"),
    "a character cut by the end": Input(b"12\n34\xe2\x82", "the first in line 2"),
    "overlong UTF-8": _line(b"\xc0\xaf", "the first in line 2"),
    "surrogates": _line("1\ud8002", "the first in line 2"),
    "Latin-1": _line("é".encode("latin-1"), "the first in line 2"),
    "UTF-16": Input("12\n34\n".encode("utf-16"), "were replaced"),
    "every byte": Input(bytes(range(256)), "were replaced"),
    "escape sequences": _line("\x1b[2J\x1b[31m1\x07"),
    "right-to-left override": _line("\u202e12\u202c"),
    "zero-width": _line("1\u200b2\u200d\ufeff3"),
    "ten thousand combining marks": _line("1" + "\u0301" * 10_000, "length limit"),
    "combining mark at the beginning": _line("\u03011"),
    "emoji joined": _line("\U0001f469\u200d\U0001f467", "far"),
    "unassigned and private": _line("\u0378\ue000\U000e0fff"),
    "non-characters": _line("\ufffe\uffff\U0010ffff"),
    "names of special symbols": _line("<s> </s> <pad> <unk> <0x0A><0x00>"),
    "the blank of other tokenizers": _line("▁1▁2"),
    "placeholders and markup": _line("{0} %s <b>1</b> &amp; __VAR__ {{x}} $1"),
    "options": _line("--help -o out.txt"),
    "markup of the terminal library": _line("[bold]12[/bold] [/]", "[bold]"),
    "quotes": _line("\"'`\\\\ \\n \\x00"),
    "a long word": _line("x" * 20_000),
    "very many words": _line("1 " * 3_000),
    "Chinese": _line("我喜欢喝茶。"),
    "Arabic": _line("أنا أحب الشاي"),
    "letters beyond 16 bits": _line("𐌰𐌱𐌲 𝓪"),
}

"""Evidence as a person would write it, whatever numbers came out: "1 norm gives", "1e9"."""

from __future__ import annotations

import re

_NOUNS = (
    "blocks", "calls", "groups", "heads", "keys", "layers", "lines", "modules", "names", "norms",
    "pairs", "parameters", "places", "positions", "rows", "steps", "tables", "texts", "tokens",
)  # fmt: skip
_KINDS = ("attention", "optimizer", "padded", "post-norm", "trained")
_VERBS = {
    "are": "is", "were": "was", "have": "has", "do": "does", "mix": "mixes", "pass": "passes",
} | {
    verb: f"{verb}s"
    for verb in (
        "add", "ask", "bring", "come", "contribute", "get", "give", "hide", "hold", "keep", "look",
        "make", "read", "see", "share", "stand", "take",
    )
}  # fmt: skip
_ONE = re.compile(
    rf"(?<![\w.,/=×^-])(?<!layer )(?<!head )1 ((?:{'|'.join(_KINDS)}) )?({'|'.join(_NOUNS)})\b"
    rf"(?: ({'|'.join(_VERBS)})\b)?"
)
_ZERO = re.compile(r"\b0\.?0*e\+00\b")
_POWER = re.compile(r"(?<=\d)e(?:\+|(-))0*(\d+)\b")  # 1e+09, 1e-06


def well_worded(text: str) -> str:
    """The text with one thing in the singular and short powers of ten."""
    return _ONE.sub(_singular, _POWER.sub(r"e\1\2", _ZERO.sub("0", text)))


def _singular(found: re.Match[str]) -> str:
    before, noun, verb = found.groups()
    return f"1 {before or ''}{noun[:-1]}" + (f" {_VERBS[verb]}" if verb else "")

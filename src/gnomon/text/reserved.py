"""Ids that are not learned from text, and their names, which no text may spell."""

from __future__ import annotations

SPECIALS = ("<pad>", "<unk>", "<s>", "</s>")
PAD_ID, UNK_ID, BOS_ID, EOS_ID = range(len(SPECIALS))
BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))

RESERVED_NAMES = "pad|unk|s|/s|0x[0-9A-F]{2}"
"""A pattern for what stands between the brackets of all these."""
RESERVED = rf"<(?=(?:{RESERVED_NAMES})>)"
"""A pattern for the "<" at which such a name is torn."""

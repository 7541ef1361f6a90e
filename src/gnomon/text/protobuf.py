"""Reads the wire format of protocol buffers: as much as a SentencePiece model is made of.

Source: https://protobuf.dev/programming-guides/encoding
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

Value = int | bytes  # varints and fixed-width numbers as integers of their bits


def fields_of(message: bytes) -> Iterator[tuple[int, Value]]:
    """Iterate over the (field number, value) pairs of a message.

    Raises:
        ValueError: these bytes are no message.
    """
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        number, kind = tag >> 3, tag & 7
        if kind == 0:
            value, at = _varint(message, at)
            yield number, value
            continue
        if kind == 2:
            length, at = _varint(message, at)
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise ValueError(f"wire type {kind} at byte {at}")
        content = message[at : at + length]
        if len(content) < length:
            raise ValueError(f"{length} bytes are announced at byte {at} and {len(content)} there")
        at += length
        yield number, content if kind == 2 else int.from_bytes(content, "little")


def as_float(value: Value) -> float:
    """The 32-bit float with these bits."""
    assert isinstance(value, int)
    number: float = struct.unpack("<f", value.to_bytes(4, "little"))[0]
    return number


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(message):
            break
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError(f"a number without end at byte {at}")

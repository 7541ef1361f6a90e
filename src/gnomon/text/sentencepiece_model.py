"""Turns a SentencePiece model into a `tokenizer.json` that cuts text in the same way.

The ids become gnomon's: padding, unknown, begin and end first, then the bytes where the model falls
back on them, then the pieces in the model's order. Control symbols are left out, as no text gives
them. What differs, each with a reason:

- Names of special ids in a text ("</s>") are torn at the "<", as everywhere in gnomon.
- A user-defined symbol stands in the vocabulary as one private character, so that nothing merges
  with it and it survives normalization; decoding writes it out again.
- Of two unigram cuts into the same pieces in another order, which score alike, the other one may be
  taken: SentencePiece sums in single precision, so that rounding decides there.
- Text in the middle of a rare sequence of combining marks may be normalized otherwise, as
  `tokenizers` applies the model's character map to whole characters and not to bytes.

Formats: sentencepiece_model.proto. How merges are read out of a BPE model: two pieces merge where
their concatenation is a piece, the one with the highest score first.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers

from gnomon.errors import ModelError
from gnomon.text.protobuf import as_float, fields_of

BLANK = "▁"  # U+2581, SentencePiece's sign for a blank
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED, _BYTE = range(1, 7)
_UNIGRAM, _BPE = 1, 2
_KINDS = {_UNIGRAM: "unigram", _BPE: "BPE", 3: "word", 4: "char"}
_SYMBOLS = 0x10F800  # first of the private characters that stand for user-defined symbols
_MAX_SYMBOLS = 1024


@dataclass
class SentencePiece:
    """What of a SentencePiece model decides how it cuts text; defaults are the format's own."""

    pieces: list[tuple[str, float, int]] = field(default_factory=list)  # text, score, type
    kind: int = _UNIGRAM
    byte_fallback: bool = False
    suffix_blanks: bool = False
    character_map: bytes = b""
    dummy_prefix: bool = True
    remove_extra_blanks: bool = True
    escape_blanks: bool = True


def convert(path: Path, specials: tuple[str, ...], names: tuple[str, ...], torn: str) -> str:
    """Return the text of a `tokenizer.json` that does what the model at `path` does.

    Args:
        path: a SentencePiece `.model` file, BPE or unigram.
        specials: names of the first ids: padding, unknown, begin, end.
        names: names of the 256 bytes.
        torn: what to cut out of text, so that it cannot spell a name.

    Raises:
        ModelError: no such file, no SentencePiece model, or one of a kind that is not supported.
    """
    model = read_sentencepiece(path)
    symbols = _symbols(model, path)
    reserved = (*specials, *(names if model.byte_fallback else ()))
    pieces = _pieces(model, symbols)
    every = Counter((*reserved, *(piece for piece, _ in pieces)))
    if twice := [piece for piece, count in every.items() if count > 1]:
        raise _damaged(path, f"{twice[0]!r} is there twice")
    shell = tokenizers.Tokenizer(models.BPE())
    try:
        shell.normalizer = _normalizer(model, symbols)
    except Exception as error:  # the Rust side raises bare Exception
        raise _damaged(path, error) from error
    split = pre_tokenizers.Split(tokenizers.Regex(torn), behavior="isolated")
    if all(BLANK not in piece[1:] for piece, _ in pieces):
        # No piece reaches into the next word, so words can be cut one by one, and remembered.
        words = pre_tokenizers.Split(BLANK, behavior="merged_with_next")
        shell.pre_tokenizer = pre_tokenizers.Sequence([words, split])
    else:
        shell.pre_tokenizer = split
    shell.decoder = decoders.Sequence(
        [
            decoders.Replace(BLANK, " "),
            *(decoders.Replace(mark, symbol) for symbol, mark in symbols.items()),
            decoders.Replace(specials[1], "\ufffd"),
            decoders.Replace(tokenizers.Regex(r"\A<(?:pad|s|/s)>\z"), ""),
            decoders.ByteFallback(),
            decoders.Fuse(),
            *([decoders.Strip(" ", 1, 0)] if model.dummy_prefix else []),
        ]
    )
    whole = json.loads(shell.to_str())
    whole["model"] = (_bpe if model.kind == _BPE else _unigram)(pieces, reserved, model)
    return json.dumps(whole, ensure_ascii=False, indent=1) + "\n"


def symbols_of(serialized: str) -> dict[str, str]:
    """The user-defined symbol for each private character of a converted model."""
    marks = range(_SYMBOLS, _SYMBOLS + _MAX_SYMBOLS)
    steps = (json.loads(serialized).get("decoder") or {}).get("decoders", ())
    replaced = {
        step["pattern"].get("String", ""): step["content"]
        for step in steps
        if step.get("type") == "Replace"
    }
    return {mark: text for mark, text in replaced.items() if len(mark) == 1 and ord(mark) in marks}


def read_sentencepiece(path: Path) -> SentencePiece:
    """What a `.model` file holds.

    Raises:
        ModelError: no such file, no SentencePiece model, or one of a kind that is not supported.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ModelError("a SentencePiece model must be readable", seen=error) from error
    model = SentencePiece()
    try:
        for number, value in fields_of(content):
            if number == 1 and isinstance(value, bytes):
                model.pieces.append(_piece(value))
            elif number == 2 and isinstance(value, bytes):
                trainer = dict(fields_of(value))
                model.kind = int(trainer.get(3, _UNIGRAM))
                model.byte_fallback = bool(trainer.get(35, 0))
                model.suffix_blanks = bool(trainer.get(24, 0))
            elif number == 3 and isinstance(value, bytes):
                normalizer = dict(fields_of(value))
                model.character_map = bytes(normalizer.get(2, b""))
                model.dummy_prefix = bool(normalizer.get(3, 1))
                model.remove_extra_blanks = bool(normalizer.get(4, 1))
                model.escape_blanks = bool(normalizer.get(5, 1))
    except (ValueError, TypeError, AssertionError) as error:
        raise _damaged(path, error) from error
    _refuse_unsupported(model, path)
    return model


def _damaged(path: Path, what: object) -> ModelError:
    return ModelError(
        "a SentencePiece model must be whole", seen=f"{path}: {what}", mend="copy it anew"
    )


def _piece(message: bytes) -> tuple[str, float, int]:
    values = dict(fields_of(message))
    text = values.get(1, b"")
    if not isinstance(text, bytes):
        raise ValueError("a piece without text")
    return text.decode("utf-8"), as_float(values.get(2, 0)), int(values.get(3, _NORMAL))


def _refuse_unsupported(model: SentencePiece, path: Path) -> None:
    if not model.pieces:
        raise ModelError(
            "a SentencePiece model must hold pieces",
            seen=f"{path} holds none",
            mend="name a .model file that spm_train wrote",
        )
    for broken, what in (
        (model.kind not in (_UNIGRAM, _BPE), f"a {_KINDS.get(model.kind, model.kind)} model"),
        (model.suffix_blanks, "blanks at the end of pieces (treat_whitespace_as_suffix)"),
        (not model.escape_blanks, "blanks that are not escaped"),
    ):
        if broken:
            raise ModelError(
                "a SentencePiece model must be BPE or unigram with blanks before words",
                seen=f"{path} has {what}",
                mend="train it anew with --model_type=bpe or unigram, or let gnomon learn one",
            )


def _symbols(model: SentencePiece, path: Path) -> dict[str, str]:
    """The private character for each user-defined symbol, longest symbols first."""
    found = sorted(
        {piece for piece, _, kind in model.pieces if kind == _USER_DEFINED},
        key=lambda symbol: (-len(symbol), symbol),
    )
    if len(found) > _MAX_SYMBOLS:
        raise ModelError(
            f"a SentencePiece model may have {_MAX_SYMBOLS:,} user-defined symbols",
            seen=f"{path} has {len(found):,}",
        )
    return {symbol: chr(_SYMBOLS + index) for index, symbol in enumerate(found)}


def _pieces(model: SentencePiece, symbols: dict[str, str]) -> list[tuple[str, float]]:
    """Pieces that text can give, with scores, in the model's order."""
    normal = [score for _, score, kind in model.pieces if kind == _NORMAL]
    # Higher than any way around it.
    certain = max(normal, default=0.0) + 1.0
    return [
        (symbols.get(piece, piece), certain if kind == _USER_DEFINED else score)
        for piece, score, kind in model.pieces
        if kind in (_NORMAL, _USER_DEFINED)
    ]


def _normalizer(model: SentencePiece, symbols: dict[str, str]) -> Any:
    steps: list[Any] = []
    if symbols:
        last = chr(_SYMBOLS + len(symbols) - 1)
        steps.append(normalizers.Replace(tokenizers.Regex(f"[{chr(_SYMBOLS)}-{last}]"), "\ufffd"))
        steps += [normalizers.Replace(symbol, mark) for symbol, mark in symbols.items()]
    if model.character_map:
        steps.append(normalizers.Precompiled(model.character_map))
    if model.remove_extra_blanks:
        steps.append(normalizers.Replace(tokenizers.Regex(r"\A +| +\z"), ""))
        steps.append(normalizers.Replace(tokenizers.Regex(" {2,}"), " "))
    if model.dummy_prefix:
        steps.append(normalizers.Prepend(BLANK))
    steps.append(normalizers.Replace(" ", BLANK))
    return normalizers.Sequence(steps)


def _bpe(
    pieces: list[tuple[str, float]], reserved: tuple[str, ...], model: SentencePiece
) -> dict[str, Any]:
    vocab = {piece: index for index, piece in enumerate((*reserved, *(p for p, _ in pieces)))}
    return {
        "type": "BPE",
        "unk_token": reserved[1],
        "fuse_unk": not model.byte_fallback,
        "byte_fallback": model.byte_fallback,
        "vocab": vocab,
        "merges": [list(merge) for merge in merges_of(pieces, vocab)],
    }


def merges_of(pieces: list[tuple[str, float]], vocab: dict[str, int]) -> list[tuple[str, str]]:
    """The merges of a BPE model in the order they are made.

    Args:
        pieces: with their scores.
        vocab: ids, which decide between equal scores.
    """
    known = {piece for piece, _ in pieces}
    merges = []
    for piece, score in pieces:
        for cut in range(1, len(piece)):
            left, right = piece[:cut], piece[cut:]
            if left in known and right in known:
                merges.append((-score, vocab[left], vocab[right], left, right))
    merges.sort()
    return [(left, right) for *_, left, right in merges]


def _unigram(
    pieces: list[tuple[str, float]], reserved: tuple[str, ...], model: SentencePiece
) -> dict[str, Any]:
    return {
        "type": "Unigram",
        "unk_id": 1,
        "byte_fallback": model.byte_fallback,
        "vocab": [(name, 0.0) for name in reserved] + pieces,
    }

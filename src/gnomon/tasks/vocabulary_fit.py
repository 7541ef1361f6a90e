"""Whether a model and a tokenizer that lie together belong together."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gnomon.errors import ModelError
from gnomon.text import AnyTokenizer, PretrainedTokenizer
from gnomon.text.framing import Framing

VOCABULARY = "vocabulary"
"""Key of config.json: fingerprint of the tokenizer that the model was saved with."""


def check_vocabulary(
    folder: Path, tokenizer: Framing | AnyTokenizer, num_rows: int, side: str = ""
) -> None:
    """A model has a row for every id of its tokenizer.

    A tokenizer that gnomon learned has exactly as many ids as its model has rows; others' models
    may have rows that no text uses (T5: 32,128 rows, 32,100 ids).

    Args:
        folder: where they lie.
        tokenizer: gives the ids.
        num_rows: of the model's table.
        side: source or target, where they differ.

    Raises:
        ModelError: they are of two models.
    """
    others = isinstance(tokenizer, PretrainedTokenizer)
    if tokenizer.vocab_size == num_rows or (others and tokenizer.vocab_size < num_rows):
        return
    raise ModelError(
        "a model must have a row for every id of its tokenizer"
        if others
        else "a model and its tokenizer must have the same vocabulary sizes",
        seen=f"{folder}: {side}{' ' if side else ''}{num_rows:,} rows, "
        f"{tokenizer.vocab_size:,} ids",
        mend="keep the files of one model together",
    )


def check_fingerprint(folder: Path, fingerprint: str, config: Mapping[str, Any]) -> None:
    """A model lies beside the tokenizer that it was saved with.

    Another one of as many ids would give results like any other, all of them wrong.

    Args:
        folder: where they lie.
        fingerprint: of the tokenizer that is there.
        config: of the model; without the key `VOCABULARY` nothing is known.

    Raises:
        ModelError: it is another one.
    """
    known = config.get(VOCABULARY)
    if known is not None and known != fingerprint:
        raise ModelError(
            "a model is used with the tokenizer that it was saved with",
            seen=f"{folder}: a tokenizer with fingerprint {fingerprint[:12]}, the model's has "
            f"{str(known)[:12]}",
            mend="keep the files of one model together; where the tokenizer was meant to change, "
            f"remove the key {VOCABULARY!r} from config.json",
        )

"""The vocabulary of a training with one stack: learned from its text, given, or kept."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from gnomon.errors import ModelError
from gnomon.files import atomic_folder, lock_beside
from gnomon.text import Tokenizer, VocabularyConfig
from gnomon.text.framing import Framing, OwnFraming, load_framing

Kind = TypeVar("Kind")


def learned(
    config: VocabularyConfig,
    texts: Iterable[str],
    fingerprint: str,
    cache: Path,
    say: Callable[[str], None],
    tags: Sequence[str] = (),
) -> Framing:
    """The vocabulary of a text, found in `cache` or learned into it; or the one that is given.

    Args:
        config: which.
        texts: to learn from; gone through several times.
        fingerprint: of these texts.
        cache: folder for what is made once and used again.
        say: is told when it is learned.
        tags: names that get an id each.
    """
    if config.model_file is not None:
        return OwnFraming(Tokenizer.load(config.model_file))
    parts = [fingerprint, config.vocabulary_options(), *([list(tags)] if tags else [])]
    place = cache / f"vocabulary-{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]}"
    with lock_beside(place):  # another process may be learning it
        try:
            return load_framing(place)
        except ModelError:  # absent or damaged
            say(f"learning a {config.kind} vocabulary of up to {config.vocab_size:,}")
        found = OwnFraming(Tokenizer.train(texts, config, tags))
        with atomic_folder(place) as folder:
            found.save(folder)
    return found


def kept(checkpoints: Sequence[Path], load: Callable[[Path], Kind]) -> Kind:
    """What `load` gives of the newest checkpoint where it can be read.

    Raises:
        ModelError: of the newest one, where it can be read in none.
    """
    unreadable: ModelError | None = None
    for checkpoint in checkpoints:
        try:
            return load(checkpoint)
        except ModelError as error:
            unreadable = unreadable or error
    assert unreadable is not None, "there is a checkpoint"
    raise unreadable

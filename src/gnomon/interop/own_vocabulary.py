"""A vocabulary that gnomon learned, as others use it: with the special tokens around a text.

Here whoever reads a text puts them there (`OwnFraming`, `Vocabulary`, `SequenceIds`); there the
tokenizer does, so its file says which.
"""

from __future__ import annotations

from pathlib import Path

import tokenizers
from tokenizers import processors

from gnomon.tasks.ids import SequenceIds
from gnomon.text import Tokenizer
from gnomon.text.reserved import BOS_ID, EOS_ID


def write_own(
    tokenizer: Tokenizer, path: Path, task: str, ids: SequenceIds, *, segments: bool
) -> None:
    """Write the `tokenizer.json` of a vocabulary with what stands around a text of this task.

    Args:
        tokenizer: the vocabulary.
        path: the file.
        task: of the model folder.
        ids: around the source of a translator.
        segments: whether a second text is in a segment of its own.
    """
    shell = tokenizers.Tokenizer.from_str(tokenizer.serialized)
    names = {index: str(shell.id_to_token(index)) for index in range(tokenizer.vocab_size)}
    begin, end = names[BOS_ID], names[EOS_ID]
    if task == "language_model":
        single = [begin, "$A"]  # what a text begins with when it is gone on from
        pair = [*single, "$B"]
    elif task == "translation":
        around = [
            [names[index] for index in some] for some in (ids.source_prefix, ids.source_suffix)
        ]
        single = [*around[0], "$A", *around[1]]
        pair = [*around[0], "$A", "$B", *around[1]]
    else:
        second = ":1" if segments else ":0"
        single = [begin, "$A", end]
        pair = [*single, f"$B{second}", f"{end}{second}"]
    used = {name.partition(":")[0] for name in (*single, *pair) if not name.startswith("$")}
    shell.post_processor = processors.TemplateProcessing(
        single=single,
        pair=pair,
        special_tokens=[(name, shell.token_to_id(name)) for name in sorted(used)],
    )
    path.write_text(shell.to_str(pretty=True), encoding="utf-8")

"""Synthetic training pairs from monolingual text, as one call."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gnomon.api.load import load_for, model_folder
from gnomon.tasks import BacktranslationConfig, BacktranslationReport
from gnomon.tasks import backtranslate as run
from gnomon.tasks.backtranslation import Progress, model_identity


def backtranslate(
    model: str | Path,
    mono: str | Path,
    output: str | Path,
    *,
    tags: Sequence[str] = (),
    max_ratio: float = 3.0,
    checkpoint: str = "best",
    device: str = "auto",
    batch_tokens: int = 4096,
    progress: Progress = lambda num_lines: None,
    **search: Any,
) -> BacktranslationReport:
    """Translate target-language text into the source language and write the pairs.

    Killed and called again it goes on where it stopped, and writes the same bytes.

    Args:
        model, checkpoint, device: a model of the reverse direction; see `load`.
        mono: text of the language that is translated *into*, one sentence a line.
        output: the pairs, synthetic source and real target: `.jsonl` or TSV, `.gz` compressed.
        tags: put in front of every line of `mono`, for a model trained with tags.
        max_ratio: pairs with more tokens on one side, by this factor, are dropped.
        progress: told the number of lines done, now and then.
        **search: fields of `SearchConfig` to change, for example `beam=1` or `sample=True`.

    Raises:
        DataError: the text cannot be read, the output is there already, or unfinished work of
            other settings lies beside it.
        ModelError, RunError: see `load`.
    """
    folder = model_folder(model, checkpoint)
    parts = [*sorted(folder.glob("*.safetensors")), *sorted(folder.glob("*.json"))]
    search = {name: value for name, value in search.items() if value is not None}
    return run(
        load_for("translation", folder, device=device),
        Path(mono),
        Path(output),
        BacktranslationConfig(search=search, max_ratio=max_ratio, tags=tuple(tags)),
        identity=model_identity(*parts),
        batch_tokens=batch_tokens,
        progress=progress,
    )

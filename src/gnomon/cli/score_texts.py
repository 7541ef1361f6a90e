"""`gnomon score` for language models: how probable texts are, one line out per line in."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from gnomon.cli.line_flow import line_flow
from gnomon.cli.line_warnings import LineWarnings

if TYPE_CHECKING:
    from gnomon.tasks import LanguageModel, TextScore

CHUNK = 1024  # texts read before they are scored, which sorts them by length
KINDS = {"beyond": "texts are longer than what this model saw at once in training"}


def score_texts(
    model: Path,
    *,
    data: Path | None,
    output: Path | None,
    json_: bool,
    batch_tokens: int,
    checkpoint: str,
    device: str,
    progress: bool | None,
) -> None:
    """Score the lines of a file, or of standard input."""
    from gnomon import api

    found: LanguageModel = api.load_for(
        "language_model", model, checkpoint=checkpoint, device=device
    )
    warnings = LineWarnings(KINDS)
    with line_flow(
        data, output, size=CHUNK, doing="scoring", progress=progress, warnings=warnings
    ) as flow:
        for first, chunk in flow:
            scores = found.score(chunk, batch_tokens=batch_tokens, progress=flow.done)
            for number, result in enumerate(scores, first):
                flow.write(_format(result, json_))
                if result.beyond_training:
                    warnings.add("beyond", f"line {number}: {result.num_tokens:,} tokens")


def _format(result: TextScore, as_json: bool) -> str:
    if as_json:
        return json.dumps(asdict(result), ensure_ascii=False)
    return f"{result.log_prob:.6f}\t{result.num_tokens}\t{result.mean:.6f}\t{result.perplexity:.6f}"

"""`gnomon score` for language models: how probable texts are, one line out per line in."""

from __future__ import annotations

import json
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from gnomon.cli.console import standard_input
from gnomon.cli.destination import destination
from gnomon.cli.line_progress import LineProgress, lines_of
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
    from gnomon.text import read_lines

    found: LanguageModel = api.load_for(
        "language_model", model, checkpoint=checkpoint, device=device
    )
    given = data or standard_input()
    shown = LineProgress(progress, prints=output is None)
    num_lines = lines_of(given) if shown.shown else None
    lines, count, warnings = read_lines(given, errors="replace"), 0, LineWarnings(KINDS)
    with destination(output) as out, shown:
        done = shown.begin("scoring", num_lines)
        while chunk := list(islice(lines, CHUNK)):
            scores = found.score(chunk, batch_tokens=batch_tokens, progress=done)
            for number, result in enumerate(scores, count + 1):
                out.write(_format(result, json_).encode("utf-8", errors="replace") + b"\n")
                if result.beyond_training:
                    warnings.add("beyond", f"line {number}: {result.num_tokens:,} tokens")
            out.flush()
            count += len(chunk)
    warnings.finish(count)


def _format(result: TextScore, as_json: bool) -> str:
    if as_json:
        return json.dumps(asdict(result), ensure_ascii=False)
    return f"{result.log_prob:.6f}\t{result.num_tokens}\t{result.mean:.6f}\t{result.perplexity:.6f}"

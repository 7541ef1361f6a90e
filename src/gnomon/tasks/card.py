"""The card of a model folder: what a person who finds it needs to know, scores included."""

from __future__ import annotations

from pathlib import Path

from gnomon.evaluation import EvaluationReport
from gnomon.files import write_atomically
from gnomon.model import count_parameters
from gnomon.model.io import CARD_FILE, SCORES_HEADING
from gnomon.tasks.translator import Translator


def model_card(translator: Translator) -> str:
    """The card of a new model; `gnomon evaluate` adds its scores."""
    config = translator.model.config
    return (
        "# A translation model trained with gnomon\n\n"
        f"- {count_parameters(translator.model):,} parameters: "
        f"{config.num_encoder_layers}+{config.num_decoder_layers} layers, "
        f"{config.d_model} wide, {config.attention.num_heads} heads\n"
        f"- vocabulary: {translator.tokenizers.target.vocab_size:,} "
        f"{'joint' if translator.tokenizers.joint else 'target'} subwords\n"
        f"{_about_tags(translator)}\n"
        "Use it: `gnomon translate FOLDER < input.txt > output.txt`, or in Python "
        "`gnomon.load('FOLDER').translate([\"…\"])`.\n\n"
        "Limits: it knows only what its training text taught it; lines far from that text are "
        "named when they are translated.\n"
    )


def _about_tags(translator: Translator) -> str:
    if not translator.tokenizers.source.tags:
        return ""
    sets = ", or ".join(f"`{' '.join(some)}`" if some else "none" for some in translator.tag_sets)
    return f"- tags in front of a source (`gnomon translate --tag`): {sets}\n"


def add_scores_to_card(folder: Path, report: EvaluationReport) -> bool:
    """Write the report's scores on the folder's card, in place of older ones of the same text.

    Returns:
        Whether there was a card that could be written; a model is as good without one.
    """
    card = folder / CARD_FILE
    try:
        text = card.read_text(encoding="utf-8")
        write_atomically(card, with_scores(text, report))
    except (OSError, UnicodeDecodeError):
        return False
    return True


def with_scores(card: str, report: EvaluationReport) -> str:
    """The card with a table of the report's scores under the heading "Scores"."""
    before, _, after = card.partition(SCORES_HEADING)
    table, rest = _split_table(after)
    files = " ".join(Path(name).name for name in report.about.get("files", []))
    name = f"{files or 'text'}, {len(report.lines):,} lines, beam {_beam(report)}"
    kept = [row for row in table if not row.startswith(f"| {_cell(name)} |")]
    rows = [
        f"| {_cell(name)} | {score.name} | {score.value:.2f}{_interval(score.interval)} "
        f"| {_cell(score.signature)} |"
        for score in report.scores
    ]
    head = ["| text | score | value (95 % interval) | signature |", "| --- | --- | --- | --- |"]
    lines = "\n".join([*head, *kept, *rows])
    return f"{before.rstrip()}\n{SCORES_HEADING}\n{lines}\n{rest}"


def _split_table(text: str) -> tuple[list[str], str]:
    """The body rows of the table that `text` begins with, and what follows it."""
    lines = text.lstrip("\n").split("\n")
    count = next((i for i, line in enumerate(lines) if not line.startswith("|")), len(lines))
    rest = "\n".join(lines[count:])
    return lines[2:count], f"\n{rest.strip()}\n" if rest.strip() else ""


def _beam(report: EvaluationReport) -> object:
    return report.about.get("search", {}).get("beam", "?")


def _interval(bounds: tuple[float, float] | None) -> str:
    return "" if bounds is None else f" ({bounds[0]:.2f} to {bounds[1]:.2f})"


def _cell(text: str) -> str:
    """Text inside a table: no bar of its own may end the cell."""
    return text.replace("|", "·")

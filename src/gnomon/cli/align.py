"""`gnomon align`: which source word each target word comes from, one line out per pair in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gnomon.cli import options
from gnomon.cli.console import console
from gnomon.cli.line_flow import flow
from gnomon.cli.line_warnings import LineWarnings

if TYPE_CHECKING:
    from gnomon.tasks import Alignment, Translator

CHUNK = 1024  # pairs read before they are aligned, which sorts them by length

KINDS = {
    "unaligned": "pairs are not aligned",
    "beyond": "pairs are longer than any this model was trained on",
}

Link = tuple[int, int]


def align(
    model: options.ModelArgument,
    src: options.SourceOption = None,
    tgt: options.GivenTargetOption = None,
    data: options.DataOption = None,
    source_field: options.SourceFieldOption = None,
    target_field: options.TargetFieldOption = None,
    tag: options.TagOption = None,
    output: options.OutputOption = None,
    soft: Annotated[
        bool, typer.Option("--soft", help="One JSON object a line: units, links and weights.")
    ] = False,
    layer: Annotated[
        int | None, typer.Option(help="Decoder layer, from 1. Default: the last but one.")
    ] = None,
    shift: Annotated[
        bool,
        typer.Option(
            "--shift/--no-shift",
            help="Look at the step that reads a target token, not at the one that predicts it.",
        ),
    ] = False,
    source_units: Annotated[str, typer.Option(help="words or characters.")] = "words",
    target_units: Annotated[str, typer.Option(help="words or characters.")] = "words",
    reverse: Annotated[
        Path | None, typer.Option(help="A model of the other direction, to combine with.")
    ] = None,
    reverse_tag: Annotated[
        list[str] | None,
        typer.Option(help="As --tag, for the --reverse model.", show_default=False),
    ] = None,
    symmetrise: Annotated[
        str | None,
        typer.Option(
            help="With --reverse: grow-diag-final-and (the default), intersection or union."
        ),
    ] = None,
    gold: Annotated[
        Path | None,
        typer.Option(help="Links by hand, i-j sure and ipj possible: prints the error rate."),
    ] = None,
    batch_tokens: options.BatchOption = 4096,
    checkpoint: options.CheckpointOption = "best",
    device: options.DeviceOption = "auto",
    progress: options.ProgressOption = None,
) -> None:
    """Align given pairs word by word, in Pharaoh format: source-target, both counted from 0.

    A pair longer than the model reaches gets a blank line, one longer than any in training is
    aligned all the same; both are named on standard error.
    """
    from gnomon import api
    from gnomon.errors import DataError, excerpt
    from gnomon.tasks import symmetrise as combined

    if reverse is None and (symmetrise is not None or reverse_tag):
        option = "--symmetrise" if symmetrise is not None else "--reverse-tag"
        raise DataError(f"{option} is for two directions", mend="add --reverse MODEL")
    kind = symmetrise or "grow-diag-final-and"
    fields = {"source_field": source_field, "target_field": target_field}
    corpus = api.given_pairs(src, tgt, data, model=model, checkpoint=checkpoint, **fields)
    translator = api.load_for("translation", model, checkpoint=checkpoint, device=device)
    other = None
    if reverse is not None:
        other = api.load_for("translation", reverse, checkpoint=checkpoint, device=device)
    settings: dict[str, Any] = {"layer": layer, "shift": shift, "batch_tokens": batch_tokens}
    units: dict[str, Any] = {
        "source_units": source_units,
        "target_units": target_units,
        "tags": tag or [],
    }
    swapped: dict[str, Any] = {
        "source_units": target_units,
        "target_units": source_units,
        "tags": reverse_tag or [],
    }
    expected = _Gold(gold)
    warnings = LineWarnings(KINDS)
    with flow(
        corpus.pairs(),
        output,
        total=lambda: len(corpus),
        size=CHUNK,
        doing="aligning",
        progress=progress,
        warnings=warnings,
    ) as pairs:
        settings["progress"] = pairs.done if other is None else lambda n: pairs.done(n / 2)
        for _, chunk in pairs:
            sources, targets = [pair.source for pair in chunk], [pair.target for pair in chunk]
            found = translator.align(sources, targets, **settings, **units)
            links: list[Sequence[Link]] = [item.links for item in found]
            if other is not None:
                back = _turned(other, targets, sources, **settings, **swapped)
                both = zip(links, back, strict=True)
                links = [combined(one, two, kind) for one, two in both]  # type: ignore[arg-type]
            for pair, item, line in zip(chunk, found, links, strict=True):
                pairs.write(_format(item, line, soft))
                if item.reason is not None:
                    warnings.add("unaligned", f"line {pair.line} is not aligned: {item.reason}")
                elif item.beyond_training:
                    warnings.add(
                        "beyond",
                        f"line {pair.line} is longer than any this model was trained on; do not "
                        f"trust its alignment: {excerpt(pair.source, 60)}",
                    )
            expected.note(links)
    expected.print_rates()


def _turned(
    translator: Translator, targets: list[str], sources: list[str], **settings: Any
) -> Iterator[list[Link]]:
    """The links that a model of the other direction finds, as (source, target)."""
    for item in translator.align(targets, sources, **settings):
        yield [(source, target) for target, source in item.links]


def _format(found: Alignment, links: Sequence[Link], soft: bool) -> str:
    if not soft:
        return " ".join(f"{source}-{target}" for source, target in links)
    import json
    from dataclasses import asdict

    plain = asdict(found) | {"links": links}
    plain["weights"] = [[round(value, 4) for value in row] for row in found.weights]
    plain["elsewhere"] = [round(value, 4) for value in found.elsewhere]
    return json.dumps(plain, ensure_ascii=False)


class _Gold:
    """The links made by hand, and those that were found for the same lines."""

    def __init__(self, path: Path | None) -> None:
        from gnomon.evaluation import parse_links
        from gnomon.text import read_lines

        self.links = None if path is None else [parse_links(line) for line in read_lines(path)]
        self.found: list[Sequence[Link]] = []

    def note(self, links: Sequence[Sequence[Link]]) -> None:
        if self.links is not None:
            self.found += links

    def print_rates(self) -> None:
        """On standard error: standard output has one line per pair and nothing else."""
        if self.links is None:
            return
        from gnomon.evaluation import alignment_scores

        for score in alignment_scores(self.found, self.links):
            console().print(f"{score.name} {score.value:.1f}  ({score.signature})", highlight=False)

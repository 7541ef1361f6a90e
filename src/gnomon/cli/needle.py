"""`gnomon needle`: whether a language model finds what was said far before."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gnomon.cli import options
from gnomon.cli.console import print_line, say
from gnomon.cli.line_progress import LineProgress

if TYPE_CHECKING:
    from gnomon.evaluation.retrieval import RetrievalReport


def needle(
    model: Annotated[
        Path | None,
        typer.Argument(help="A run (its best checkpoint), a checkpoint or a model folder."),
    ] = None,
    length: Annotated[
        list[int] | None,
        typer.Option(
            min=2,
            help="Tokens in view. May be given again. Default: half of training's to eight times.",
            show_default=False,
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Text to stand around the pairs. Default: made-up words."),
    ] = None,
    documents: Annotated[
        int, typer.Option(min=1, help="For each length and distance; with --write in all.")
    ] = 16,
    pairs: Annotated[int, typer.Option(help="Pairs of name and value a document states.")] = 4,
    write: Annotated[
        Path | None,
        typer.Option(help="Instead of asking a model: write text here to learn the task from."),
    ] = None,
    words: Annotated[
        int | None, typer.Option(help="Of --write: words a document. Default: 1000.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Which documents.")] = 1,
    picture: Annotated[
        Path | None, typer.Option(help="Draw lengths and distances (.png, .svg, .pdf).")
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="The whole report.")] = False,
    checkpoint: options.CheckpointOption = "best",
    device: options.DeviceOption = "auto",
    progress: options.ProgressOption = None,
) -> None:
    """State pairs of words in a document, and ask for one of them far behind.

    How often the model answers right is told by the document's length and by how far before the
    question the answer stands, beside a control in which the document says otherwise.
    """
    from gnomon import api
    from gnomon.cli.plot import check_picture, plot_retrieval

    if write is not None:
        given = {"a model": model, "--length": length, "--data": data, "--picture": picture}
        options.refuse_beside("--write", given | {"--json": json_}, "no model is asked")
        api.write_needles(
            write, num_documents=documents, num_words=words or 1000, num_pairs=pairs, seed=seed
        )
        print_line(str(write))
        return
    options.refuse_beside("no --write", {"--words": words}, "the size of documents is their tokens")
    check_picture(picture)
    with LineProgress(progress, prints=False) as shown:
        report = api.find_needles(
            _needed(model),
            lengths=length or (),
            data=data,
            num_documents=documents,
            num_pairs=pairs,
            seed=seed,
            checkpoint=checkpoint,
            device=device,
            progress=shown.begin,
        )
    if picture is not None:
        plot_retrieval(report, picture)
    if json_:
        print_line(report.to_json().rstrip("\n"))
        return
    say(f"model: {report.about['model']}")
    _show(report)


def _show(report: RetrievalReport) -> None:
    from gnomon.cli.report import Sheet, print_sheets

    trained = report.about["trained_with"]
    sheet = Sheet(
        f"{report.about['num_pairs']} pairs a document"
        + (f" (trained with {trained:,} tokens in view)" if trained else ""),
        ("tokens in view", "distance", "documents", "found", "control", "told apart", "gain"),
        [
            (
                f"{row.length:,}",
                f"{row.distance:,}",
                f"{row.documents:,}",
                f"{row.found:.3f}",
                f"{row.control:.3f}",
                f"{row.told_apart:.3f}",
                f"{row.gain:+.3f}",
            )
            for row in report.rows
        ],
    )
    print_sheets([sheet])


def _needed(model: Path | None) -> Path:
    from gnomon.errors import DataError

    if model is None:
        raise DataError(
            "there must be a model to ask",
            mend="name one, or write text to train one on with --write FILE",
        )
    return model

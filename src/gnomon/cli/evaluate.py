"""`gnomon evaluate`: scores with their signatures and intervals, stored with the run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gnomon.cli import options
from gnomon.cli.console import print_line
from gnomon.cli.line_progress import LineProgress

if TYPE_CHECKING:
    from gnomon.evaluation import EvaluationReport


def evaluate(
    model: Annotated[
        Path | None,
        typer.Argument(
            help="A run (its best checkpoint), a checkpoint or a model folder; none with --hyp."
        ),
    ] = None,
    src: options.SourceOption = None,
    ref: options.ReferenceOption = None,
    data: options.ReferenceDataOption = None,
    source_field: options.SourceFieldOption = None,
    target_field: options.TargetFieldOption = None,
    hyp: Annotated[
        Path | None, typer.Option("--hyp", help="Score this file of translations, no model.")
    ] = None,
    against: Annotated[
        list[Path] | None,
        typer.Option(
            help="Another model or file of translations: is the difference significant? "
            "May be given again."
        ),
    ] = None,
    metrics: Annotated[
        str | None, typer.Option(help="bleu, chrf, ter, exact_match, rouge; joined by commas.")
    ] = None,
    tokenize: Annotated[
        str | None, typer.Option(help="How BLEU splits words: auto, 13a, intl, zh, char, none …")
    ] = None,
    language: Annotated[
        str | None, typer.Option(help="The target language's code, for --tokenize auto.")
    ] = None,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Ignore case.")] = False,
    stem: Annotated[
        bool, typer.Option("--stem", help="ROUGE compares English words without their endings.")
    ] = False,
    text: Annotated[
        str | None,
        typer.Option(help="Column of the text in --data.", rich_help_panel="Classifiers"),
    ] = None,
    pair: Annotated[
        str | None, typer.Option(help="… of the second text.", rich_help_panel="Classifiers")
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="… of the label.", rich_help_panel="Classifiers")
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            help="Of several labels: those at least so probable.", rich_help_panel="Classifiers"
        ),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(
            help="Draw which label was taken for which (.png, .svg, .pdf).",
            rich_help_panel="Classifiers",
        ),
    ] = None,
    by_position: Annotated[
        bool,
        typer.Option(
            "--by-position",
            help="Perplexity by how many tokens are in view.",
            rich_help_panel="Language models",
        ),
    ] = False,
    length: Annotated[
        int | None,
        typer.Option(
            min=2,
            help="Tokens in view. Default: as in training.",
            rich_help_panel="Language models",
        ),
    ] = None,
    stride: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="From one window to the next. Default: --length.",
            rich_help_panel="Language models",
        ),
    ] = None,
    ngrams: Annotated[
        int,
        typer.Option(
            min=0,
            help="Beside n-grams of up to so many tokens, counted in the run's training text.",
            rich_help_panel="Language models",
        ),
    ] = 0,
    documents: Annotated[
        str | None,
        typer.Option(
            help="What in a plain text is one: lines, paragraphs or files. Default: as in the run.",
            rich_help_panel="Language models",
        ),
    ] = None,
    by_length: Annotated[
        bool, typer.Option("--by-length", help="Scores by source length.")
    ] = False,
    worst: Annotated[int, typer.Option(min=0, help="Show so many of the worst sentences.")] = 0,
    robustness: Annotated[
        bool,
        typer.Option(
            "--robustness",
            help="Also with the sources in capitals, without punctuation, with typos …",
        ),
    ] = False,
    tag: options.TagOption = None,
    beam: options.BeamOption = None,
    with_: options.WithOption = None,
    combine: options.CombineOption = "mean",
    json_: Annotated[
        bool, typer.Option("--json", help="The whole report: scores, signatures and every line.")
    ] = False,
    batch_tokens: options.BatchOption = 4096,
    checkpoint: options.CheckpointOption = "best",
    device: options.DeviceOption = "auto",
    progress: options.ProgressOption = None,
) -> None:
    """Score a model; without files on a run's own test text, or else its validation text.

    --tag puts tags in front of your sources; on a run's own text it picks the pairs that have them.
    """
    from gnomon import api
    from gnomon.cli import report as show

    chosen = None if metrics is None else tuple(metrics.replace(",", " ").split())
    of_translators: dict[str, object] = {
        "--src": src,
        "--ref": ref,
        "--source-field": source_field,
        "--target-field": target_field,
        "--tokenize": tokenize,
        "--language": language,
        "--lowercase": lowercase,
        "--stem": stem,
        "--by-length": by_length,
        "--robustness": robustness,
        "--tag": tag,
        "--beam": beam,
        "--with": with_,
    }
    for_labels: dict[str, object] = {
        "--text": text,
        "--pair": pair,
        "--label": label,
        "--threshold": threshold,
        "--picture": picture,
    }
    for_language: dict[str, object] = {
        "--by-position": by_position,
        "--length": length,
        "--stride": stride,
        "--ngrams": ngrams or None,
        "--documents": documents,
    }
    if model is not None and hyp is None and api.is_of(model, "classification", checkpoint):
        options.refuse_beside(
            "a classifier",
            of_translators | for_language,
            "labels are judged otherwise than translations",
        )
        if data is None:
            columns = {"--text": text, "--pair": pair, "--label": label}
            options.refuse_beside("no --data", columns, "columns are those of --data")
        from gnomon.cli.evaluate_labels import evaluate_labels

        evaluate_labels(
            model,
            data=data,
            columns={"text": text, "pair": pair, "label": label},
            against=against or [],
            settings={"metrics": chosen, "threshold": threshold},
            worst=worst,
            picture=picture,
            json_=json_,
            batch_tokens=batch_tokens,
            checkpoint=checkpoint,
            device=device,
            progress=progress,
        )
        return
    if model is not None and hyp is None and api.is_of(model, "language_model", checkpoint):
        del for_labels["--text"], for_labels["--picture"]
        options.refuse_beside(
            "a language model",
            of_translators | for_labels | {"--metrics": metrics, "--worst": worst or None},
            "a language model is judged by its loss",
        )
        from gnomon.cli.evaluate_language import evaluate_language

        evaluate_language(
            model,
            data=data,
            documents=documents,
            field=text,
            length=length,
            stride=stride,
            against=against or [],
            ngrams=ngrams,
            by_position=by_position,
            picture=picture,
            json_=json_,
            batch_tokens=batch_tokens,
            checkpoint=checkpoint,
            device=device,
            progress=progress,
        )
        return
    options.refuse_beside("this model", for_language, "these options are for language models")
    options.refuse_beside("a translator", for_labels, "these options are for classifiers")
    settings: dict[str, Any] = {
        "metrics": chosen,
        "tokenize": tokenize,
        "language": language,
        "lowercase": lowercase or None,
        "stem": stem or None,
    }
    if hyp is not None:
        options.refuse_beside(
            "--hyp",
            {
                "a model": model,
                "--data": data,
                "--source-field": source_field,
                "--target-field": target_field,
                "--robustness": robustness,
                "--tag": tag,
                "--beam": beam,
                "--with": with_,
            },
            "a finished file is scored, so no model translates",
        )
        report = api.evaluate_files(
            hyp, _needed(ref), source=src, against=against or [], settings=settings
        )
    else:
        with LineProgress(progress, prints=False) as shown:
            report = api.evaluate(
                _model(model),
                source=src,
                reference=ref,
                data=data,
                source_field=source_field,
                target_field=target_field,
                checkpoint=checkpoint,
                device=device,
                against=against or [],
                with_robustness=robustness,
                settings=settings,
                tags=tag or [],
                beam=beam,
                ensemble=with_ or (),
                combination=combine,
                batch_tokens=batch_tokens,
                progress=shown.begin,
            )
    if json_:
        print_line(report.to_json().rstrip("\n"))
        return
    sheets = show.comparison_sheets(report)
    if by_length:
        sheets.append(show.by_length_sheet(report))
    if worst:
        sheets.append(show.worst_sheet(report, worst))
    if robustness:
        sheets.append(show.robustness_sheet(report))
    show.tell(report, _text_of(report), sheets)


_SPLITS = {"test": "the run's test text", "valid": "the run's validation text"}


def _text_of(report: EvaluationReport) -> str:
    """What was translated: a score on text that chose the checkpoint is not one on a test set."""
    about = report.about
    files = ", ".join(Path(file).name for file in about["files"])
    split = _SPLITS.get(about.get("split", "given"))
    return f"{len(report.lines):,} lines of " + (f"{split} ({files})" if split else files)


def _model(model: Path | None) -> Path:
    from gnomon.errors import DataError

    if model is None:
        raise DataError(
            "there must be something to score",
            mend="name a model, or a file of translations with --hyp FILE --ref FILE",
        )
    return model


def _needed(ref: Path | None) -> Path:
    from gnomon.errors import DataError

    if ref is None:
        raise DataError(
            "translations are scored against reference translations", mend="give --ref FILE"
        )
    return ref

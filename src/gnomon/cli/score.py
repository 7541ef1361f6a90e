"""`gnomon score`: how probable a model finds translations or texts, one line out per line in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from gnomon.cli import options
from gnomon.cli.line_flow import flow
from gnomon.cli.line_warnings import LineWarnings

if TYPE_CHECKING:
    from gnomon.tasks import PairScore

CHUNK = 1024  # pairs read before they are scored, which sorts them by length

KINDS = {
    "unscored": "pairs have no score",
    "beyond": "pairs are longer than any this model was trained on",
}


def score(
    model: options.ModelArgument,
    src: options.SourceOption = None,
    ref: options.ReferenceOption = None,
    data: options.ReferenceDataOption = None,
    source_field: options.SourceFieldOption = None,
    target_field: options.TargetFieldOption = None,
    tag: options.TagOption = None,
    output: options.OutputOption = None,
    json_: Annotated[
        bool, typer.Option("--json", help="One JSON object a line, with every token's probability.")
    ] = False,
    batch_tokens: options.BatchOption = 4096,
    checkpoint: options.CheckpointOption = "best",
    device: options.DeviceOption = "auto",
    progress: options.ProgressOption = None,
) -> None:
    """Score given translations: log-probability, tokens, their mean, perplexity; TABs between.

    With a language model, the lines of a text file (--data, or standard input).

    A pair that has no probability (it is longer than the model reaches, or the source alone is
    blank) gets "nan" (null with --json, and the reason) and is named on standard error. So is one
    that is longer than any in training: it has a score ("beyond_training": true with --json).
    """
    from gnomon import api
    from gnomon.errors import excerpt

    if api.is_of(model, "language_model", checkpoint):
        from gnomon.cli.score_texts import score_texts

        options.refuse_beside(
            "a language model",
            {
                "--src": src,
                "--ref": ref,
                "--source-field": source_field,
                "--target-field": target_field,
                "--tag": tag,
            },
            "a language model scores texts by themselves",
        )
        score_texts(
            model,
            data=data,
            output=output,
            json_=json_,
            batch_tokens=batch_tokens,
            checkpoint=checkpoint,
            device=device,
            progress=progress,
        )
        return
    api.check_task("translation", model, checkpoint=checkpoint)
    fields = {"source_field": source_field, "target_field": target_field}
    corpus = api.given_pairs(src, ref, data, model=model, checkpoint=checkpoint, **fields)
    translator = api.load_for("translation", model, checkpoint=checkpoint, device=device)
    warnings = LineWarnings(KINDS)
    with flow(
        corpus.pairs(),
        output,
        total=lambda: len(corpus),
        size=CHUNK,
        doing="scoring",
        progress=progress,
        warnings=warnings,
    ) as pairs:
        for _, chunk in pairs:
            scores = translator.score(
                [pair.source for pair in chunk],
                [pair.target for pair in chunk],
                tags=tag or [],
                batch_tokens=batch_tokens,
                progress=pairs.done,
            )
            for pair, result in zip(chunk, scores, strict=True):
                pairs.write(_format(result, json_))
                if result.reason is not None:
                    text = f"line {pair.line} has no score: {result.reason}"
                    warnings.add("unscored", text)
                elif result.beyond_training:
                    warnings.add(
                        "beyond",
                        f"line {pair.line} is longer than any this model was trained on; do not "
                        f"trust its score: {excerpt(pair.source, 60)}",
                    )


def _format(result: PairScore, as_json: bool) -> str:
    if as_json:
        import json
        from dataclasses import asdict

        return json.dumps(asdict(result), ensure_ascii=False)
    values = (result.log_prob, result.mean, result.perplexity)
    log_prob, mean, perplexity = ("nan" if value is None else f"{value:.6f}" for value in values)
    return f"{log_prob}\t{result.num_tokens}\t{mean}\t{perplexity}"

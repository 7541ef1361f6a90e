"""Prints what a training will cost and what fits: tables for a person, or JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING

from rich.table import Table

from gnomon.cli.console import console, print_line, say

if TYPE_CHECKING:
    from gnomon.api.fit import Fit, Trial
    from gnomon.training.forecast import Forecast, Kept

_UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def print_forecast(forecast: Forecast, *, as_json: bool) -> None:
    """Tables on standard error, or one JSON object on standard output."""
    if as_json:
        more = ("seconds_per_step", "seconds", "utilisation")
        values = asdict(forecast) | {name: getattr(forecast, name) for name in more}
        print_line(json.dumps(values))
        return
    for table in (_operations(forecast), _activations(forecast)):
        console().print(table)
    for line in _lines(forecast):
        say(line)


def print_fit(found: Fit, *, as_json: bool) -> None:
    """The trials as a table and what to set, on standard error; or all as JSON."""
    if as_json:
        print_line(json.dumps(asdict(found)))
        return
    table = Table(title=f"{_bytes(found.limit)} may be filled", title_justify="left")
    for name in ("training.tokens_per_batch", "longest texts", "activations", "peak", "fits"):
        table.add_column(name, justify="right")
    for trial in found.trials:
        texts = "" if trial.rows is None else f"{trial.rows:,} of {_length(trial)}"
        sizes = ["–" if size is None else _bytes(size) for size in (trial.activations, trial.peak)]
        fits = "yes" if trial.fits else "no"
        table.add_row(f"{trial.tokens_per_batch:,}", texts, *sizes, fits)
    console().print(table)
    say(f"a step of {found.tokens_per_step:,} tokens fits with")
    say(
        f"  --set training.tokens_per_batch={found.tokens_per_batch} "
        f"--set training.accumulate={found.accumulate}"
    )


def _length(texts: Kept | Trial) -> str:
    source = f"{texts.source_length:,}"
    return source if texts.target_length is None else f"{source} + {texts.target_length:,}"


def _operations(forecast: Forecast) -> Table:
    """By part; a token is one of either side, padding not counted."""
    table = Table(title="FLOPs a token", title_justify="left")
    table.add_column("part")
    for name in ("forward", "backward", "share"):
        table.add_column(name, justify="right")
    operations, tokens = forecast.operations, forecast.real_tokens
    for part, forward in operations.forward.items():
        backward = operations.backward[part]
        share = (forward + backward) / operations.total
        table.add_row(part, _si(forward / tokens), _si(backward / tokens), f"{share:.0%}")
    both = sum(operations.forward.values()), sum(operations.backward.values())
    table.add_row("all", *(_si(count / tokens) for count in both), "", style="bold")
    return table


def _activations(forecast: Forecast) -> Table:
    budgets = list(forecast.kept[0].by_budget)
    title = "activations by length of the texts and training.tokens_per_batch"
    table = Table(title=title, title_justify="left")
    table.add_column("tokens")
    for budget in budgets:
        table.add_column(f"{budget:,}", justify="right")
    for kept in forecast.kept:
        table.add_row(_length(kept), *(_bytes(size) for _, size in kept.by_budget.values()))
    return table


def _lines(forecast: Forecast) -> Iterator[str]:
    parameters, states = forecast.parameters, forecast.states
    frozen = parameters.total - parameters.trainable
    yield (
        f"parameters: {parameters.total:,}, {parameters.total - parameters.embeddings:,} without "
        f"embeddings" + (f", {frozen:,} of them frozen" if frozen else "")
    )
    padding = 1 - forecast.real_tokens / forecast.padded_tokens
    yield (
        f"a step: {forecast.real_tokens:,.0f} tokens (padding {padding:.1%} of the batch), "
        f"{_si(forecast.operations.total)} FLOPs"
    )
    moved = ", ".join(f"{name} {_bytes(count)}" for name, count in forecast.moved.items())
    yield f"moved in a step, at the least: {moved}"
    average = f", their average {_bytes(states.average)}" if states.average else ""
    yield (
        f"memory beside activations: weights {_bytes(states.weights)}, gradients "
        f"{_bytes(states.gradients)}, optimizer {_bytes(states.optimizer)}{average}"
    )
    if forecast.layers_chosen is not None:
        yield forecast.layers_chosen
    yield f"precision: {forecast.precision}"
    cut = "" if forecast.timed_share > 0.99 else f", {forecast.timed_share:.0%} of their rows"
    yield (
        f"time: {forecast.seconds_per_step:.3g} s a step (from {forecast.num_timed} batches{cut}), "
        f"MFU {forecast.utilisation:.0%} of {_si(forecast.ceiling)} FLOP/s, padding counted"
    )
    whole = timedelta(seconds=round(forecast.num_steps * forecast.seconds_per_step))
    most = forecast.most_seconds
    end = "" if most is None else f"; training.max_minutes ends it after {timedelta(seconds=most)}"
    yield (
        f"      {whole} for {forecast.num_steps:,} steps, validations and checkpoints not counted"
        f"{end}"
    )


def _si(count: float) -> str:
    for size, unit in _UNITS:
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.3g} "


def _bytes(count: float) -> str:
    return f"{_si(count)}B"

"""Penalties, rules and filters of the search."""

from __future__ import annotations

from benchmarks.worth.measure import Table, plain

from gnomon.tasks import Translator

SEARCHES = [
    {"length_penalty": "none"},
    {"alpha": 1.0},
    {"alpha": 1.5},
    {"length_penalty": "average"},
    {"beam": 1},
    {"beam": 2},
    {"beam": 10},
    {"coverage_penalty": 0.05},
    {"coverage_penalty": 0.2},
    {"coverage_penalty": 0.5},
    {"repetition_penalty": 1.1},
    {"repetition_penalty": 1.5},
    {"no_repeat_ngram": 2},
    {"no_repeat_ngram": 3},
    {"min_length": 8},
    {"min_length": 12},
]
SAMPLES = [
    {},
    {"temperature": 0.7},
    {"temperature": 0.3},
    {"top_k": 10},
    {"top_p": 0.9},
    {"top_p": 0.5},
    {"min_p": 0.1},
    {"min_p": 0.5},
]


def searches(translator: Translator, table: Table) -> None:
    table.begin("search")
    own = translator.search
    table.row(f"as the run: beam {own.beam}, alpha {own.alpha}", plain(translator))
    for setting in SEARCHES:
        table.row(named(setting), plain(translator, **setting))


def samples(translator: Translator, table: Table, num_seeds: int) -> None:
    table.begin(f"sampling, mean of {num_seeds} seeds")
    table.row("greedy", plain(translator, beam=1))
    for setting in SAMPLES:
        ways = [plain(translator, sample=True, seed=seed, **setting) for seed in range(num_seeds)]
        table.row(named(setting) or "whole distribution", *ways)


def named(setting: dict[str, object]) -> str:
    return ", ".join(f"{key} {value}" for key, value in setting.items())

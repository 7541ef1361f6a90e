"""The rules of the [optimizer] table beside one another, each at the best of several rates.

    python -m benchmarks.optimizers --recipe tiny --steps 400 --seeds 1
    python -m benchmarks.optimizers --train train.en train.de --valid val.en val.de

Rates are tried with the first seed; the table then has each rule at its best one, over all seeds:
validation loss after the last step, CPU time of the median step and bytes of state beside AdamW's.
"""

from __future__ import annotations

import argparse

from benchmarks.short_runs import add_arguments, losses, show

RATES = {
    "adamw": (1e-3, 2e-3, 4e-3, 8e-3),
    "adafactor": (5e-3, 1e-2, 2e-2, 4e-2),
    "muon": (1e-3, 2e-3, 4e-3, 8e-3),
    "schedule_free": (2e-3, 4e-3, 8e-3, 16e-3),
    "lion": (1e-4, 2e-4, 4e-4, 8e-4),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_arguments(parser, steps=1000)
    parser.add_argument("--only", nargs="+", default=list(RATES), choices=list(RATES))
    given = parser.parse_args()
    seeds, given.seeds = given.seeds, given.seeds[:1]
    tried = {
        name: losses({f"{name} {r:g}": overrides(name, r, given.steps) for r in RATES[name]}, given)
        for name in given.only
    }
    best: dict[str, list[str]] = {}
    for name, found in tried.items():
        rated = {variant: results[0]["nll"] for variant, results in found.items()}
        print(f"# {name}:", ", ".join(f"{v.split()[1]} {nll:.4f}" for v, nll in rated.items()))
        chosen = min(rated, key=lambda variant: rated[variant])
        best[chosen] = overrides(name, float(chosen.split()[1]), given.steps)
    given.seeds = seeds
    show(losses(best, given), "rule and rate")


def overrides(name: str, rate: float, steps: int) -> list[str]:
    """A warm-up of a tenth, then a cosine to 0; Schedule-Free stays at its rate."""
    return [
        f"optimizer.name={name}",
        f"schedule.kind={'constant' if name == 'schedule_free' else 'cosine'}",
        f"schedule.peak={rate}",
        f"schedule.warmup_steps={max(1, steps // 10)}",
    ]


if __name__ == "__main__":
    main()

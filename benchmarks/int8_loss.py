"""What activations in 8 bits cost in validation loss: the small size, several seeds.

    python -m benchmarks.int8_loss --train train.en train.de --valid val.en val.de
    python -m benchmarks.int8_loss --steps 1000          # on the quickstart's phrases

Each seed is trained as it is and with `memory.activations = "int8"`; the change is of the
validation loss after the last step, seed by seed.
"""

from __future__ import annotations

import argparse

from benchmarks.short_runs import add_arguments, losses, show


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_arguments(parser, steps=1000)
    variants = {"kept": [], "int8": ['memory.activations="int8"']}
    show(losses(variants, parser.parse_args()), "activations")


if __name__ == "__main__":
    main()

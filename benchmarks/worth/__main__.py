"""What decoding options are worth: BLEU of one trained run with each of them, row by row.

    python -m benchmarks.worth runs/mine --text val.en val.de --text test.en test.de

Groups: search (length and coverage penalty, beam, repetition, shortest output), sampling, averages,
ensemble, terms, long, align (links of a
glossary; of --align FILES, links by hand). Choose on the first text, believe the second.
`python -m benchmarks.worth.training` measures training options.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from benchmarks.worth.links import alignments, glossary_links
from benchmarks.worth.long_text import long_texts
from benchmarks.worth.measure import Table, Text
from benchmarks.worth.search import samples, searches
from benchmarks.worth.terms import terms
from benchmarks.worth.weights import averages, ensembles

import gnomon

GROUPS = ("search", "sampling", "averages", "ensemble", "terms", "long", "align")


def main() -> None:
    options = parse_arguments()
    torch.set_num_threads(options.threads)
    translator = gnomon.load(options.run, checkpoint=options.checkpoint)
    texts = [Text.read(source, target, options.limit) for source, target in options.text]
    table = Table(texts, options.tokenize)
    print(f"# {options.run}, {options.checkpoint}; BLEU {table.measure.signature()}")
    for group in options.groups:
        if group == "search":
            searches(translator, table)
        elif group == "sampling":
            samples(translator, table, options.seeds)
        elif group == "averages":
            averages(options.run, table)
        elif group == "ensemble":
            ensembles(options.run, options.with_models, table)
        elif group == "terms":
            terms(translator, table)
        elif group == "long":
            long_texts(translator, table, options.tokenize)
        else:
            glossary_links(translator, texts)
            if options.align:
                alignments(translator, *options.align)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.worth",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("run", type=Path, help="a run with its checkpoints")
    parser.add_argument("--checkpoint", default="best", help="best, averaged, last or step-N")
    parser.add_argument("--text", nargs=2, action="append", required=True, metavar=("SRC", "REF"))
    parser.add_argument("--groups", nargs="+", choices=GROUPS, default=GROUPS)
    parser.add_argument("--tokenize", default="auto", help="sacreBLEU's name; none for tokens")
    parser.add_argument("--limit", type=int, help="only so many lines of each text")
    parser.add_argument("--seeds", type=int, default=3, help="of sampling")
    parser.add_argument(
        "--with", dest="with_models", type=Path, action="append", default=[], metavar="MODEL"
    )
    parser.add_argument("--align", nargs=3, metavar=("SRC", "TGT", "GOLD"))
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    main()

"""The training texts of the experiments, made from one corpus (and, for domains, a second one)."""

from __future__ import annotations

import random
from pathlib import Path

from gnomon.text import ParallelCorpus

Pairs = list[tuple[str, str]]
SHARE = 0.1  # of each kind of damage


def read_pairs(source: Path, target: Path, count: int) -> Pairs:
    pairs = ParallelCorpus("train", source=source, target=target).pairs()
    found = [
        (" ".join(pair.source.split()), " ".join(pair.target.split()))  # a TAB parts the columns
        for pair, _ in zip(pairs, range(count), strict=False)
    ]
    return [(one, other) for one, other in found if one and other]


def write_texts(folder: Path, pairs: Pairs, others: Pairs) -> None:
    """All, half, its reverse, the rest's targets (`mono`), a damaged one, another domain."""
    half = len(pairs) // 2
    texts = {
        "all": pairs,
        "half": pairs[:half],
        "reverse": [(target, source) for source, target in pairs[:half]],
        "dirty": damaged(pairs),
        "other": others[:half],
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, found in texts.items():
        lines = (f"{source}\t{target}\n" for source, target in found)
        (folder / f"{name}.tsv").write_text("".join(lines), "utf-8")
    (folder / "mono.txt").write_text("".join(f"{pair[1]}\n" for pair in pairs[half:]), "utf-8")


def damaged(pairs: Pairs, seed: int = 1) -> Pairs:
    """A tenth each: the next line's target, an earlier pair once more, the source untranslated."""
    draw = random.Random(seed)
    found = []
    for place, (source, target) in enumerate(pairs):
        chance = draw.random()
        if chance < SHARE:
            found.append((source, pairs[(place + 1) % len(pairs)][1]))
        elif chance < 2 * SHARE and found:
            found.append(found[draw.randrange(len(found))])
        elif 2 * SHARE <= chance < 3 * SHARE:
            found.append((source, source))
        else:
            found.append((source, target))
    return found

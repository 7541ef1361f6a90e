"""Hosts without a module: a made-up parallel corpus, and a recipe."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.faults.hosts.text import CharacterTokenizer

from gnomon.doctor.patient import Patient

NOUNS = ["dog", "cat", "bird", "tree", "house", "river", "child", "friend", "car", "book"]
TURNED = ["hund", "katze", "vogel", "baum", "haus", "fluss", "kind", "freund", "auto", "buch"]
VERBS = ["sees", "finds", "likes", "buys", "carries", "hears"]
TURNED_VERBS = ["sieht", "findet", "mag", "kauft", "trägt", "hört"]
SIZES = {"": 300, "valid_": 40, "test_": 40}


@dataclass(frozen=True)
class BareHost:
    """A patient without a model.

    Args:
        name: of the host.
        make: (seed, empty folder) → patient.
        traits: "corpus" or "recipe".
    """

    name: str
    make: Callable[[int, Path], Patient]
    traits: frozenset[str]
    kind: str = "gnomon"
    family: str = ""
    held_out: bool = False


def pairs(rng: random.Random, number: int, seen: set[str]) -> list[tuple[str, str]]:
    """Pairs of a made-up language pair, each new; half of them with a number or a name."""
    found: list[tuple[str, str]] = []
    while len(found) < number:
        words = [rng.randrange(len(NOUNS)) for _ in range(rng.randint(2, 6))]
        verb = rng.randrange(len(VERBS))
        count = str(rng.randint(2, 9999)) if rng.random() < 0.5 else ""
        mark = rng.choice(".!?")
        tail = " and the ".join(NOUNS[w] for w in words[1:])
        source = f"The {NOUNS[words[0]]} {VERBS[verb]} {count} the {tail}{mark}"
        turned = " und den ".join(TURNED[w] for w in words[1:])
        target = f"Der {TURNED[words[0]]} {TURNED_VERBS[verb]} {count} den {turned}{mark}"
        if source in seen:
            continue
        seen.add(source)
        found.append((" ".join(source.split()), " ".join(target.split())))
    return found


def make_corpus(seed: int, folder: Path) -> Patient:
    """Training, validation and test text without a pair in common."""
    rng, seen, corpus = random.Random(seed), set(), {}
    for part, number in SIZES.items():
        made = pairs(rng, number, seen)
        for side, lines in zip(("source", "target"), zip(*made, strict=True), strict=True):
            corpus[f"{part}{side}"] = write(folder / f"{part or 'train_'}{side}.txt", lines)
    return Patient(corpus=corpus, tokenizer=CharacterTokenizer())


def make_recipe(seed: int, folder: Path) -> Patient:
    """A shipped recipe as it is."""
    from gnomon.recipes import load_recipe

    return Patient(recipe=load_recipe("vaswani-base"))


def read(path: Path) -> list[str]:
    """Lines of a text file."""
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def write(path: Path, lines: list[str] | tuple[str, ...]) -> Path:
    """One line each."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


CORPUS = BareHost("corpus", make_corpus, frozenset({"corpus"}))
RECIPE = BareHost("recipe", make_recipe, frozenset({"recipe"}))

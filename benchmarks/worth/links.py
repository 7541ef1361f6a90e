"""Word alignment by attention: layers, and the step that reads a word or predicts it.

Links made by hand are rare. Where there are none, words that a text itself shows to belong together
(the glossary of `terms`) serve where both stand once in a pair: "sure" links of some content words,
and the share of them that was found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from benchmarks.worth.measure import Text
from benchmarks.worth.terms import glossary

from gnomon.evaluation import alignment_scores, parse_links
from gnomon.tasks import Translator
from gnomon.text import read_lines

Link = tuple[int, int]


def alignments(translator: Translator, source: str, target: str, gold: str) -> None:
    """Against links made by hand, as `gnomon align --gold` reads them."""
    sources, targets, links = (list(read_lines(Path(path))) for path in (source, target, gold))
    expected = [parse_links(line) for line in links]

    def judge(found: list[tuple[Link, ...]]) -> Iterable[float]:
        return (score.value for score in alignment_scores(found, expected))

    print("\n## alignment, links by hand\nlayer\tlooks at\tAER\tprecision\trecall")
    each_way(translator, sources, targets, judge)


def glossary_links(translator: Translator, texts: list[Text]) -> None:
    for text in texts:
        expected = sure_links(text)
        count = sum(map(len, expected))

        def judge(
            found: list[tuple[Link, ...]], expected: list[set[Link]] = expected
        ) -> Iterable[float]:
            right = sum(len(one & set(two)) for one, two in zip(expected, found, strict=True))
            return [100 * right / max(1, sum(map(len, expected)))]

        print(f"\n## alignment, {text.name}: {count} links of a glossary\nlayer\tlooks at\tfound %")
        each_way(translator, text.sources, text.references, judge)


def each_way(
    translator: Translator,
    sources: list[str],
    targets: list[str],
    judge: Callable[[list[tuple[Link, ...]]], Iterable[float]],
) -> None:
    for layer in range(1, translator.model.config.num_decoder_layers + 1):
        for shift in (True, False):
            found = translator.align(sources, targets, layer=layer, shift=shift)
            step = "the step that reads" if shift else "the step that predicts"
            figures = judge([one.links for one in found])
            print(layer, step, *(f"{figure:.1f}" for figure in figures), sep="\t", flush=True)


def sure_links(text: Text) -> list[set[Link]]:
    terms = dict(glossary(text))
    found = []
    for source, target in zip(text.sources, text.references, strict=True):
        ones, others = source.split(), target.split()
        found.append(
            {
                (place, others.index(terms[one]))
                for place, one in enumerate(ones)
                if one in terms and ones.count(one) == 1 and others.count(terms[one]) == 1
            }
        )
    return found

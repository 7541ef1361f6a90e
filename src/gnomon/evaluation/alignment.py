"""How good word alignments are: precision, recall and alignment error rate.

Hand-made alignments tell sure links from possible ones, the sure being possible too (Och and Ney
2003, section 5.2). With A the links found, S the sure and P the possible ones, summed over the
whole test set: precision |A ∩ P| / |A|, recall |A ∩ S| / |S|,
AER 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from gnomon.errors import DataError
from gnomon.evaluation.score import Score

Link = tuple[int, int]
_LINK = re.compile(r"(\d+)([-p])(\d+)")


def parse_links(line: str) -> tuple[set[Link], set[Link]]:
    """Read one line of links: "0-0 2-1" are sure, "1p1" is possible only; counted from 0.

    Returns:
        The sure and the possible links; the first are among the second.

    Raises:
        DataError: something else is in the line.
    """
    sure: set[Link] = set()
    possible: set[Link] = set()
    for text in line.split():
        match = _LINK.fullmatch(text)
        if match is None:
            raise DataError(
                "a link is written i-j (sure) or ipj (possible), counted from 0", seen=text
            )
        link = (int(match[1]), int(match[3]))
        possible.add(link)
        if match[2] == "-":
            sure.add(link)
    return sure, possible


def alignment_scores(
    found: Sequence[Collection[Link]], gold: Sequence[tuple[set[Link], set[Link]]]
) -> list[Score]:
    """AER, precision and recall in percent, over all sentences together.

    Args:
        found: the links of each sentence.
        gold: sure and possible links of the same sentences; see `parse_links`.

    Raises:
        DataError: not as many of the one as of the other, or no link at all on a side.
    """
    if len(found) != len(gold):
        raise DataError(
            "alignments are judged line by line", seen=f"{len(found)} found, {len(gold)} gold"
        )
    num_found = num_sure = hits_sure = hits_possible = 0
    for links, (sure, possible) in zip(found, gold, strict=True):
        given = set(links)
        num_found += len(given)
        num_sure += len(sure)
        hits_sure += len(given & sure)
        hits_possible += len(given & (possible | sure))
    if num_sure == 0 or num_found == 0:
        raise DataError(
            "an error rate needs links that were found and links that are sure",
            seen=f"{num_found} found, {num_sure} sure",
        )
    signature = f"lines:{len(gold)}|found:{num_found}|sure:{num_sure}"
    aer = 1 - (hits_sure + hits_possible) / (num_found + num_sure)
    return [
        Score(name="aer", value=100 * aer, signature=signature, higher_is_better=False),
        Score(name="precision", value=100 * hits_possible / num_found, signature=signature),
        Score(name="recall", value=100 * hits_sure / num_sure, signature=signature),
    ]

"""One alignment from two: of a model and of a model that translates the other way."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

from gnomon.errors import DataError

Link = tuple[int, int]
Symmetrisation = Literal["grow-diag-final-and", "intersection", "union"]

_NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def symmetrise(
    forward: Iterable[Link], reverse: Iterable[Link], kind: Symmetrisation
) -> tuple[Link, ...]:
    """Combine the links of both directions, each (source, target), sorted.

    "intersection" holds what both say, "union" what either says. "grow-diag-final-and" (Koehn,
    Och and Marcu 2003; Koehn et al. 2005) starts from the intersection, adds links of the union
    that touch one already there and have a word so far without link, and at last those that have
    two such words.

    Raises:
        DataError: no such kind.
    """
    if kind not in get_args(Symmetrisation):
        raise DataError(
            f"two alignments are combined by {', '.join(get_args(Symmetrisation))}", seen=kind
        )
    one, other = sorted(set(forward)), sorted(set(reverse))
    both = set(one) & set(other)
    if kind == "intersection":
        return tuple(sorted(both))
    union = set(one) | set(other)
    if kind == "union":
        return tuple(sorted(union))
    grown = _Growing(both)
    grown.along_neighbours(union)
    for link in [*one, *other]:
        if link[0] not in grown.sources and link[1] not in grown.targets:
            grown.add(link)
    return tuple(sorted(grown.links))


class _Growing:
    """Links that become more, and the words they touch."""

    def __init__(self, links: set[Link]) -> None:
        self.links = set(links)
        self.sources = {source for source, _ in links}
        self.targets = {target for _, target in links}

    def add(self, link: Link) -> None:
        self.links.add(link)
        self.sources.add(link[0])
        self.targets.add(link[1])

    def along_neighbours(self, allowed: set[Link]) -> None:
        """Add allowed neighbours, diagonal ones too, that link a word so far without link."""
        waiting = sorted(self.links)
        while waiting:
            added = []
            for source, target in waiting:
                for down, right in _NEIGHBOURS:
                    link = (source + down, target + right)
                    free = link[0] not in self.sources or link[1] not in self.targets
                    if link in allowed and link not in self.links and free:
                        self.add(link)
                        added.append(link)
            waiting = added

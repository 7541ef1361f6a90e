"""Texts longer than those that a model was trained on: translated in parts and put together again.

A model that never saw a paragraph drops sentences or repeats them when it is given one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Literal, get_args

from gnomon.errors import RecipeError
from gnomon.tasks.progress import Progress
from gnomon.text import AnyTokenizer, Familiarity, Part, join_parts, text_parts

if TYPE_CHECKING:
    from gnomon.tasks.translator import Translation

Split = Literal["auto", "always", "never"]


class Plan:
    """Which texts are translated in which parts.

    Attributes:
        parts: of each text; a text that stays whole is one part, itself.
        cuts: texts that are too long lose their end instead.
    """

    def __init__(
        self,
        texts: Sequence[str],
        tokenizer: AnyTokenizer,
        split: Split,
        limit: int | None,
        familiarity: Familiarity | None,
        *,
        cuts: bool = False,
    ) -> None:
        if split not in get_args(Split):
            raise RecipeError(
                "split says when a text is translated in parts",
                seen=split,
                mend="auto (texts longer than those trained on), always (every sentence by itself) "
                "or never",
            )

        def lengths(some: Sequence[str]) -> list[int]:
            return [len(ids) + 1 for ids in tokenizer.encode(some)]

        self.parts = [[Part(text, "")] for text in texts]
        # What learned from the beginnings of long texts is given those.
        self.cuts = cuts and split == "auto"
        if split == "never" or self.cuts:
            return
        if split == "always":
            too_long = [True] * len(texts)
        else:
            more = [False] * len(texts)
            if familiarity is not None:
                more = familiarity.has_more_sentences(texts)
            far = [False] * len(texts)
            if limit is not None:
                far = [length > limit for length in lengths(texts)]
            too_long = [any(reasons) for reasons in zip(more, far, strict=True)]
        for place, (text, wanted) in enumerate(zip(texts, too_long, strict=True)):
            if wanted and text.strip():
                self.parts[place] = text_parts(text, lengths, limit)

    @property
    def needed(self) -> bool:
        """Whether any text is not translated as it is."""
        return any(len(parts) > 1 for parts in self.parts)

    @property
    def texts(self) -> list[str]:
        """All parts, to be translated each by itself."""
        return [part.text for parts in self.parts for part in parts]

    def watched(self, progress: Progress) -> Callable[[Iterable[int]], None]:
        """What is told which of `self.texts` are done, and tells `progress` of whole texts."""
        owners = [place for place, parts in enumerate(self.parts) for _ in parts]
        left = [len(parts) for parts in self.parts]

        def done(parts: Iterable[int]) -> None:
            finished = 0
            for part in parts:
                left[owners[part]] -= 1
                finished += left[owners[part]] == 0
            progress(finished)

        return done

    def joined(
        self,
        found: Sequence[Translation],
        far: Sequence[bool | None],
        *,
        sampled: bool = False,
    ) -> list[Translation]:
        """The translations of the texts, from those of `self.texts`.

        Args:
            sampled: the alternatives are samples, which go together by their numbers.
        """
        rest = iter(found)
        return [
            _joined(parts, list(islice(rest, len(parts))), is_far, sampled)
            for parts, is_far in zip(self.parts, far, strict=True)
        ]


def _joined(
    parts: list[Part], found: list[Translation], far: bool | None, sampled: bool
) -> Translation:
    if len(parts) == 1:
        return found[0]
    choices = _by_number(found) if sampled else _best_choices(found)
    best, *others = (_in_one(parts, chosen, far) for chosen in choices)
    return replace(best, alternatives=tuple(others))


def _in_one(parts: list[Part], chosen: Sequence[Translation], far: bool | None) -> Translation:
    return replace(
        chosen[0],
        text=join_parts([item.text for item in chosen], [part.gap for part in parts]),
        score=sum(item.score for item in chosen),
        log_prob=sum(item.log_prob for item in chosen),
        num_tokens=sum(item.num_tokens for item in chosen),
        truncated=any(item.truncated for item in chosen),
        far=far,
        alternatives=(),
        num_parts=len(parts),
        num_divided=sum(part.divided for part in parts),
    )


def _by_number(found: Sequence[Translation]) -> list[tuple[Translation, ...]]:
    return list(zip(*((item, *item.alternatives) for item in found), strict=True))


def _best_choices(found: Sequence[Translation]) -> list[tuple[Translation, ...]]:
    """The n best ways to choose one translation for every part, by the sum of scores.

    n is the most that any part has. Part after part, the n best ways so far are kept: a way that
    is not among them cannot become one, as every way is continued alike.
    """
    count = max(1 + len(item.alternatives) for item in found)
    ways: list[tuple[float, tuple[Translation, ...]]] = [(0.0, ())]
    for item in found:
        ways = sorted(
            (
                (score + choice.score, (*chosen, choice))
                for score, chosen in ways
                for choice in (item, *item.alternatives)
            ),
            key=lambda way: -way[0],
        )[:count]
    return [chosen for _, chosen in ways]

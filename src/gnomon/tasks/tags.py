"""Tags in front of source texts: one list for all of them, or one for each."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from gnomon.errors import RecipeError

Tags = Sequence[str] | Sequence[Sequence[str]]


class TagWarning(UserWarning):
    """A source carries tags that the model never saw, or none where it always saw some."""


def tags_of_each(tags: Tags, num_texts: int) -> list[tuple[str, ...]]:
    """Return the tags of each text: the same for all, or those given for each.

    Raises:
        RecipeError: one str, or another number of lists than of texts.
    """
    if isinstance(tags, str):
        raise RecipeError("tags is a list of tags", seen=repr(tags), mend="give [tag]")
    same = tuple(tag for tag in tags if isinstance(tag, str))
    if len(same) == len(tags):
        return [same] * num_texts
    each = [tuple(some) for some in tags]
    if same or len(each) != num_texts:
        raise RecipeError(
            "tags is one list for all texts, or one for each",
            seen=f"{len(each)} for {num_texts} texts",
            mend="give as many lists as texts",
        )
    return each


def warn_of_unseen(
    every: Sequence[tuple[str, ...]],
    seen: Sequence[tuple[str, ...]],
    known: Sequence[str],
) -> None:
    """Warn of combinations that no training source had.

    A multilingual model that is not told the language translates into any of them.

    Args:
        known: every tag of the vocabulary; another one is an error when the text is encoded, of
            which nobody needs to be warned.
    """
    for tags in dict.fromkeys(every):
        if tags not in seen and set(tags) <= set(known):
            known = "; ".join(" ".join(some) or "no tag" for some in seen)
            warnings.warn(
                f"this model was not trained on sources with {' '.join(tags) or 'no tag'}, so its "
                f"output may be anything; it was trained on sources with: {known}",
                TagWarning,
                stacklevel=3,
            )

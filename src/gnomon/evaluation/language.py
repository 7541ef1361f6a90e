"""How well a language model predicts text: per token, character and byte."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gnomon.errors import DataError
from gnomon.evaluation.score import Score
from gnomon.files import json_value

FORMAT_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class LanguageEvaluationConfig:
    """What a validation reads of its text."""

    # tokens of the validation text that are read each time; None: all
    max_tokens: int | None = None

    def problems(self) -> list[str]:
        """What is wrong with these values, one sentence each; empty when nothing is."""
        if self.max_tokens is not None and self.max_tokens < 1:
            return [f"evaluation.max_tokens must be at least 1, seen {self.max_tokens}"]
        return []


LANGUAGE_METRICS = ("nll", "perplexity", "bits_per_character", "bits_per_byte")


def language_metrics(
    nll_sum: float, num_tokens: int, *, characters: float, num_bytes: float
) -> dict[str, float]:
    """The measures of `LANGUAGE_METRICS` from summed losses in nats.

    Args:
        nll_sum: over all predicted tokens, the end of every document among them.
        num_tokens: how many these are.
        characters: of the text that they spell.
        num_bytes: the same in UTF-8. Unlike perplexity, both measures hold across vocabularies.
    """
    mean = nll_sum / num_tokens
    return {
        "nll": mean,
        "perplexity": math.exp(min(mean, 700.0)),  # beyond it a float ends
        "bits_per_character": nll_sum / math.log(2) / characters,
        "bits_per_byte": nll_sum / math.log(2) / num_bytes,
    }


@dataclass(frozen=True, kw_only=True)
class PositionRow:
    """Tokens with about as much before them in view.

    Attributes:
        first: tokens before it in view, at least.
        last: … at most.
        tokens: how many tokens were judged there.
        nll: their mean loss in nats.
        perplexity: exp(nll).
    """

    first: int
    last: int
    tokens: int
    nll: float
    perplexity: float


def position_rows(sums: Sequence[float], counts: Sequence[int]) -> list[PositionRow]:
    """Means over places, gathered where a place is twice as far as before: 1, 2-3, 4-7 …

    Args:
        sums: losses in nats by place in view, from 0.
        counts: tokens there.
    """
    found = []
    first = 0
    while first < len(sums):
        stop = min(2 * first + 1, len(sums))  # the place is one less than the tokens before it
        tokens = int(sum(counts[first:stop]))
        if tokens:
            nll = math.fsum(sums[first:stop]) / tokens
            found.append(
                PositionRow(
                    first=first + 1,
                    last=stop,
                    tokens=tokens,
                    nll=nll,
                    perplexity=math.exp(min(nll, 700.0)),
                )
            )
        first = stop
    return found


@dataclass(frozen=True)
class LanguageReport:
    """How well a language model predicts a text.

    Attributes:
        scores: the measures of `LANGUAGE_METRICS`.
        positions: the loss by how many tokens were in view.
        num_documents: how many documents there were.
        about: model, files, text.
        baselines: other models' scores, by name.
    """

    scores: list[Score]
    positions: list[PositionRow]
    num_documents: int
    about: dict[str, Any] = field(default_factory=dict)
    baselines: dict[str, list[Score]] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Score:
        for score in self.scores:
            if score.name == name:
                return score
        raise KeyError(name)

    def to_json(self) -> str:
        """Strict JSON, readable."""
        tree = {
            "format_version": FORMAT_VERSION,
            "task": "language_model",
            "about": self.about,
            "num_lines": self.num_documents,
            "scores": json_value(self.scores),
            "baselines": json_value(self.baselines),
            "positions": json_value(self.positions),
            "lines": [],
        }
        return json.dumps(tree, ensure_ascii=False, allow_nan=False, indent=2) + "\n"


def language_scores(
    nll_sum: float, num_tokens: int, *, characters: int, num_bytes: int, protocol: Mapping[str, Any]
) -> list[Score]:
    """`language_metrics` as scores, whose signature says what they depend on.

    Raises:
        DataError: there are no tokens.
    """
    if not num_tokens:
        raise DataError("a language model is judged on text; there is none")
    values = language_metrics(nll_sum, num_tokens, characters=characters, num_bytes=num_bytes)
    signature = "|".join(f"{key}:{value}" for key, value in protocol.items())
    details = f"{num_tokens:,} tokens, {characters:,} characters, {num_bytes:,} bytes"
    return [
        Score(name=name, value=value, signature=signature, higher_is_better=False, details=details)
        for name, value in values.items()
    ]

"""Translations of lines."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self

from gnomon.api.lines.job import LineJob, LineWork, Made
from gnomon.api.load import load_for, model_folder
from gnomon.decoding import Combination, SearchConfig
from gnomon.errors import excerpt
from gnomon.tasks import Terminology, Translation, Translator
from gnomon.tasks.long_text import Split
from gnomon.tasks.progress import Progress, silent
from gnomon.text import mend_controls


@dataclass(frozen=True, kw_only=True)
class TranslateLines(LineJob):
    """Translate each line.

    Args:
        ensemble, combination: see `gnomon.api.load`.
        tags, banned, terminology, split: see `Translator.translate`.
        keep_space: put the blanks around a line around its translation.
        search: fields of `SearchConfig` to change; those that are None stay as they are.

    Raises:
        RecipeError: a search setting is out of range, before a large model is loaded.
    """

    VERB: ClassVar[str] = "translate"
    TASK: ClassVar[str] = "translation"
    DOING: ClassVar[str] = "translating"
    KINDS: ClassVar[Mapping[str, str]] = {
        "far": "lines are far from what this model was trained on",
        "divided": "lines had a sentence that was divided",
        "cut": "lines were read in part: they are longer than this model reads",
        "truncated": "outputs reached their length limit",
    }
    ALWAYS: ClassVar[tuple[str, ...]] = ("cut", "truncated")

    ensemble: tuple[Path, ...] = ()
    combination: Combination = "mean"
    tags: tuple[str, ...] = ()
    banned: tuple[str, ...] = ()
    terminology: Terminology | None = None
    split: Split = "auto"
    keep_space: bool = True
    search: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        SearchConfig().changed(dict(self.search))

    @property
    def models(self) -> tuple[Path, ...]:
        """See `LineJob`."""
        return (self.model, *self.ensemble)

    def located(self) -> Self:
        """See `LineJob`."""
        first, *others = (model_folder(path, self.checkpoint).resolve() for path in self.models)
        return replace(self, model=first, ensemble=tuple(others))

    def settings(self) -> Mapping[str, Any]:
        """See `LineJob`."""
        terms = self.terminology
        return {
            "combination": self.combination,
            "tags": list(self.tags),
            "banned": list(self.banned),
            "terminology": None if terms is None else [terms.targets, terms.ignore_case],
            "split": self.split,
            "keep_space": self.keep_space,
            "json": self.as_json,
            "search": {name: value for name, value in self.search.items() if value is not None},
        }

    def open(self) -> LineWork:
        """See `LineJob`."""
        translator: Translator = load_for(
            "translation",
            self.model,
            checkpoint=self.checkpoint,
            device=self.device,
            ensemble=self.ensemble,
            combination=self.combination,
        )
        translator.search_config(dict(self.search))
        return _Work(self, translator)


@dataclass(frozen=True)
class _Work:
    job: TranslateLines
    translator: Translator

    def __call__(
        self, lines: Sequence[str], first: int, *, progress: Progress = silent, **beside: Any
    ) -> Iterator[Made]:
        job = self.job
        results = self.translator.translate(
            [line.strip() if job.keep_space else line for line in lines],
            tags=job.tags,
            banned=job.banned,
            terminology=job.terminology,
            batch_tokens=job.batch_tokens,
            split=job.split,
            first=first - 1,
            progress=progress,
            **beside,
            **job.search,
        )
        for number, (line, result) in enumerate(zip(lines, results, strict=True), first):
            if job.keep_space:
                result = _within_its_space(line, result)
            text = _as_json(result) if job.as_json else result.text
            yield Made(text, list(_notes(number, line, result)))

    def check(self) -> None:
        """See `LineWork`."""
        deque(self([""], 1), maxlen=0)


def _within_its_space(line: str, result: Translation) -> Translation:
    """The translation between the blanks that stood around its line."""
    if not line.strip():
        return result
    before = mend_controls(line[: len(line) - len(line.lstrip())])
    after = mend_controls(line[len(line.rstrip()) :])
    if not before and not after:
        return result
    return replace(
        result,
        text=f"{before}{result.text}{after}",
        alternatives=tuple(_within_its_space(line, other) for other in result.alternatives),
    )


def _as_json(result: Translation) -> str:
    return json.dumps(_plain(result), ensure_ascii=False)


def _plain(result: Translation) -> dict[str, Any]:
    plain = asdict(result)
    plain["alternatives"] = [_plain(other) for other in result.alternatives]
    return plain


def _notes(number: int, line: str, result: Translation) -> Iterator[tuple[str, str]]:
    """What the user should know of line `number`."""
    shown = excerpt(line, 60)
    if result.far:
        yield (
            "far",
            f"line {number} is far from what this model was trained on; "
            f"do not trust its translation: {shown}",
        )
    if result.num_divided:
        yield (
            "divided",
            f"line {number}: a sentence is longer than any this model was trained on and was "
            f"divided; {result.num_divided} of {result.num_parts} parts are pieces: {shown}",
        )
    if result.num_cut:
        yield (
            "cut",
            f"line {number} is longer than this model reads; its last {result.num_cut:,} "
            f"tokens were left out: {shown}",
        )
    if result.truncated:
        yield (
            "truncated",
            f"line {number}: the output reached its length limit and may be cut: {shown}",
        )

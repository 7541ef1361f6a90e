"""Texts that go on from prompts: batches, lengths, the end of the context, stop strings."""

from __future__ import annotations

from collections.abc import Generator as Growth
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from gnomon.decoding import (
    DecoderScorer,
    Hypothesis,
    SearchConfig,
    SeveralEnds,
    Steps,
    beam_search,
    greedy_steps,
    sample_steps,
)
from gnomon.errors import DataError, RecipeError
from gnomon.tasks.progress import Progress
from gnomon.tasks.rows import batches, longest_first
from gnomon.tasks.text_stream import TextStream

if TYPE_CHECKING:
    from gnomon.tasks.language_model import LanguageModel

Finish = Literal["end", "stop", "length", "context"]
_NEXT_VIEW = 1 << 40  # between the keys of samples in one view of a text and in the next


@dataclass(frozen=True, slots=True)
class Continuation:
    """What follows a prompt.

    Attributes:
        text: without the prompt and without a stop string.
        finish: why it ends: the model ended it; a stop string came; `max_tokens` were there; the
            model's positions came to their end.
        num_tokens: tokens generated, the end and those of a stop string included.
        log_prob: natural logarithm of their probability.
        beyond_training: with its prompt longer than what the model saw at once in training; None
            where that is not known.
        alternatives: further outputs, if `nbest` asked for them.
    """

    text: str
    finish: Finish
    num_tokens: int
    log_prob: float
    beyond_training: bool | None = None
    alternatives: tuple[Continuation, ...] = ()


class Pieces(Iterator[str]):
    """The pieces of one output as they come.

    Attributes:
        result: the whole output and why it ended, once there are no more pieces.
    """

    def __init__(self, pieces: Growth[str, None, Continuation]) -> None:
        self._pieces = pieces
        self.result: Continuation | None = None

    def __next__(self) -> str:
        try:
            return next(self._pieces)
        except StopIteration as end:
            self.result = self.result or end.value
            raise StopIteration from None


@dataclass(frozen=True)
class Request:
    """What is asked of a model.

    Attributes:
        search: how tokens are chosen.
        max_tokens: of an output.
        stop: what ends it.
        slide: whether it goes on where the positions end.
    """

    search: SearchConfig
    max_tokens: int
    stop: tuple[str, ...]
    slide: bool


@dataclass
class _Output:
    """One output as it grows."""

    ids: list[int]  # the prompt and all that was generated, in view or not
    stream: TextStream
    num_prompt: int
    key: int
    text: list[str] = field(default_factory=list)
    log_prob: float = 0.0
    before: float = 0.0  # log_prob of earlier views
    finish: Finish | None = None

    @property
    def num_tokens(self) -> int:
        return len(self.ids) - self.num_prompt


class Generator:
    """Goes on from prompts as one request says.

    Args:
        model: the language model.
        request: what is asked of it.
        batch_tokens: of prompts and outputs held at once.
    """

    def __init__(self, model: LanguageModel, request: Request, batch_tokens: int) -> None:
        if batch_tokens < 1:
            raise RecipeError("batch_tokens must be at least 1", seen=batch_tokens)
        self.model = model
        self.request = request
        self.batch_tokens = batch_tokens
        vocabulary = model.vocabulary
        self.ends = {vocabulary.end_id, *model.ends}
        one_by_one = not self.beamed
        self.num_outputs = request.search.nbest if one_by_one and request.search.sample else 1

    @property
    def beamed(self) -> bool:
        """Whether outputs are searched for with a beam, and so known only at the end."""
        return self.request.search.beam > 1 and not self.request.search.sample

    # -- what is asked for -------------------------------------------------------------------

    def generate(
        self, prompts: Sequence[str], first: int, progress: Progress
    ) -> list[Continuation]:
        """See `LanguageModel.generate`."""
        rows = self._rows(prompts, first)
        lengths = [len(row) + self.request.max_tokens for row in rows]
        # Angles that depend on the length of a text must not depend on its neighbours'.
        budget = 1 if self.model.model.config.turns_by_length() else self.batch_tokens
        results: list[Continuation | None] = [None] * len(rows)
        were_training = self.model.model.training
        self.model.model.eval()
        try:
            for places in batches(longest_first(range(len(rows)), lengths), lengths, budget):
                part = [rows[place] for place in places]
                keys = [first + place for place in places]
                found = self._beam(part) if self.beamed else self._one_by_one(part, keys)
                for place, each in zip(places, found, strict=True):
                    results[place] = each
                progress(len(places))
        finally:
            self.model.model.train(were_training)
        return [each for each in results if each is not None]

    def stream(self, prompt: str, place: int) -> Pieces:
        """See `LanguageModel.stream`."""
        (row,) = self._rows([prompt], place)
        return Pieces(self._pieces(row, place))

    def _pieces(self, row: list[int], place: int) -> Growth[str, None, Continuation]:
        were_training = self.model.model.training
        self.model.model.eval()
        outputs = self._begun([row], [place])
        try:
            for _, piece in self._grow(outputs):
                if piece:
                    yield piece
        finally:
            self.model.model.train(were_training)
        return self._result(outputs[0])

    def _one_by_one(self, rows: Sequence[list[int]], keys: Sequence[int]) -> list[Continuation]:
        outputs = self._begun(rows, keys)
        for _ in self._grow(outputs):
            pass
        n = self.num_outputs
        found = [self._result(output) for output in outputs]
        return [
            replace(found[start], alternatives=tuple(found[start + 1 : start + n]))
            for start in range(0, len(found), n)
        ]

    # -- views -------------------------------------------------------------------------------

    def _rows(self, prompts: Sequence[str], first: int) -> list[list[int]]:
        """Ids of the prompts with what they begin with, cut or refused where they are too long."""
        vocabulary, reach = self.model.vocabulary, self.model.reach
        rows = []
        for number, ids in enumerate(vocabulary.encode(prompts), first + 1):
            row = [vocabulary.begin_id, *ids] if vocabulary.begins or not ids else ids
            if reach is not None and len(row) >= reach + 1 and not self.request.slide:
                raise DataError(
                    f"a prompt must be shorter than the model's positions reach, {reach} tokens",
                    seen=f"prompt {number}: {len(row):,} tokens",
                    mend="shorten it, or go on from its end with --slide",
                )
            rows.append(row)
        return rows

    def _begun(self, rows: Sequence[list[int]], keys: Sequence[int]) -> list[_Output]:
        vocabulary, stop = self.model.vocabulary, self.request.stop
        return [
            _Output(list(row), TextStream(vocabulary, row, stop), len(row), key)
            for row, key in zip(rows, keys, strict=True)
            for _ in range(self.num_outputs)
        ]

    def _grow(self, outputs: list[_Output]) -> Iterator[tuple[_Output, str]]:
        """Generate view by view until all outputs are finished; gives each new piece of text."""
        view, growing = 0, outputs
        while growing:
            yield from self._grow_in_view(growing, view)
            growing = [output for output in growing if output.finish is None]
            view += 1
        for output in outputs:
            was_stopped = output.stream.stopped
            piece = output.stream.finish()
            if output.stream.stopped and not was_stopped:
                output.finish = "stop"
            output.text.append(piece)
            yield output, piece

    def _in_view(self, ids: Sequence[int]) -> Sequence[int]:
        """What the model sees of a text that is longer than it reaches: its newest half."""
        reach = self.model.reach
        return ids if reach is None or len(ids) <= reach else ids[-max(1, reach // 2) :]

    def _grow_in_view(self, outputs: list[_Output], view: int) -> Iterator[tuple[_Output, str]]:
        n = self.num_outputs
        heads = outputs[::n]  # the outputs of one prompt are in view together
        prompts = [self._in_view(head.ids) for head in heads]
        limits = [self._limit(prompt, head) for prompt, head in zip(prompts, heads, strict=True)]
        keys = [head.key + view * _NEXT_VIEW for head in heads]
        steps = self._steps(prompts, limits, keys)
        stopped: list[int] = []
        for output in outputs:
            output.before = output.log_prob
        while True:
            try:
                step = steps.send(stopped or None) if stopped else next(steps)
            except StopIteration:
                break
            stopped = []
            for place, tokens, log_probs in zip(
                step.places.tolist(), step.tokens.tolist(), step.log_probs.tolist(), strict=True
            ):
                own = outputs[place * n : (place + 1) * n]
                for output, token, log_prob in zip(own, tokens, log_probs, strict=True):
                    if output.finish is not None:
                        continue
                    output.ids.append(token)
                    output.log_prob = output.before + log_prob
                    if token in self.ends:
                        output.finish = "end"
                        continue
                    piece = output.stream.push(token)
                    if output.stream.stopped:
                        output.finish = "stop"
                    elif output.num_tokens >= self.request.max_tokens:
                        output.finish = "length"
                    output.text.append(piece)
                    yield output, piece
                if all(output.finish is not None for output in own):
                    stopped.append(place)
        for output in outputs:
            if output.finish is None and not self.request.slide:
                output.finish = "context"

    def _limit(self, prompt: Sequence[int], output: _Output) -> int:
        """Tokens to generate in this view; the last one need not be read."""
        left = self.request.max_tokens - output.num_tokens
        reach = self.model.reach
        return left if reach is None else min(left, reach + 1 - len(prompt))

    def _search(
        self, prompts: Sequence[Sequence[int]], limits: Sequence[int]
    ) -> tuple[DecoderScorer, dict[str, Any]]:
        vocabulary = self.model.vocabulary
        end = vocabulary.end_id
        longest = max(len(prompt) + limit for prompt, limit in zip(prompts, limits, strict=True))
        scorer = DecoderScorer(
            self.model.model, prompts, self.model.device, max_length=longest, begun=True
        )
        ids = {
            "pad_id": None if vocabulary.pad_id == end else vocabulary.pad_id,
            "bos_id": None if vocabulary.begin_id == end else vocabulary.begin_id,
            "eos_id": end,
            "max_lengths": limits,
        }
        return scorer, ids

    def _steps(
        self, prompts: Sequence[Sequence[int]], limits: Sequence[int], keys: Sequence[int]
    ) -> Steps[Any]:
        scorer, ids = self._search(prompts, limits)
        if self.request.search.sample:
            return sample_steps(scorer, self.request.search, keys=keys, **ids)
        return greedy_steps(scorer, self.request.search, **ids)

    # -- results -----------------------------------------------------------------------------

    def _beam(self, rows: Sequence[list[int]]) -> list[Continuation]:
        reach, most = self.model.reach, self.request.max_tokens
        limits = [most if reach is None else min(most, reach + 1 - len(row)) for row in rows]
        own, ids = self._search(rows, limits)
        ends = self.model.ends
        scorer = SeveralEnds(own, self.model.vocabulary.end_id, ends) if ends else own
        found = []
        for row, limit, hypotheses in zip(
            rows, limits, beam_search(scorer, self.request.search, **ids), strict=True
        ):
            each = [self._of_hypothesis(row, limit, one) for one in hypotheses]
            found.append(replace(each[0], alternatives=tuple(each[1:])))
        return found

    def _of_hypothesis(self, row: list[int], limit: int, found: Hypothesis) -> Continuation:
        (output,) = self._begun([row], [0])
        output.log_prob = found.log_prob
        for token in found.tokens:
            output.ids.append(token)
            if token in self.ends:
                output.finish = "end"
            else:
                output.text.append(output.stream.push(token))
                if output.stream.stopped:
                    output.finish = "stop"
            if output.finish is not None:
                break
        output.text.append(output.stream.finish())
        if output.stream.stopped:
            output.finish = "stop"
        if output.finish is None:
            output.finish = "length" if limit == self.request.max_tokens else "context"
        return self._result(output)

    def _result(self, output: _Output) -> Continuation:
        assert output.finish is not None, "it has grown to its end"
        context = self.model.context
        return Continuation(
            "".join(output.text),
            output.finish,
            output.num_tokens,
            output.log_prob,
            None if context is None else len(output.ids) > context + 1,
        )

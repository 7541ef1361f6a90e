"""Going on from texts, and judging them: what `gnomon.load` gives for a language model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from gnomon.decoding import SearchConfig
from gnomon.decoding.config import MAX_OFFSET
from gnomon.errors import DataError, RecipeError
from gnomon.model import Transformer
from gnomon.tasks.continuation import Continuation, Generator, Pieces, Request
from gnomon.tasks.language_scoring import TextScore, score_texts
from gnomon.tasks.progress import Progress, silent
from gnomon.text.framing import Framing
from gnomon.text.vocabulary import Vocabulary

MAX_TOKENS = 256


class LanguageModel:
    """A trained decoder with its vocabulary.

    What is made of a text does not depend on the other texts given with it.

    Args:
        context: tokens that it saw at once in training, if known: beyond them it was never tried.
        search: how outputs are chosen unless told otherwise; greedily.
        ends: further ids that end a text, as some chat models have.
        chat_template: how a conversation is written as one text (a Jinja template), if it has one.
    """

    def __init__(
        self,
        model: Transformer,
        vocabulary: Vocabulary,
        *,
        context: int | None = None,
        search: SearchConfig | None = None,
        ends: Sequence[int] = (),
        chat_template: str | None = None,
    ) -> None:
        self.model = model
        self.vocabulary = vocabulary
        self.context = context
        self.search = search or SearchConfig(beam=1)
        self.ends = tuple(ends)
        self.chat_template = chat_template

    @property
    def framing(self) -> Framing:
        """The vocabulary as models of one stack read it."""
        return self.vocabulary.framing

    @property
    def device(self) -> torch.device:
        """Where the model's parameters are."""
        return next(self.model.parameters()).device

    @property
    def reach(self) -> int | None:
        """Tokens after which the model's positions end; None: they have no end."""
        return self.model.config.max_positions()

    def generate(
        self,
        prompts: Sequence[str],
        *,
        max_tokens: int = MAX_TOKENS,
        stop: Sequence[str] = (),
        slide: bool = False,
        batch_tokens: int = 4096,
        first: int = 0,
        progress: Progress = silent,
        **search: Any,
    ) -> list[Continuation]:
        """Go on from each prompt; results come in the order of `prompts`, one for one.

        Args:
            prompts: any texts; an empty one gives a text from its begin on.
            max_tokens: of each output, the end of the text counted.
            stop: an output ends before the first of these texts, wherever it falls among tokens.
            slide: where the positions end (`reach`), go on with the newest half of the text in
                view; without, the output ends there (`finish` is "context").
            batch_tokens: tokens of prompts and outputs held at once: memory and speed, not results.
            first: how many prompts came before these, where one input is given in several calls:
                samples depend on a prompt's place in the whole input.
            progress: is told how many more prompts are done, now and then.
            **search: fields of `SearchConfig` to change, such as `sample=True` or `temperature`.

        Raises:
            DataError: a prompt is longer than the model reaches, without `slide`.
            RecipeError: settings are out of range or do not fit together.
        """
        if isinstance(prompts, str):
            raise RecipeError("prompts is a list of texts", seen="one str", mend="give [prompt]")
        request = self._request(max_tokens, stop, slide, search)
        generator = Generator(self, request, batch_tokens)
        return generator.generate(prompts, first, progress)

    def stream(
        self,
        prompt: str,
        *,
        max_tokens: int = MAX_TOKENS,
        stop: Sequence[str] = (),
        slide: bool = False,
        place: int = 0,
        **search: Any,
    ) -> Pieces:
        """Pieces of the text that `generate` gives for this prompt, as soon as they are certain.

        No piece holds half a character, or what may turn out to be a stop string. At the end
        `result` of what is returned says why there are no more.

        Args:
            prompt, max_tokens, stop, slide, search: see `generate`; not with a beam.
            place: the prompt's place in a whole input; see `first` there.

        Raises:
            RecipeError: as for `generate`; or a beam, or several outputs are asked for.
            DataError: as for `generate`.
        """
        request = self._request(max_tokens, stop, slide, search)
        if request.search.nbest > 1 or (request.search.beam > 1 and not request.search.sample):
            raise RecipeError(
                "a stream is of one output whose tokens are chosen one after another",
                seen=f"beam {request.search.beam}, nbest {request.search.nbest}",
                mend="leave beam and nbest at 1, or use generate",
            )
        return Generator(self, request, 1).stream(prompt, place)

    def score(
        self,
        texts: Sequence[str],
        *,
        length: int | None = None,
        batch_tokens: int = 4096,
        progress: Progress = silent,
    ) -> list[TextScore]:
        """How probable each text is, token by token, its end included.

        Args:
            texts: any texts.
            length: tokens in view at most. A longer text is read in windows, each from the middle
                of the one before, and only what is new in it counts: every token but the first
                ones is judged with half a window or more before it. Default: as far as the model's
                positions reach; where they have no end, the whole text.
            batch_tokens: tokens read at once: memory and speed, not results.
            progress: is told how many more texts are done, now and then.

        Raises:
            RecipeError: no such length.
        """
        if isinstance(texts, str):
            raise RecipeError("texts is a list of texts", seen="one str", mend="give [text]")
        return score_texts(self, texts, length, batch_tokens, progress)

    def chat_prompt(self, messages: Sequence[Mapping[str, str]]) -> str:
        """A conversation as the text that this model was trained to go on from.

        Args:
            messages: each with a "role" ("system", "user", "assistant") and its "content".

        Raises:
            DataError: the model has no chat template, or it refuses these messages.
        """
        from gnomon.tasks.chat import rendered

        if self.chat_template is None:
            raise DataError(
                "a conversation needs a model with a chat template",
                seen="a model without one",
                mend="write the prompt yourself, as the model's text was written",
            )
        begin, end = self.vocabulary.pieces([self.vocabulary.begin_id, self.vocabulary.end_id])
        text = rendered(self.chat_template, messages, begin, end)
        # What a text begins with is put there when it is read.
        return text.removeprefix(begin) if self.vocabulary.begins else text

    def _request(
        self, max_tokens: int, stop: Sequence[str], slide: bool, search: Mapping[str, Any]
    ) -> Request:
        if isinstance(stop, str):
            raise RecipeError("stop is a list of texts", seen="one str", mend="give [text]")
        if not 1 <= max_tokens <= MAX_OFFSET:
            raise RecipeError(
                f"max_tokens must be between 1 and {MAX_OFFSET:,}", seen=f"{max_tokens:,}"
            )
        if any(not each for each in stop):
            raise RecipeError("a stop string must not be empty")
        request = Request(self.search.changed(search), max_tokens, tuple(stop), slide)
        config = request.search
        if config.coverage_penalty:
            raise RecipeError(
                "a coverage penalty is for models that read a source",
                seen=f"coverage_penalty {config.coverage_penalty}",
            )
        if slide and (config.nbest > 1 or (config.beam > 1 and not config.sample)):
            raise RecipeError(
                "only a single output whose tokens are chosen one after another can slide",
                seen=f"beam {config.beam}, nbest {config.nbest}",
            )
        return request

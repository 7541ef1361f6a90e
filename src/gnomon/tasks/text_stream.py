"""Tokens to text as they come: never half a character, never what may be part of a stop string."""

from __future__ import annotations

from collections.abc import Sequence

from gnomon.text.vocabulary import Vocabulary

_BEFORE = 8  # tokens of the prompt that are decoded along, so that blanks come out as within a text
_UNFINISHED = "\ufffd"  # what a decoder makes of the first bytes of a character


class TextStream:
    """The text of one output, given piece by piece.

    The pieces together are the text of all tokens, whatever their number: a whole output is made
    in the same way.

    Args:
        vocabulary: of the tokens.
        prompt: ids that stand before.
        stops: texts that end the output; neither they nor what follows is given.
    """

    def __init__(self, vocabulary: Vocabulary, prompt: Sequence[int], stops: Sequence[str]) -> None:
        self._vocabulary = vocabulary
        self._stops = stops
        self._window = list(prompt[-_BEFORE:])
        self._read = len(self._window)  # tokens of the window whose text was taken
        self._held = ""  # text that may be the begin of a stop string
        self.stopped = False

    def push(self, token: int) -> str:
        """The text that is certain now that this token has come; often none."""
        if self.stopped:
            return ""
        self._window.append(token)
        return self._given(self._new_text(final=False), final=False)

    def finish(self) -> str:
        """The text that was held back, as no token comes any more."""
        return "" if self.stopped else self._given(self._new_text(final=True), final=True)

    def _new_text(self, *, final: bool) -> str:
        known = self._vocabulary.decode(self._window[: self._read])
        text = self._vocabulary.decode(self._window)
        if len(text) <= len(known) or (text.endswith(_UNFINISHED) and not final):
            return ""
        # What was taken stays as context for what comes; the rest of the window has done its work.
        self._window = self._window[self._read :] or self._window
        self._read = len(self._window)
        return text[len(known) :]

    def _given(self, text: str, *, final: bool) -> str:
        text = self._held + text
        found = [place for stop in self._stops if (place := text.find(stop)) >= 0]
        if found:
            self.stopped, self._held = True, ""
            return text[: min(found)]
        keep = 0 if final else max((_overlap(text, stop) for stop in self._stops), default=0)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]


def _overlap(text: str, stop: str) -> int:
    """How many characters at the end of `text` may be the begin of `stop`."""
    for length in range(min(len(text), len(stop) - 1), 0, -1):
        if text.endswith(stop[:length]):
            return length
    return 0

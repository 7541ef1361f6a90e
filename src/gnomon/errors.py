"""The errors a user can mend: each message says the rule, the value seen and the mend."""

from __future__ import annotations


class GnomonError(Exception):
    """A mistake in what the user gave, never a bug of ours; shown without a traceback.

    Args:
        rule: what must hold, one sentence.
        seen: the value that broke it (shown with `str`), if there is one to show.
        mend: what to do about it, one sentence.
    """

    exit_code = 2

    def __init__(self, rule: str, *, seen: object = None, mend: str | None = None) -> None:
        self.rule = rule
        self.seen = seen
        self.mend = mend
        lines = [rule]
        if seen is not None:
            lines.append(f"  seen: {seen}")
        if mend is not None:
            lines.append(f"  mend: {mend}")
        super().__init__("\n".join(lines))


class DataError(GnomonError):
    """A text file or corpus cannot be used as it is."""


class RecipeError(GnomonError):
    """A recipe holds unknown keys or values that cannot work together."""


class ModelError(GnomonError):
    """A model configuration, model folder or model input cannot be used."""


class RunError(GnomonError):
    """A run folder is locked, finished, foreign or damaged."""


class CheckError(GnomonError):
    """A check or gate failed: the input is fine, the result is not."""

    exit_code = 1


class DoctorError(GnomonError):
    """What was asked of the doctor cannot be done."""


class TrainingStopped(GnomonError):
    """Training had to stop (NaN, full disk …); the last good checkpoint is named."""

    exit_code = 1


def excerpt(text: str, length: int | None = None) -> str:
    """A user's text as it may stand in a message: nothing in it steers a terminal or ends a line.

    Args:
        length: characters at most; None for all of it.
    """
    if length is not None and len(text) > length:
        text = text[: length - 1] + "…"
    return "".join(char if char.isprintable() else "\ufffd" for char in text)


def in_one_line(error: BaseException, length: int = 300) -> str:
    """Kind and message of what foreign code raised, as it may stand in a message of ours."""
    said = " ".join(str(error).split())
    return excerpt(f"{type(error).__name__}: {said}" if said else type(error).__name__, length)

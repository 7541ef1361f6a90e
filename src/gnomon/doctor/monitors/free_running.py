"""A model that predicts every next token well, and cannot write a sentence by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import ClassVar

from gnomon.doctor.monitors.monitor import Monitor, Sample, Seen, suspicion

TITLE = "What is learned with the right prefix holds without it"
FAULT = "What is learned with the right prefix does not hold without it"
CAUSE = (
    "In training the model sees what it has to predict (a missing look-ahead mask, labels that are "
    "not shifted), or decoding does not do what training does (cache, positions, begin token, "
    "tokenizer)."
)
MEND = (
    "Run the doctor's masks, loss and decoding groups on it: future-leak, label-shift, "
    "cache-differs."
)
REFERENCE = "attention-is-all-you-need-pytorch #19, #129; eole #126"
HIGH, LOW = 0.75, 0.25


class FreeRunning(Monitor):
    """Teacher-forced accuracy against the overlap of free-running outputs with references."""

    kind: ClassVar[str] = "free_running"

    def on_validation(self, step: int, sample: Sample) -> Seen | None:
        """Compare the two."""
        if sample.accuracy is None or not sample.hypotheses or not sample.references:
            return None
        overlap = token_f1(sample.hypotheses, sample.references)
        values = {"accuracy": sample.accuracy, "overlap": overlap}
        if sample.accuracy < HIGH or overlap > LOW:
            return Seen(values)
        return Seen(
            values,
            suspicion(
                "free-running",
                FAULT,
                f"at step {step} {sample.accuracy:.0%} of the tokens are right when the tokens "
                f"before them are given, but free-running outputs share only {overlap:.0%} of "
                "their words with the references",
                cause=CAUSE,
                mend=MEND,
                reference=REFERENCE,
                accuracy=sample.accuracy,
                overlap=overlap,
            ),
        )


def token_f1(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """Mean F1 of the bags of words of each line with its reference."""
    scores = []
    for one, other in zip(hypotheses, references, strict=True):
        left, right = Counter(_words(one)), Counter(_words(other))
        both = sum((left & right).values())
        total = sum(left.values()) + sum(right.values())
        scores.append(2 * both / total if total else 1.0)
    return sum(scores) / len(scores)


def _words(text: str) -> list[str]:
    """Words; of scripts without blanks, the characters."""
    words = text.split()
    return words if len(words) > 1 else list(text)

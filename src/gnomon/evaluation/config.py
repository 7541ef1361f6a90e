"""The `[evaluation]` table of a recipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Metric = Literal["bleu", "chrf", "exact_match"]
Tokenize = Literal["auto", "13a", "intl", "zh", "char", "none", "ja-mecab", "ko-mecab"]


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig:
    """Which scores to take of translations, and on which form of the text."""

    # Taken and shown in this order.
    metrics: tuple[Metric, ...] = ("bleu", "chrf", "exact_match")
    # How BLEU splits lines into words (sacreBLEU's names). "auto" decides by the target language,
    # see `bleu_tokenizer`; "ja-mecab" and "ko-mecab" need sacrebleu[ja] and sacrebleu[ko].
    tokenize: Tokenize = "auto"
    # Ignore case in all metrics.
    lowercase: bool = False
    # Validation pairs that are translated at each validation during training, from the first on;
    # the loss is always taken over all of them. 0 translates none.
    validation_lines: int = 200

    def problems(self) -> list[str]:
        """Everything wrong with these values: the rule, the value seen and the mend."""
        found = []
        known = ", ".join(get_args(Metric))
        if self.validation_lines < 0:
            found.append(f"validation_lines must be 0 or more, not {self.validation_lines}")
        if not self.metrics:
            found.append(f"metrics must name at least one of {known}; it is empty")
        for metric in self.metrics:
            if metric not in get_args(Metric):
                found.append(f"metrics may hold {known}, not {metric!r}")
        if len(set(self.metrics)) < len(self.metrics):
            found.append(f"metrics must not repeat: {', '.join(self.metrics)}")
        if self.tokenize not in get_args(Tokenize):
            known = ", ".join(get_args(Tokenize))
            found.append(f"tokenize must be one of {known}, not {self.tokenize!r}")
        return found

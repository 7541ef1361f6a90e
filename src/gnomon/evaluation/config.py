"""The `[evaluation]` table of a recipe."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, get_args

Metric = Literal["bleu", "chrf", "ter", "exact_match", "rouge", "rouge1", "rouge2", "rougeL"]
ROUGE = ("rouge1", "rouge2", "rougeL")
Tokenize = Literal["auto", "13a", "intl", "zh", "char", "none", "ja-mecab", "ko-mecab"]


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig:
    """Which scores to take of translations, and on which form of the text."""

    # Taken and shown in this order; "rouge" is short for its three kinds.
    metrics: tuple[Metric, ...] = ("bleu", "chrf", "exact_match")
    # How BLEU splits lines into words (sacreBLEU's names). "auto" decides by the target language,
    # see `bleu_tokenizer`; "ja-mecab" and "ko-mecab" need sacrebleu[ja] and sacrebleu[ko].
    tokenize: Tokenize = "auto"
    # The target language's code ("de", "zh-Hant" …), for "auto"; None goes by the script.
    language: str | None = None
    # Ignore case in all metrics; ROUGE always does.
    lowercase: bool = False
    # ROUGE compares English words without their endings (Porter's stems).
    stem: bool = False
    # Validation pairs that are translated at each validation during training, from the first on;
    # the loss is always taken over all of them. 0 translates none.
    validation_lines: int = 200
    # Bootstrap samples for the 95 % interval of each score and for comparisons, and their seed
    # (sacreBLEU's default). 0 takes no intervals. Scores during training have none.
    resamples: int = 1000
    resample_seed: int = 12345

    @property
    def scores(self) -> tuple[str, ...]:
        """Names of the scores that the metrics give."""
        parts = [ROUGE if metric == "rouge" else (metric,) for metric in self.metrics]
        return tuple(name for part in parts for name in part)

    def problems(self) -> list[str]:
        """Everything wrong with these values: the rule, the value seen and the mend."""
        found = []
        known = ", ".join(get_args(Metric))
        if self.validation_lines < 0:
            found.append(f"validation_lines must be 0 or more, not {self.validation_lines}")
        if self.resamples != 0 and not 40 <= self.resamples <= 1_000_000:
            found.append(
                "resamples must be 0 (no intervals) or from 40 to 1,000,000, since an interval of "
                f"95 % leaves one in 40 out on each side; not {self.resamples}"
            )
        if not 0 <= self.resample_seed < 2**63:
            found.append(f"resample_seed must be 0 or more, below 2^63, not {self.resample_seed}")
        if self.language is not None and not re.fullmatch(
            r"[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*", self.language
        ):
            found.append(
                f"language must be a code such as 'de' or 'zh-Hant', not {self.language!r}"
            )
        if not self.metrics:
            found.append(f"metrics must name at least one of {known}; it is empty")
        for metric in self.metrics:
            if metric not in get_args(Metric):
                found.append(f"metrics may hold {known}, not {metric!r}")
        if len(set(self.scores)) < len(self.scores):
            found.append(f"metrics must not repeat: {', '.join(self.scores)}")
        if self.tokenize not in get_args(Tokenize):
            known = ", ".join(get_args(Tokenize))
            found.append(f"tokenize must be one of {known}, not {self.tokenize!r}")
        return found

    def unused(self) -> list[str]:
        """Keys that were set but have no effect."""
        found = []
        if self.language is not None and self.tokenize != "auto":
            found.append("language has no effect beside a tokenize other than 'auto'")
        if self.stem and not {*ROUGE} & {*self.scores}:
            found.append("stem has no effect without the metric rouge")
        if self.resamples == 0 and self.resample_seed != EvaluationConfig.resample_seed:
            found.append("resample_seed has no effect without resamples")
        return found

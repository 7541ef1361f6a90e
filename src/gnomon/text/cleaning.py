"""What is looked for in each pair before it is learned from, and what is done about it.

Counting is the default. Left out without being asked is only what cannot be learned from (a pair
with an empty side); repaired only what no writer means to put into a line (control characters).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from gnomon.text.scripts import SCRIPTS

Action = Literal["drop", "keep"]

EMPTY_SIDE = "empty_side"
REASONS = {
    EMPTY_SIDE: "empty side",
    "control_characters": "control or line-separator characters",
    "encoding_damage": "damaged encoding",
    "identical_sides": "both sides the same",
    "length_ratio": "sides of very different length",
    "too_long": "very long",
    "few_letters": "hardly any letters",
    "repeated_words": "a word repeated in a row",
    "numbers_differ": "other digits on one side than on the other",
    "wrong_script": "another script than expected",
    "wrong_language": "another language than expected",
    "duplicate_pair": "the same pair as a line before",
    "duplicate_source": "the same source as a line before, another target",
    "duplicate_target": "the same target as a line before, another source",
}
"""By the key of its action in `[cleaning]`, what each reason is called in messages."""


@dataclass(frozen=True, kw_only=True)
class CleaningConfig:
    """For each reason "drop" (leave the pair out) or "keep" (count it and learn from it).

    The reasons are only counted in validation and test text, whatever is set here.
    """

    # C0 and C1 controls but TAB, U+2028, U+2029, bidirectional overrides, a BOM within the line.
    # "repair": what separates becomes a blank, what is invisible goes.
    control_characters: Literal["repair", "drop", "keep"] = "repair"
    encoding_damage: Action = "keep"  # U+FFFD, or UTF-8 that was read as Latin-1, as in "Ã¤"
    identical_sides: Action = "keep"
    length_ratio: Action = "keep"
    max_length_ratio: float = 3.0  # of the sides' words, where they differ by more than 5; of
    #                                scripts without spaces 2 (Han, kana) or 4 characters are a word
    too_long: Action = "keep"
    max_words: int = 200  # of either side, counted as for the ratio
    max_characters: int = 2000
    few_letters: Action = "keep"
    min_letters: float = 0.3  # share of a side's characters, blanks not counted
    repeated_words: Action = "keep"
    max_repeats: int = 4  # times that one word may stand in a row
    numbers_differ: Action = "keep"  # digits are compared as a bag: "1,000" is "1.000" is "1000"
    wrong_script: Action = "keep"
    source_scripts: tuple[str, ...] = ()  # as ("Latin",); most letters must be of these
    target_scripts: tuple[str, ...] = ()
    wrong_language: Action = "keep"
    source_language: str = ""  # ISO 639-1 as "en"; looked for where set: needs gnomon[language]
    target_language: str = ""
    duplicate_pair: Action = "keep"  # of several, the first one stays
    duplicate_source: Action = "keep"
    duplicate_target: Action = "keep"

    def action(self, reason: str) -> Literal["repair", "drop", "keep"]:
        """What is done with a pair that shows `reason`, a key of `REASONS`."""
        if reason == EMPTY_SIDE:
            return "drop"
        action: Literal["repair", "drop", "keep"] = getattr(self, reason)
        return action

    def problems(self) -> list[str]:
        """Return every rule broken across fields; empty if all is well."""
        found = []
        if self.max_length_ratio < 1:
            found.append(
                "cleaning.max_length_ratio must be 1 or more, "
                f"is {self.max_length_ratio}: set it to 3"
            )
        for name in ("max_words", "max_characters", "max_repeats"):
            if getattr(self, name) < 1:
                found.append(f"cleaning.{name} must be 1 or more, is {getattr(self, name)}")
        if not 0 <= self.min_letters <= 1:
            found.append(f"cleaning.min_letters is a share from 0 to 1, is {self.min_letters}")
        for name in ("source_scripts", "target_scripts"):
            for script in getattr(self, name):
                if script not in SCRIPTS:
                    found.append(
                        f"cleaning.{name} knows no {script!r}: one of {', '.join(SCRIPTS)}"
                    )
        return found

    def unused(self) -> list[str]:
        """Return a sentence for each key that has no effect beside the others."""
        found = []
        if self.wrong_script != "keep" and not (self.source_scripts or self.target_scripts):
            found.append(
                "cleaning.wrong_script has no effect: source_scripts and target_scripts are not set"
            )
        if self.wrong_language != "keep" and not (self.source_language or self.target_language):
            found.append(
                "cleaning.wrong_language has no effect: "
                "source_language and target_language are not set"
            )
        return found


assert set(REASONS) - {EMPTY_SIDE} <= {item.name for item in fields(CleaningConfig)}

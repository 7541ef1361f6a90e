"""Was the fault found, and was its component named?"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from benchmarks.deform.injection import Fault
from benchmarks.patients.examination import Examination, Seen, new_findings

_HERE = Path(__file__).parent
# "…attention.self" names "…attention.self.query.weight"; "…encoder.layer.0" does not.
_LEVELS_UP = 2


@cache
def table(name: str) -> dict[str, list[str] | str]:
    """One table of components.toml."""
    tables: dict[str, dict[str, list[str] | str]] = tomllib.loads(
        (_HERE / "components.toml").read_text(encoding="utf-8")
    )
    return tables[name]


def frozen() -> tuple[str, bool]:
    """The checksum of components.toml, and whether it is the one in FROZEN.txt."""
    digest = hashlib.sha256((_HERE / "components.toml").read_bytes()).hexdigest()
    return digest, digest in (_HERE / "FROZEN.txt").read_text(encoding="utf-8")


def right_codes(fault: Fault, scope: str) -> tuple[str, ...]:
    codes = table("codes")
    return tuple(codes.get(f"{fault.operator}@{scope}", codes[fault.operator]))


def names_altered(place: str, altered: Iterable[str]) -> bool:
    """Whether `place` (of a finding) names something that was altered.

    It may name it outright, something inside it, or what it is in, up to two levels up. The whole
    model (altered name "") is named by the words for its output alone.
    """
    words = re.findall(r"[A-Za-z_][\w.]*[\w]", place)
    for name in altered:
        for word in words:
            if name == "":
                if word in ("logits", "output", "lm_head", "cls", "classifier"):
                    return True
            elif (
                word == name
                or word.startswith(name + ".")
                or (
                    "." in word
                    and name.startswith(word + ".")
                    and name.removeprefix(word).count(".") <= _LEVELS_UP
                )
            ):
                return True
    return False


@dataclass(frozen=True)
class Judgement:
    """Of one examination: what was new against the healthy twin, and what of that was right."""

    new: tuple[Seen, ...]
    right: tuple[Seen, ...]

    @property
    def detected(self) -> bool:
        return bool(self.new)

    @property
    def named(self) -> bool:
        return bool(self.right)


def judge(
    healthy: Examination,
    ill: Examination,
    fault: Fault,
    scope: str,
    altered: Sequence[str],
    without: Iterable[str] = (),
) -> Judgement:
    """Compare the two; `without` leaves the findings of these codes out of account."""
    left_out = set(without)
    new = tuple(f for f in new_findings(healthy, ill) if f.code not in left_out)
    codes = right_codes(fault, scope)
    right = tuple(
        f for f in new if f.code in codes or any(names_altered(w, altered) for w in f.where)
    )
    return Judgement(new, right)

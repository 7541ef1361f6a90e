"""The steps of a generation beside one full pass over the text that came of it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from torch import Tensor

from gnomon.doctor.call import Call
from gnomon.doctor.case import Case
from gnomon.doctor.facts.decoding.generation import Generated, continued, ends
from gnomon.doctor.run import difference


@dataclass(frozen=True)
class Compared:
    """Where the two were farthest apart.

    Attributes:
        of: what the prompts were taken from; None: `case.small`.
        moved: in units of the spread of the scores.
        steps: how many were compared, of all rows.
    """

    made: Generated
    of: Call | None
    moved: float
    row: int
    step: int
    steps: int

    @property
    def what(self) -> str:
        """What was compared."""
        return "scores" if self.made.steps else "chosen tokens' scores"

    @property
    def prompt(self) -> int:
        """How many tokens the prompts have."""
        return self.made.call.length(self.made.call.read)


def compared(case: Case, made: Generated, of: Call | None) -> Compared:
    """Every step of every row, up to the first that differs by more than rounding."""
    full = continued(case, made.call, made.tokens, of)
    over, pads = ends(case), {stream.pad_id for stream in made.call.streams.values()}
    worst, at, at_row, steps = 0.0, 0, 0, 0
    for row in range(made.tokens.size(0)):
        for step in range(_steps_in_earnest(made, row, over, pads)):
            steps += 1
            moved = _apart(made, full[row, step], row, step)
            if moved > worst:
                worst, at, at_row = moved, step, row
            if moved > case.tolerance:
                break
    return Compared(made, of, worst, at_row, at, steps)


def _steps_in_earnest(
    made: Generated, row: int, over: Collection[int], pads: Collection[int | None]
) -> int:
    """How many steps count: beyond a text's end those that a loop chooses as any other.

    Many loops fill up with padding there.
    """
    tokens: list[int] = made.tokens[row].tolist()
    for place, token in enumerate(tokens[:-1]):
        going_on = token not in pads and bool(made.steps)
        if token in over and not (
            going_on and tokens[place + 1] == int(made.logits(place + 1, row).argmax())
        ):
            return place + 1
    return len(tokens)


def _apart(made: Generated, full: Tensor, row: int, step: int) -> float:
    if made.steps:
        return difference(made.logits(step, row)[None], full[None])
    # The token was chosen as the best one: by how much is another better here?
    spread = float(full.double().std()) or 1.0
    return float(full.max() - full[made.tokens[row, step]]) / spread

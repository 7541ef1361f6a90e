"""What one sentence's output must and must not hold, in tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


class TokenAutomaton(Protocol):
    """A deterministic automaton over token ids in which some steps are forbidden."""

    @property
    def start(self) -> int:
        """The state before the first token."""
        ...

    def allowed(self, state: int) -> Tensor:
        """What may follow in `state`: [V] boolean, on the CPU."""
        ...

    def after(self, state: int, token: int) -> int:
        """The state after `token`; any state where it is not allowed."""
        ...

    def is_free(self, state: int) -> bool:
        """Whether nothing is forbidden in `state`, nor in any state after it."""
        ...


@dataclass(frozen=True, slots=True)
class Constraints:
    """The constraints of one sentence.

    Attributes:
        prefix: forces how the output begins; it goes before the other rules of repetition.
        banned: forbids what may nowhere be.
        required: token sequences that the output must contain; beam search only.
    """

    prefix: TokenAutomaton | None = None
    banned: TokenAutomaton | None = None
    required: tuple[tuple[int, ...], ...] = ()


class Walk:
    """Where every hypothesis of a batch stands in its sentence's automaton."""

    def __init__(self, automata: Sequence[TokenAutomaton | None]) -> None:
        self.automata = list(automata)
        self.states = [[0 if each is None else each.start] for each in automata]

    def bound(self) -> list[list[bool]]:
        """[B][k], whether the automaton can still forbid anything."""
        return [
            [each is not None and not each.is_free(state) for state in states]
            for each, states in zip(self.automata, self.states, strict=True)
        ]

    def forbid(self, log_probs: Tensor) -> None:
        """Make forbidden tokens impossible, in place: [B, k, V]."""
        places, rows = [], []
        for b, (each, states) in enumerate(zip(self.automata, self.states, strict=True)):
            for j, state in enumerate(states):
                if each is not None and not each.is_free(state):
                    places.append((b, j))
                    rows.append(each.allowed(state))
        if places:
            first, second = torch.tensor(places, device=log_probs.device).unbind(1)
            forbidden = ~torch.stack(rows).to(log_probs.device)
            log_probs[first, second] = log_probs[first, second].masked_fill(forbidden, -torch.inf)

    def advance(self, parents: Sequence[Sequence[int]], tokens: Sequence[Sequence[int]]) -> None:
        """Hypothesis j becomes its parent and one token."""
        self.states = [
            [
                0 if each is None else _next(each, states[parent], token)
                for parent, token in zip(parent_row, token_row, strict=True)
            ]
            for each, states, parent_row, token_row in zip(
                self.automata, self.states, parents, tokens, strict=True
            )
        ]

    def keep(self, sentences: Sequence[int]) -> None:
        """Keep these sentences only."""
        self.automata = [self.automata[b] for b in sentences]
        self.states = [self.states[b] for b in sentences]


def _next(automaton: TokenAutomaton, state: int, token: int) -> int:
    return state if automaton.is_free(state) else automaton.after(state, token)

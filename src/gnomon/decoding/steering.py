"""What the options of a search do between the model's scores and the choice of tokens."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gnomon.decoding.config import SearchConfig
from gnomon.decoding.constraints import Constraints, TokenAutomaton, Walk
from gnomon.decoding.penalties import coverage_score, forbid_repeated_ngrams, penalise_repetition
from gnomon.decoding.required import RequiredPhrases
from gnomon.decoding.rules import SearchRules
from gnomon.decoding.scorer import AttendingScorer, TokenScorer
from gnomon.decoding.topk import best_extensions
from gnomon.errors import ModelError, RecipeError


class Steering:
    """The options of one search over one batch, with what they remember of each hypothesis.

    At every step the search calls `apply`, then `extensions` or a choice of its own, then
    `advance`, and `keep` where sentences leave. What is not asked for costs nothing.
    """

    def __init__(
        self,
        scorer: TokenScorer,
        config: SearchConfig,
        rules: SearchRules,
        constraints: Sequence[Constraints] | None,
    ) -> None:
        if constraints is not None and len(constraints) != scorer.num_sentences:
            raise ModelError(
                "A search needs one set of constraints per sentence.",
                seen=f"{len(constraints)} for {scorer.num_sentences} sentences",
            )
        each = constraints or ()
        self.scorer = scorer
        self.config = config
        self.rules = rules
        self.reweighs = config.repetition_penalty != 1.0
        self.prefix = _walk([one.prefix for one in each])
        self.banned = _walk([one.banned for one in each])
        self.required: RequiredPhrases | None = None
        if any(one.required for one in each):
            self.required = self._required([one.required for one in each])
        self.attending: AttendingScorer | None = None
        self.coverage: Tensor | None = None  # [B, k, S]
        if config.coverage_penalty > 0:
            if not isinstance(scorer, AttendingScorer):
                raise ModelError(
                    "A coverage penalty needs a model with attention to its source.",
                    seen=type(scorer).__name__,
                    mend="leave coverage_penalty at 0",
                )
            self.attending = scorer
        self._advancing: Tensor | None = None

    def _required(self, phrases: Sequence[Sequence[Sequence[int]]]) -> RequiredPhrases:
        if self.config.beam < 2:
            raise RecipeError(
                "required phrases need hypotheses to choose among",
                seen=f"beam = {self.config.beam}",
                mend="set beam to 2 or more",
            )
        required = RequiredPhrases(phrases, self.rules.never[0], self.scorer.device)
        if bool((required.needed()[:, 0] >= self.rules.max_lengths).any()):
            raise RecipeError("required phrases and the end of an output must fit its length limit")
        return required

    def apply(self, log_probs: Tensor, history: Tensor, length: int) -> Tensor:
        """What token number `length` is chosen by, out of the model's log-probabilities.

        Args:
            log_probs: [B, k, V], the model's own; may be overwritten, but only by -inf.
            history: [B, k, T] tokens so far.
        """
        ranked = self.rules.ban(log_probs, length)
        if self.reweighs:
            ranked = penalise_repetition(ranked, history, self.config.repetition_penalty)
        bound = None if self.prefix is None else self.prefix.bound()
        for walk in (self.prefix, self.banned):
            if walk is not None:
                walk.forbid(ranked)
        if self.required is not None:
            self._advancing = self.required.own_scores(ranked)
        if self.config.no_repeat_ngram:
            free = torch.ones(history.shape[:2], dtype=torch.bool, device=history.device)
            if bound is not None:
                free = ~torch.tensor(bound, device=history.device)
            forbid_repeated_ngrams(ranked, history, self.config.no_repeat_ngram, free)
        return ranked

    def extensions(
        self, log_probs: Tensor, ranked: Tensor, count: int, limits: Tensor, length: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The `count` extensions to go on with; see `best_extensions`."""
        if self.required is None or self._advancing is None:
            return best_extensions(log_probs, ranked, count)
        return self.required.extensions(
            log_probs,
            ranked,
            self._advancing,
            count,
            room=limits - length,
            eos_id=self.rules.eos_id,
        )

    def bonus(self, parents: Tensor) -> Tensor | None:
        """What coverage adds to the score of the extensions of `parents` [B, k]; None: nothing."""
        if self.attending is None:
            return None
        attention, keep = self.attending.attention()
        covered = attention if self.coverage is None else self.coverage + attention
        scores = coverage_score(covered, keep, self.config.coverage_penalty)
        self.coverage = covered.gather(1, parents.unsqueeze(-1).expand(-1, -1, covered.size(-1)))
        return scores.gather(1, parents)

    def advance(self, parents: Tensor, tokens: Tensor) -> None:
        """Hypothesis j [B, k] becomes its parent and one token."""
        walks = [walk for walk in (self.prefix, self.banned) if walk is not None]
        if walks:
            parent_rows, token_rows = parents.tolist(), tokens.tolist()
            for walk in walks:
                walk.advance(parent_rows, token_rows)
        if self.required is not None:
            self.required.advance(parents, tokens)

    def keep(self, sentences: Tensor) -> None:
        """Keep these sentences only."""
        for walk in (self.prefix, self.banned):
            if walk is not None:
                walk.keep(sentences.tolist())
        if self.required is not None:
            self.required.keep(sentences)
        if self.coverage is not None:
            self.coverage = self.coverage[sentences]


def _walk(automata: Sequence[TokenAutomaton | None]) -> Walk | None:
    return Walk(automata) if any(each is not None for each in automata) else None

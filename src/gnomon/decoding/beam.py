"""Beam search over a batch of sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
import torch.nn.functional as F
from torch import Tensor

from gnomon.decoding.config import SearchConfig
from gnomon.decoding.constraints import Constraints
from gnomon.decoding.hypothesis import Hypothesis
from gnomon.decoding.rules import SearchRules, no_output, split_finished
from gnomon.decoding.scorer import TokenScorer
from gnomon.decoding.steering import Steering


@torch.inference_mode()
def beam_search(
    scorer: TokenScorer,
    config: SearchConfig,
    *,
    pad_id: int | None,
    bos_id: int | None,
    eos_id: int,
    max_lengths: Sequence[int],
    constraints: Sequence[Constraints] | None = None,
) -> list[list[Hypothesis]]:
    """Find the outputs with the highest scores, keeping `config.beam` hypotheses per sentence.

    Each step takes the `beam` most probable one-token extensions of a sentence's live
    hypotheses. Those that end in EOS are complete; the rest live on. So with beam 1 the first
    EOS ends the sentence, as in greedy search; and with a beam that holds all extensions of
    every step the result is the exact optimum. Between the two nothing is guaranteed: a wider
    beam usually finds a higher score, but need not.

    A sentence is finished when it has `nbest` complete hypotheses and no live one can still
    beat the worst of them (see `SearchRules.best_future_score`), or at its length limit. What
    is found for a sentence depends on that sentence's log-probabilities alone, never on its
    neighbours or their order.

    Args:
        scorer: fresh, with one empty hypothesis per sentence; it is used up.
        pad_id, bos_id: never generated; None: there is no such token, or it is EOS, and the scorer
            knows what its texts begin with.
        max_lengths: the longest output of each sentence, in tokens with EOS (`config.max_lengths`).
        constraints: of each sentence; None: none.

    Returns:
        For each sentence at most `nbest` different hypotheses, fewer if the search met fewer:
        the complete ones by falling score, then, only where these are too few, those the length
        limit cut off (`truncated`), by falling score.

    Raises:
        RecipeError: `config` has problems.
        ModelError: the limits do not fit the scorer, or its scores are not log-probabilities.
    """
    rules = SearchRules(
        scorer, config, pad_id=pad_id, bos_id=bos_id, eos_id=eos_id, max_lengths=max_lengths
    )
    steering = Steering(scorer, config, rules, constraints)
    beams = _Beams.empty(len(max_lengths), config.nbest, scorer.device)
    tokens = torch.full((len(max_lengths), 1), bos_id or 0, device=scorer.device)
    results: dict[int, list[Hypothesis]] = {}
    finished: list[_Beams] = []
    for length in range(1, rules.longest + 1):
        limits = rules.max_lengths[beams.places]
        own = scorer.next_log_probs(tokens)
        ranked = steering.apply(own, beams.tokens, length)
        log_probs, parents, tokens = steering.extensions(
            beams.log_probs, ranked, config.beam, limits, length
        )
        own_log_probs = _summed(beams.own, own, parents, tokens) if steering.reweighs else log_probs
        bonus = steering.bonus(parents)
        steering.advance(parents, tokens)
        beams = beams.extended(
            log_probs, own_log_probs, parents, tokens, eos_id, rules.penalties[length], bonus
        )

        hope = rules.best_future_score(beams.log_probs.amax(1), length, limits)
        done = (hope <= beams.complete_scores[:, -1]) | (limits <= length)
        leaving, staying = split_finished(done, log_probs)
        if len(leaving) == 0:
            scorer.select(None, parents)
            continue
        finished.append(beams.rows(leaving))
        if len(staying) == 0:
            break
        beams, tokens = beams.rows(staying), tokens[staying]
        steering.keep(staying)
        scorer.select(staying, parents[staying])
    for batch in finished:
        results.update(batch.hypotheses())
    return [results[place][: config.nbest] for place in range(len(max_lengths))]


@dataclass(frozen=True, slots=True)
class _Beams:
    """The hypotheses of the sentences still in the search: k live and n complete ones each.

    An empty place has the log-probability or score -inf.
    """

    places: Tensor  # [B] of the sentences in the result
    tokens: Tensor  # [B, k, T] of the live hypotheses, all T tokens long
    log_probs: Tensor  # [B, k], what hypotheses are compared by
    own: Tensor  # [B, k], the model's own log-probabilities, which are reported
    scores: Tensor  # [B, k], what a live one would score if it were cut off here
    complete_tokens: Tensor  # [B, n, T], ended by EOS and then filled up
    complete_lengths: Tensor  # [B, n] in tokens with EOS
    complete_own: Tensor  # [B, n]
    complete_scores: Tensor  # [B, n], falling

    @staticmethod
    def empty(num_sentences: int, nbest: int, device: torch.device) -> _Beams:
        """One live hypothesis without tokens per sentence, and nothing complete."""
        B, n = num_sentences, nbest
        nothing = torch.full((B, n), -torch.inf, device=device)
        return _Beams(
            places=torch.arange(B, device=device),
            tokens=torch.zeros(B, 1, 0, dtype=torch.long, device=device),
            log_probs=torch.zeros(B, 1, device=device),
            own=torch.zeros(B, 1, device=device),
            scores=torch.zeros(B, 1, device=device),
            complete_tokens=torch.zeros(B, n, 0, dtype=torch.long, device=device),
            complete_lengths=torch.zeros(B, n, dtype=torch.long, device=device),
            complete_own=nothing,
            complete_scores=nothing,
        )

    def extended(
        self,
        log_probs: Tensor,
        own: Tensor,
        parents: Tensor,
        tokens: Tensor,
        eos_id: int,
        penalty: Tensor,
        bonus: Tensor | None,
    ) -> _Beams:
        """One token on: extensions with EOS become complete, of which the best n are kept.

        Args:
            log_probs, own, parents, tokens: [B, k] each, of the extensions.
            penalty: the divisor that turns log-probabilities of the new length into scores.
            bonus: [B, k], added to the scores.
        """
        tokens = torch.cat((_pick(self.tokens, parents), tokens.unsqueeze(-1)), -1)
        ended = tokens[..., -1] == eos_id
        lengths = torch.full_like(parents, tokens.size(-1))
        scores = log_probs / penalty if bonus is None else log_probs / penalty + bonus

        complete_tokens = torch.cat((F.pad(self.complete_tokens, (0, 1)), tokens), 1)
        n = self.complete_scores.size(1)
        all_scores = torch.cat((self.complete_scores, scores.masked_fill(~ended, -torch.inf)), 1)
        best = all_scores.sort(dim=1, descending=True, stable=True).indices[:, :n]
        return _Beams(
            places=self.places,
            tokens=tokens,
            log_probs=log_probs.masked_fill(ended, -torch.inf),
            own=own,
            scores=scores,
            complete_tokens=_pick(complete_tokens, best),
            complete_lengths=torch.cat((self.complete_lengths, lengths), 1).gather(1, best),
            complete_own=torch.cat((self.complete_own, own), 1).gather(1, best),
            complete_scores=all_scores.gather(1, best),
        )

    def rows(self, sentences: Tensor) -> _Beams:
        """These sentences only."""
        return _Beams(
            **{field.name: getattr(self, field.name)[sentences] for field in fields(self)}
        )

    def hypotheses(self) -> dict[int, list[Hypothesis]]:
        """By place in the result: the complete hypotheses, then the live ones as truncated."""
        complete = zip(
            self.complete_tokens.tolist(),
            self.complete_lengths.tolist(),
            self.complete_scores.tolist(),
            self.complete_own.tolist(),
            strict=True,
        )
        # An ended one is no longer live, and has the log-probability -inf.
        scores = self.scores.masked_fill(self.log_probs == -torch.inf, -torch.inf)
        best = scores.sort(dim=1, descending=True, stable=True)
        live = zip(
            _pick(self.tokens, best.indices).tolist(),
            best.values.tolist(),
            self.own.gather(1, best.indices).tolist(),
            strict=True,
        )
        found = {}
        for place, complete_columns, live_columns in zip(
            self.places.tolist(), complete, live, strict=True
        ):
            found[place] = [
                Hypothesis(tokens[:length], score, own, truncated=False)
                for tokens, length, score, own in zip(*complete_columns, strict=True)
                if score > -math.inf
            ] + [
                Hypothesis(tokens, score, own, truncated=True)
                for tokens, score, own in zip(*live_columns, strict=True)
                if score > -math.inf
            ]
            if not found[place]:
                raise no_output(place)
        return found


def _pick(table: Tensor, places: Tensor) -> Tensor:
    """Rows `places` [B, m] of `table` [B, k, T], sentence by sentence: [B, m, T]."""
    return table.gather(1, places.unsqueeze(-1).expand(-1, -1, table.size(-1)))


def _summed(sums: Tensor, own: Tensor, parents: Tensor, tokens: Tensor) -> Tensor:
    """[B, k] sums of the parents, and what `own` [B, k', V] gives the chosen tokens."""
    return sums.gather(1, parents) + _pick(own, parents).gather(2, tokens.unsqueeze(-1))[..., 0]

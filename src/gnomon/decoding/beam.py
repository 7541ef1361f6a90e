"""Beam search over a batch of sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
import torch.nn.functional as F
from torch import Tensor

from gnomon.decoding.config import SearchConfig
from gnomon.decoding.hypothesis import Hypothesis
from gnomon.decoding.rules import SearchRules, no_output, split_finished
from gnomon.decoding.scorer import TokenScorer
from gnomon.decoding.topk import best_extensions


@torch.inference_mode()
def beam_search(
    scorer: TokenScorer,
    config: SearchConfig,
    *,
    pad_id: int,
    bos_id: int,
    eos_id: int,
    max_lengths: Sequence[int],
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
        pad_id, bos_id: never generated.
        max_lengths: the longest output of each sentence, in tokens with EOS (`config.max_lengths`).

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
    beams = _Beams.empty(len(max_lengths), config.nbest, scorer.device)
    tokens = torch.full((len(max_lengths), 1), bos_id, device=scorer.device)
    results: dict[int, list[Hypothesis]] = {}
    finished: list[_Beams] = []
    for length in range(1, rules.longest + 1):
        next_log_probs = rules.ban(scorer.next_log_probs(tokens), length)
        log_probs, parents, tokens = best_extensions(beams.log_probs, next_log_probs, config.beam)
        beams = beams.extended(log_probs, parents, tokens, eos_id, rules.penalties[length])

        limits = rules.max_lengths[beams.places]
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
        scorer.select(staying, parents[staying])
    for batch in finished:
        results.update(batch.hypotheses(rules.penalties))
    return [results[place][: config.nbest] for place in range(len(max_lengths))]


@dataclass(frozen=True, slots=True)
class _Beams:
    """The hypotheses of the sentences still in the search: k live and n complete ones each.

    An empty place has the log-probability or score -inf.
    """

    places: Tensor  # [B] of the sentences in the result
    tokens: Tensor  # [B, k, T] of the live hypotheses, all T tokens long
    log_probs: Tensor  # [B, k], falling
    complete_tokens: Tensor  # [B, n, T], ended by EOS and then filled up
    complete_lengths: Tensor  # [B, n] in tokens with EOS
    complete_log_probs: Tensor  # [B, n]
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
            complete_tokens=torch.zeros(B, n, 0, dtype=torch.long, device=device),
            complete_lengths=torch.zeros(B, n, dtype=torch.long, device=device),
            complete_log_probs=nothing,
            complete_scores=nothing,
        )

    def extended(
        self, log_probs: Tensor, parents: Tensor, tokens: Tensor, eos_id: int, penalty: Tensor
    ) -> _Beams:
        """One token on: extensions with EOS become complete, of which the best n are kept.

        Args:
            log_probs, parents, tokens: [B, k] each, from `best_extensions`.
            penalty: the divisor that turns log-probabilities of the new length into scores.
        """
        tokens = torch.cat((_pick(self.tokens, parents), tokens.unsqueeze(-1)), -1)
        ended = tokens[..., -1] == eos_id
        lengths = torch.full_like(parents, tokens.size(-1))
        scores = (log_probs / penalty).masked_fill(~ended, -torch.inf)

        complete_tokens = torch.cat((F.pad(self.complete_tokens, (0, 1)), tokens), 1)
        n = self.complete_scores.size(1)
        scores = torch.cat((self.complete_scores, scores), 1)
        best = scores.sort(dim=1, descending=True, stable=True).indices[:, :n]
        return _Beams(
            places=self.places,
            tokens=tokens,
            log_probs=log_probs.masked_fill(ended, -torch.inf),
            complete_tokens=_pick(complete_tokens, best),
            complete_lengths=torch.cat((self.complete_lengths, lengths), 1).gather(1, best),
            complete_log_probs=torch.cat((self.complete_log_probs, log_probs), 1).gather(1, best),
            complete_scores=scores.gather(1, best),
        )

    def rows(self, sentences: Tensor) -> _Beams:
        """These sentences only."""
        return _Beams(
            **{field.name: getattr(self, field.name)[sentences] for field in fields(self)}
        )

    def hypotheses(self, penalties: Tensor) -> dict[int, list[Hypothesis]]:
        """By place in the result: the complete hypotheses, then the live ones as truncated."""
        live_scores = self.log_probs / penalties[self.tokens.size(-1)]
        complete = zip(
            self.complete_tokens.tolist(),
            self.complete_lengths.tolist(),
            self.complete_scores.tolist(),
            self.complete_log_probs.tolist(),
            strict=True,
        )
        live = zip(self.tokens.tolist(), live_scores.tolist(), self.log_probs.tolist(), strict=True)
        found = {}
        for place, complete_columns, live_columns in zip(
            self.places.tolist(), complete, live, strict=True
        ):
            found[place] = [
                Hypothesis(tokens[:length], score, log_prob, truncated=False)
                for tokens, length, score, log_prob in zip(*complete_columns, strict=True)
                if score > -math.inf
            ] + [
                Hypothesis(tokens, score, log_prob, truncated=True)
                for tokens, score, log_prob in zip(*live_columns, strict=True)
                if log_prob > -math.inf
            ]
            if not found[place]:
                raise no_output(place)
        return found


def _pick(table: Tensor, places: Tensor) -> Tensor:
    """Rows `places` [B, m] of `table` [B, k, T], sentence by sentence: [B, m, T]."""
    return table.gather(1, places.unsqueeze(-1).expand(-1, -1, table.size(-1)))

"""Greedy search: the most probable next token, again and again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from gnomon.decoding.config import SearchConfig
from gnomon.decoding.constraints import Constraints
from gnomon.decoding.hypothesis import Hypothesis
from gnomon.decoding.rules import SearchRules, no_output, split_finished
from gnomon.decoding.scorer import TokenScorer
from gnomon.decoding.steering import Steering
from gnomon.decoding.steps import Step, Steps, exhaust
from gnomon.decoding.topk import best_extensions


def greedy_search(
    scorer: TokenScorer,
    config: SearchConfig,
    *,
    pad_id: int | None,
    bos_id: int | None,
    eos_id: int,
    max_lengths: Sequence[int],
    constraints: Sequence[Constraints] | None = None,
) -> list[Hypothesis]:
    """Extend each sentence by its most probable token until EOS or its length limit.

    Equal, bit for bit, to `beam_search` with beam 1. Of `config`, the minimum length and the
    penalties matter; beam, nbest and coverage do not.

    Args and raises: as for `beam_search`.

    Returns:
        One hypothesis per sentence.
    """
    return exhaust(
        greedy_steps(
            scorer,
            config,
            pad_id=pad_id,
            bos_id=bos_id,
            eos_id=eos_id,
            max_lengths=max_lengths,
            constraints=constraints,
        )
    )


@torch.inference_mode()
def greedy_steps(
    scorer: TokenScorer,
    config: SearchConfig,
    *,
    pad_id: int | None,
    bos_id: int | None,
    eos_id: int,
    max_lengths: Sequence[int],
    constraints: Sequence[Constraints] | None = None,
) -> Steps[list[Hypothesis]]:
    """`greedy_search` step by step."""
    rules = SearchRules(
        scorer, config, pad_id=pad_id, bos_id=bos_id, eos_id=eos_id, max_lengths=max_lengths
    )
    # Required phrases need a beam, which Steering says.
    steering = Steering(scorer, replace(config, beam=1, coverage_penalty=0.0), rules, constraints)
    active = torch.arange(len(max_lengths), device=scorer.device)  # [B] places in the result
    log_probs = own = torch.zeros(len(active), 1, device=scorer.device)
    tokens = torch.full((len(active), 1), bos_id or 0, device=scorer.device)
    history = tokens[:, :0]  # [B, length]
    finished: list[tuple[Tensor, ...]] = []
    for length in range(1, rules.longest + 1):
        next_log_probs = scorer.next_log_probs(tokens)
        ranked = steering.apply(next_log_probs, history.unsqueeze(1), length)
        log_probs, parents, tokens = best_extensions(log_probs, ranked, 1)
        own = own + next_log_probs[:, 0].gather(1, tokens) if steering.reweighs else log_probs
        steering.advance(parents, tokens)
        history = torch.cat((history, tokens), 1)
        truncated = tokens[:, 0] != eos_id
        done = ~truncated | (rules.max_lengths[active] <= length)
        if stopped := (yield Step(active, tokens, own)):
            done |= torch.isin(active, torch.tensor(sorted(stopped), device=active.device))
        leaving, staying = split_finished(done, log_probs)
        if len(leaving) == 0:
            continue
        scores = log_probs / rules.penalties[length]
        columns = (active, history, scores[:, 0], own[:, 0], truncated)
        finished.append(tuple(column[leaving] for column in columns))
        if len(staying) == 0:
            break
        scorer.select(staying, parents[staying])
        steering.keep(staying)
        active, history, tokens = active[staying], history[staying], tokens[staying]
        log_probs, own = log_probs[staying], own[staying]
    results: dict[int, Hypothesis] = {}
    for batch in finished:
        for place, row, score, log_prob, cut in zip(
            *(column.tolist() for column in batch), strict=True
        ):
            if log_prob == -math.inf:
                raise no_output(place)
            results[place] = Hypothesis(row, score, log_prob, cut)
    return [results[place] for place in range(len(max_lengths))]

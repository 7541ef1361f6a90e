"""Greedy search: the most probable next token, again and again."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from gnomon.decoding.config import SearchConfig
from gnomon.decoding.hypothesis import Hypothesis
from gnomon.decoding.rules import SearchRules, no_output, split_finished
from gnomon.decoding.scorer import TokenScorer
from gnomon.decoding.topk import best_extensions


@torch.inference_mode()
def greedy_search(
    scorer: TokenScorer,
    config: SearchConfig,
    *,
    pad_id: int,
    bos_id: int,
    eos_id: int,
    max_lengths: Sequence[int],
) -> list[Hypothesis]:
    """Extend each sentence by its most probable token until EOS or its length limit.

    Equal, bit for bit, to `beam_search` with beam 1. Of `config`, the minimum length and the
    penalty that turns a log-probability into a score matter; beam and nbest do not.

    Args and raises: as for `beam_search`.

    Returns:
        One hypothesis per sentence.
    """
    rules = SearchRules(
        scorer, config, pad_id=pad_id, bos_id=bos_id, eos_id=eos_id, max_lengths=max_lengths
    )
    active = torch.arange(len(max_lengths), device=scorer.device)  # [B] places in the result
    log_probs = torch.zeros(len(active), 1, device=scorer.device)
    tokens = torch.full((len(active), 1), bos_id, device=scorer.device)
    history = tokens[:, :0]  # [B, length]
    finished: list[tuple[Tensor, ...]] = []
    for length in range(1, rules.longest + 1):
        next_log_probs = rules.ban(scorer.next_log_probs(tokens), length)
        log_probs, parents, tokens = best_extensions(log_probs, next_log_probs, 1)
        history = torch.cat((history, tokens), 1)
        truncated = tokens[:, 0] != eos_id
        done = ~truncated | (rules.max_lengths[active] <= length)
        leaving, staying = split_finished(done, log_probs)
        if len(leaving) == 0:
            continue
        scores = log_probs / rules.penalties[length]
        columns = (active, history, scores[:, 0], log_probs[:, 0], truncated)
        finished.append(tuple(column[leaving] for column in columns))
        if len(staying) == 0:
            break
        scorer.select(staying, parents[staying])
        active, history = active[staying], history[staying]
        log_probs, tokens = log_probs[staying], tokens[staying]
    results: dict[int, Hypothesis] = {}
    for batch in finished:
        for place, row, score, log_prob, cut in zip(
            *(column.tolist() for column in batch), strict=True
        ):
            if log_prob == -math.inf:
                raise no_output(place)
            results[place] = Hypothesis(row, score, log_prob, cut)
    return [results[place] for place in range(len(max_lengths))]

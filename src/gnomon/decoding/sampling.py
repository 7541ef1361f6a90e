"""Outputs drawn at random from the model's distribution, the same whatever the batch."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from gnomon.decoding.config import SearchConfig
from gnomon.decoding.constraints import Constraints
from gnomon.decoding.hypothesis import Hypothesis
from gnomon.decoding.rules import SearchRules, no_output, split_finished
from gnomon.decoding.scorer import TokenScorer
from gnomon.decoding.steering import Steering
from gnomon.decoding.steps import Step, Steps, exhaust
from gnomon.errors import RecipeError

_BLOCK = 64  # places of an output that numbers are drawn for at a time


def sample(
    scorer: TokenScorer,
    config: SearchConfig,
    *,
    pad_id: int | None,
    bos_id: int | None,
    eos_id: int,
    max_lengths: Sequence[int],
    keys: Sequence[int],
    constraints: Sequence[Constraints] | None = None,
) -> list[list[Hypothesis]]:
    """Draw `config.nbest` outputs per sentence, token by token.

    A token is drawn from the model's distribution after the repetition penalty and the rules of
    what may not come, divided by the temperature, and cut by `top_k`, `top_p` and `min_p`. Which
    one is decided by one number per token that is a pure function of seed, key, number of the
    sample and length (Philox, a counter-based generator: Salmon et al. 2011), so that neither
    neighbours nor `nbest` change a sample.

    Args:
        keys: what tells the sentences apart, for example their place in the input.
        max_lengths, constraints: as for `beam_search`; required phrases are refused.

    Returns:
        For each sentence its samples in the order they were drawn. Their `log_prob` is the model's
        own, without temperature and filters.

    Raises:
        RecipeError: `config` has problems, or a phrase is required.
        ModelError: as for `beam_search`.
    """
    return exhaust(
        sample_steps(
            scorer,
            config,
            pad_id=pad_id,
            bos_id=bos_id,
            eos_id=eos_id,
            max_lengths=max_lengths,
            keys=keys,
            constraints=constraints,
        )
    )


@torch.inference_mode()
def sample_steps(
    scorer: TokenScorer,
    config: SearchConfig,
    *,
    pad_id: int | None,
    bos_id: int | None,
    eos_id: int,
    max_lengths: Sequence[int],
    keys: Sequence[int],
    constraints: Sequence[Constraints] | None = None,
) -> Steps[list[list[Hypothesis]]]:
    """`sample` step by step."""
    if any(each.required for each in constraints or ()):
        raise RecipeError(
            "sampling cannot promise required phrases", mend="use beam search for them"
        )
    rules = SearchRules(
        scorer, config, pad_id=pad_id, bos_id=bos_id, eos_id=eos_id, max_lengths=max_lengths
    )
    steering = Steering(scorer, config, rules, constraints)
    device, n = scorer.device, config.nbest
    active = torch.arange(len(max_lengths), device=device)  # [B] places in the result
    log_probs = torch.zeros(len(active), n, device=device)
    alive = torch.ones(len(active), n, dtype=torch.bool, device=device)
    parents = torch.zeros(len(active), n, dtype=torch.long, device=device)
    tokens = torch.full((len(active), 1), bos_id or 0, device=device)
    history = torch.zeros(len(active), 1, 0, dtype=torch.long, device=device)  # [B, n, length]
    results: dict[int, list[Hypothesis]] = {}
    for length in range(1, rules.longest + 1):
        own = scorer.next_log_probs(tokens)
        peak = own.amax(-1).gather(1, parents)  # NaN if any is
        ranked = steering.apply(own, history, length)
        place = (length - 1) % _BLOCK
        if place == 0:  # few at a time: outputs end long before their limit
            own_keys = [keys[b] for b in active.tolist()]
            numbers = _numbers(config.seed, own_keys, n, length - 1).to(device)  # [B, n, _BLOCK]
        tokens = draw(ranked, parents, numbers[..., place], config)
        tokens = tokens.masked_fill(~alive, eos_id)
        drawn = _chosen(own, parents, tokens)
        # Where every token is forbidden, none was drawn.
        drawn = drawn.masked_fill(_chosen(ranked, parents, tokens) == -torch.inf, -torch.inf)
        log_probs = torch.where(alive, log_probs + drawn, log_probs)
        steering.advance(parents, tokens)
        history = history.gather(1, parents.unsqueeze(-1).expand(-1, -1, length - 1))
        history = torch.cat((history, tokens.unsqueeze(-1)), -1)
        alive = alive & (tokens != eos_id) & (log_probs > -torch.inf)

        done = ~alive.any(1) | (rules.max_lengths[active] <= length)
        if stopped := (yield Step(active, tokens, log_probs)):
            done |= torch.isin(active, torch.tensor(sorted(stopped), device=device))
        sane = torch.where((peak <= 0).all(1), 0.0, torch.inf)
        leaving, staying = split_finished(done, sane.unsqueeze(1))
        for place, rows, sums in zip(
            active[leaving].tolist(),
            history[leaving].tolist(),
            log_probs[leaving].tolist(),
            strict=True,
        ):
            results[place] = [
                _hypothesis(row, total, config, eos_id, place)
                for row, total in zip(rows, sums, strict=True)
            ]
        if len(staying) == 0:
            break
        scorer.select(staying if len(leaving) else None, parents[staying])
        steering.keep(staying)
        active, history, tokens = active[staying], history[staying], tokens[staying]
        log_probs, alive, numbers = log_probs[staying], alive[staying], numbers[staying]
        parents = torch.arange(n, device=device).expand(len(active), n)
    return [results[place] for place in range(len(max_lengths))]


def draw(log_probs: Tensor, parents: Tensor, numbers: Tensor, config: SearchConfig) -> Tensor:
    """Tokens [B, n] by inverting the cumulative distribution of the parents' rows.

    Args:
        log_probs: [B, k, V] up to a constant; -inf is never drawn where anything else is there.
        parents: [B, n] rows to draw from.
        numbers: [B, n] float64, uniform in [0, 1).
    """
    # The best one first becomes 0, which no temperature however low makes infinite.
    peak = log_probs.amax(-1, keepdim=True).clamp(min=torch.finfo(log_probs.dtype).min)
    scaled = (log_probs.double() - peak) / config.temperature
    # Most probable first; of equals the lower token first, as everywhere.
    probabilities, order = scaled.softmax(-1).sort(dim=-1, descending=True, stable=True)
    total = probabilities.cumsum(-1)
    rank = torch.arange(total.size(-1), device=total.device)
    passes = (total - probabilities < config.top_p) & (
        probabilities >= config.min_p * probabilities[..., :1]
    )
    if config.top_k:
        passes &= rank < min(config.top_k, total.size(-1))
    passes |= rank == 0
    last = (passes & (probabilities > 0)).sum(-1, keepdim=True) - 1  # filters keep a beginning
    whole = total.gather(-1, last.clamp(min=0))
    rows = parents.unsqueeze(-1)
    wide = rows.expand(-1, -1, total.size(-1))
    aims = numbers.unsqueeze(-1) * whole.gather(1, rows)
    places = torch.searchsorted(total.gather(1, wide), aims, right=True)
    places = places.minimum(last.clamp(min=0).gather(1, rows))
    return order.gather(1, wide).gather(2, places)[..., 0]


def _chosen(log_probs: Tensor, parents: Tensor, tokens: Tensor) -> Tensor:
    """[B, n] what rows `parents` of [B, k, V] give `tokens`."""
    rows = log_probs.gather(1, parents.unsqueeze(-1).expand(-1, -1, log_probs.size(-1)))
    return rows.gather(2, tokens.unsqueeze(-1))[..., 0]


def _numbers(seed: int, keys: Sequence[int], n: int, start: int) -> Tensor:
    """[B, n, _BLOCK] uniform float64 for the places from `start`, a multiple of _BLOCK.

    Each is a function of seed, key, sample and place alone.
    """
    numbers = np.empty((len(keys), n, _BLOCK))
    for b, key in enumerate(keys):
        for j in range(n):
            # The counter's low words count the draws, four to a number; its high word tells the
            # samples apart.
            philox = np.random.Philox(key=[seed, key], counter=[start // 4, 0, 0, j])
            numbers[b, j] = np.random.Generator(philox).random(_BLOCK)
    return torch.from_numpy(numbers)


def _hypothesis(
    row: list[int], log_prob: float, config: SearchConfig, eos_id: int, place: int
) -> Hypothesis:
    if log_prob == -math.inf:
        raise no_output(place)
    ended = eos_id in row
    tokens = row[: row.index(eos_id) + 1] if ended else row
    return Hypothesis(tokens, log_prob / config.penalty(len(tokens)), log_prob, not ended)

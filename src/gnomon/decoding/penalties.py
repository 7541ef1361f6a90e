"""Penalties on repeated and on unread words, as pure functions of tensors."""

from __future__ import annotations

import torch
from torch import Tensor


def penalise_repetition(log_probs: Tensor, history: Tensor, penalty: float) -> Tensor:
    """Multiply the log-probability of tokens that are in the output already by `penalty`.

    Keskar et al. 2019 (CTRL, section 4.1) divide logits, whose sign then decides what happens.
    Log-probabilities are never positive, so that multiplying them by more than 1 always makes a
    token less probable, and they stay at most 0, which the search's stopping bound needs. They
    are not normalised again.

    Args:
        log_probs: [B, k, V].
        history: [B, k, T] tokens so far.

    Returns:
        A new tensor.
    """
    return log_probs.scatter(-1, history, log_probs.gather(-1, history) * penalty)


def forbid_repeated_ngrams(log_probs: Tensor, history: Tensor, n: int, applies: Tensor) -> None:
    """Make tokens impossible that would complete an n-gram the output has already, in place.

    Args:
        log_probs: [B, k, V].
        history: [B, k, T] tokens so far.
        applies: [B, k] boolean, to which hypotheses.
    """
    T = history.size(-1)
    if n < 1 or n > T:
        return
    windows = history.unfold(-1, n, 1)  # [B, k, T - n + 1, n]
    newest = history[..., T - n + 1 :].unsqueeze(2)  # [B, k, 1, n - 1]
    repeats = (windows[..., :-1] == newest).all(-1) & applies.unsqueeze(-1)  # [B, k, T - n + 1]
    completing = windows[..., -1]
    kept = log_probs.gather(-1, completing)
    # One token may complete a repeated and a new n-gram: the least of all values must win.
    log_probs.scatter_reduce_(-1, completing, kept.masked_fill(repeats, -torch.inf), "amin")


def coverage_score(coverage: Tensor, keep: Tensor, factor: float) -> Tensor:
    """factor * sum over source tokens of ln min(coverage, 1) (Wu et al. 2016, eq. 14): [B, k].

    Never positive, and it only rises while attention is added. A token without any attention
    counts as the smallest positive number, so that the result is finite.

    Args:
        coverage: [B, k, S], the attention each source token got so far.
        keep: [B, S] boolean, True at real tokens.
    """
    logs = coverage.clamp(torch.finfo(coverage.dtype).tiny, 1.0).log()
    logs = logs.masked_fill(~keep.unsqueeze(1), 0.0)
    # In double, or the sum would depend on the padding that neighbours bring.
    return factor * logs.double().sum(-1).float()

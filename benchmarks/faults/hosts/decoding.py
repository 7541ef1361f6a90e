"""Greedy and beam search over a host's own cached decoding."""

from __future__ import annotations

from typing import Any

import torch
from benchmarks.faults.hosts.text import EOS, PAD
from torch import Tensor, nn


@torch.no_grad()
def greedy(decoding: Any, module: nn.Module, batch: Any, num_tokens: int) -> Tensor:
    """New tokens `[B, num_tokens]`; padding after the end of a text."""
    state, logits = decoding.start(module, batch)
    done = torch.zeros(logits.shape[0], dtype=torch.bool, device=logits.device)
    tokens = []
    for step in range(num_tokens):
        token = logits.argmax(-1).masked_fill(done, PAD)
        tokens.append(token)
        done = done | (token == EOS)
        if step + 1 < num_tokens:
            logits = decoding.advance(module, state, token)
    return torch.stack(tokens, dim=1)


@torch.no_grad()
def beam_search(
    decoding: Any, module: nn.Module, batch: Any, num_tokens: int, num_beams: int
) -> Tensor:
    """The best of `num_beams` hypotheses by summed log-probability, `[B, num_tokens]`."""
    state, logits = decoding.start(module, batch)
    B, k = logits.shape[0], num_beams
    each = torch.arange(B, device=logits.device).repeat_interleave(k)
    decoding.reorder(state, each)
    logits = logits[each]
    # At first all hypotheses of a text are the same: only one may go on.
    scores = logits.new_full((B, k), -torch.inf)
    scores[:, 0] = 0.0
    tokens = logits.new_empty((B * k, 0), dtype=torch.long)
    done = torch.zeros(B * k, dtype=torch.bool, device=logits.device)
    for step in range(num_tokens):
        gain = logits.float().log_softmax(-1)
        gain[done] = -torch.inf
        gain[done, PAD] = 0.0
        V = gain.shape[-1]
        scores, best = (scores.unsqueeze(-1) + gain.view(B, k, V)).flatten(1).topk(k, dim=1)
        parents = (best // V + torch.arange(B, device=best.device).unsqueeze(1) * k).flatten()
        token = (best % V).flatten()
        tokens = torch.cat((tokens[parents], token.unsqueeze(1)), dim=1)
        done = done[parents] | (token == EOS)
        decoding.reorder(state, parents)
        if step + 1 < num_tokens:
            logits = decoding.advance(module, state, token)
    return tokens.view(B, k, -1)[:, 0]


def last_real(logits: Tensor, keep: Tensor) -> Tensor:
    """`[B, T, V]` at each row's last real position: `[B, V]`."""
    positions = torch.arange(keep.shape[1], device=keep.device)
    last = torch.where(keep, positions, -1).amax(dim=1).clamp(min=0)
    return logits[torch.arange(len(last), device=last.device), last]

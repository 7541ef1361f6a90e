"""Which of the logits that a loop had written belong to which of its steps and rows."""

from __future__ import annotations

import torch
from torch import Tensor


def by_step(
    outputs: list[Tensor], num_tokens: int, num_rows: int, num_beams: int
) -> tuple[Tensor, ...]:
    """Logits `[R, T, V]` of each step, also where a loop runs the rows one by one."""
    if len(outputs) in (num_tokens, num_tokens + 1):
        return tuple(outputs[:num_tokens])
    width = num_rows * num_beams
    alone = all(each.size(0) == 1 for each in outputs)
    if alone and len(outputs) == num_rows + (num_tokens - 1) * width:
        groups = [outputs[:num_rows]]
        later = outputs[num_rows:]
        groups += [later[start : start + width] for start in range(0, len(later), width)]
        return tuple(torch.cat([each[:, -1:] for each in group]) for group in groups)
    return ()


def by_row(outputs: list[Tensor], tokens: Tensor) -> tuple[Tensor, ...]:
    """The same of a loop that finishes a row before it begins the next."""
    rows, num_tokens = tokens.shape
    alone = all(each.size(0) == 1 for each in outputs)
    if rows == 1 or not alone or len(outputs) != rows * num_tokens:
        return ()
    last = torch.cat([each[:, -1:] for each in outputs])  # [B·n, 1, V]
    return tuple(last.view(rows, num_tokens, 1, -1).transpose(0, 1))


def begins_anew(outputs: list[Tensor], num_tokens: int) -> bool:
    """Whether the call after the first row's last step reads a prompt again."""
    last, following = outputs[num_tokens - 1].size(1), outputs[num_tokens].size(1)
    return following not in (last, last + 1)


def chosen(steps: tuple[Tensor, ...], tokens: Tensor) -> float:
    """The share of tokens that were the best by the logits of their step."""
    if not steps or len(steps[0]) != len(tokens):
        return 0.0
    best = torch.stack([each[:, -1].argmax(-1) for each in steps], dim=1)
    return float((best == tokens).float().mean())

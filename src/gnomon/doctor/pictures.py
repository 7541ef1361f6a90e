"""What a report's page draws, as plain values: heads, gradients by depth, scores."""

from __future__ import annotations

import math
from typing import Any

import torch

from gnomon.doctor.case import Case
from gnomon.doctor.facts.attention.heads import heads

_BINS = 40


def draw_from(case: Case) -> dict[str, Any]:
    """The values of each picture that can be had of this case.

    - "heads": one row for each attention call: module, entropy and padding mass of its heads;
    - "gradients": L2 norm of the loss's gradient for each layer, in their order;
    - "scores": a histogram of the scores before softmax, hidden ones left out.
    """
    found: dict[str, Any] = {}
    for name, draw in (("heads", _heads), ("gradients", _gradients), ("scores", _scores)):
        try:
            values = draw(case)
        except (Exception, SystemExit):  # a picture is no finding: what is wrong, the checks say
            continue
        if values:
            found[name] = values
    return found


def _heads(case: Case) -> list[dict[str, Any]]:
    return [
        {
            "module": each.module,
            "cross": each.is_cross,
            "entropy": _plain(each.entropy),
            "padding": _plain(each.padding),
        }
        for each in heads(case)
    ]


def _gradients(case: Case) -> list[dict[str, Any]]:
    squares: dict[str, float] = {}
    for name, gradient in case.gradients.items():
        block = _block(name)
        size = 0.0 if gradient is None else float(gradient.detach().double().square().sum())
        squares[block] = squares.get(block, 0.0) + size
    return [{"module": name, "norm": math.sqrt(size)} for name, size in squares.items()]


def _block(name: str) -> str:
    """The layer that a parameter is in ("encoder.layers.0"), else its top-level module."""
    parts = name.split(".")
    depth = next((at for at, part in enumerate(parts) if part.isdigit()), 0)
    return ".".join(parts[: depth + 1])


def _scores(case: Case) -> dict[str, Any]:
    parts = []
    for call in case.record.attention:
        scores = call.scores
        if scores is not None:
            seen = scores if call.keep is None else scores[call.keep.expand(scores.shape)]
            parts.append(seen.float().flatten())
    every = torch.cat(parts)
    every = every[every.isfinite() & (every > -1e4)]  # no mask constants
    low, high = float(every.min()), float(every.max())
    counts = torch.histc(every, bins=_BINS, min=low, max=high)
    return {"low": low, "high": high, "counts": counts.long().tolist()}


def _plain(values: torch.Tensor) -> list[float | None]:
    return [value if math.isfinite(value) else None for value in values.tolist()]

"""Position surgery: a trained model gets other positions, or its positions reach further.

Nothing is trained here. What comes out is the model with as much of what it learned as the change
leaves it; how good it is afterwards is a measurement, and usually asks for fine-tuning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from gnomon.errors import ModelError
from gnomon.model.config import TransformerConfig
from gnomon.model.positions import PositionConfig
from gnomon.model.rope import RopeConfig

Scaling = Literal["linear", "ntk", "dynamic_ntk", "yarn"]

LEARNED_TABLE = "embedding.position.weight"  # ends the names of learned positions
SCORE_BIAS = ".score_bias."  # is in the names of relative positions


@dataclass(frozen=True)
class Operated:
    """A model after surgery."""

    config: TransformerConfig
    weights: dict[str, Tensor]
    # names of weights that are no longer there
    dropped: tuple[str, ...] = ()
    # names of weights of another shape
    resized: tuple[str, ...] = ()


def replace_by_rope(
    config: TransformerConfig, weights: Mapping[str, Tensor], theta: float = 10_000.0
) -> Operated:
    """Rotary positions in place of any other kind; all other weights stay.

    The model has to be fine-tuned: no layer has met a rotation yet.

    Args:
        config: the model as it is.
        weights: its weights by name; those of learned and relative positions are left out.
        theta: base of the wavelengths.

    Raises:
        ModelError: the positions are rotary already, or the heads cannot be turned.
    """
    if config.position.kind == "rope":
        raise ModelError(
            "Positions that are rotary already are not replaced by rotary ones.",
            seen="model.position.kind = rope",
            mend="stretch them: linear, ntk, dynamic_ntk or yarn.",
        )
    position = PositionConfig(kind="rope", rope=RopeConfig(theta=theta))
    dropped = tuple(name for name in weights if name.endswith(LEARNED_TABLE) or SCORE_BIAS in name)
    kept = {name: weights[name] for name in weights if name not in dropped}
    return Operated(checked(replace(config, position=position)), kept, dropped=dropped)


def stretch_rope(
    config: TransformerConfig,
    weights: Mapping[str, Tensor],
    scaling: Scaling,
    factor: float,
    trained_length: int | None = None,
) -> Operated:
    """Rotary positions that reach `factor` times as far; an earlier stretching is replaced.

    Formulas in `gnomon.model.rope`: linear interpolation (Chen et al., 2023), NTK-aware and dynamic
    NTK (bloc97 and emozilla, 2023; Peng et al., 2023, §3.1 and §3.3), YaRN (Peng et al., 2023).

    Args:
        config: the model as it is.
        weights: its weights; none changes.
        scaling: the way.
        factor: at least 1; of dynamic_ntk 1 is the paper's.
        trained_length: tokens, for dynamic_ntk and yarn.

    Raises:
        ModelError: the positions are not rotary, or the numbers make no sense.
    """
    if config.position.kind != "rope":
        raise ModelError(
            f"Only rotary positions are stretched by {scaling}.",
            seen=f"model.position.kind = {config.position.kind}",
            mend=_INSTEAD[config.position.kind],
        )
    rope = RopeConfig(theta=config.position.rope.theta, scaling=scaling, factor=factor)
    if scaling in ("dynamic_ntk", "yarn"):
        if trained_length is None or trained_length < 1:
            raise ModelError(
                f"{scaling} needs the length in tokens that the model was trained with.",
                seen=trained_length,
                mend="name it.",
            )
        rope = replace(rope, original_length=trained_length)
    position = replace(config.position, rope=rope)
    return Operated(checked(replace(config, position=position)), dict(weights))


def resize_table(config: TransformerConfig, weights: Mapping[str, Tensor], length: int) -> Operated:
    """Learned positions for longer texts: the table as a curve, read at more points.

    Its first and last vectors stay; those between lie linearly between the two old ones that
    they fall between.

    Args:
        config: the model as it is.
        weights: its weights.
        length: tokens that the new table reaches.

    Raises:
        ModelError: the positions are not learned, or the table would not grow.
    """
    if config.position.kind != "learned":
        raise ModelError(
            "Only a table of learned positions is resized.",
            seen=f"model.position.kind = {config.position.kind}",
            mend=_INSTEAD[config.position.kind],
        )
    if length <= config.position.max_length:
        raise ModelError(
            "A table of positions is resized to reach further.",
            seen=f"{length} tokens asked for, {config.position.max_length} in the table",
            mend="ask for more; shorter texts need no surgery.",
        )
    resized = tuple(name for name in weights if name.endswith(LEARNED_TABLE))
    unused = config.position.offset  # rows before the first token's stay
    new = {
        name: torch.cat((tensor[:unused], interpolated(tensor[unused:], length)))
        if name in resized
        else tensor
        for name, tensor in weights.items()
    }
    position = replace(config.position, max_length=length)
    return Operated(checked(replace(config, position=position)), new, resized=resized)


def interpolated(table: Tensor, length: int) -> Tensor:
    """`[N, D]` read at `length` points evenly from the first row to the last, in its own dtype."""
    curve = table.to(torch.float64).T[None]
    points = F.interpolate(curve, size=length, mode="linear", align_corners=True)
    return points[0].T.to(table.dtype).contiguous()


def checked(config: TransformerConfig) -> TransformerConfig:
    """`config`, if a model can be built of it; raises `ModelError` if not."""
    if problems := config.problems():
        raise ModelError("This model cannot have such positions.", seen="\n        ".join(problems))
    return config


# What to do with each kind where what was asked for is not for it.
_INSTEAD = {
    "learned": "resize the table, or replace it by rope and fine-tune.",
    "sinusoidal": "sinusoids have no end and nothing to stretch: evaluate longer texts as they "
    "are, or replace them by rope and fine-tune.",
    "alibi": "ALiBi has no end and nothing to stretch: evaluate longer texts as they are, or "
    "replace it by rope and fine-tune.",
    "relative": "relative buckets have no end, all far tokens share the last one: evaluate longer "
    "texts as they are, or replace them by rope and fine-tune.",
    "none": "there are no positions: replace them by rope and fine-tune.",
    "rope": "stretch rotary positions: linear, ntk, dynamic_ntk or yarn.",
}

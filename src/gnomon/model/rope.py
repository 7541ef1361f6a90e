"""Rotary positions: queries and keys turned by angles proportional to their position."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class RopeConfig:
    """Frequencies of the rotation, and how they stretch past the trained length."""

    # base of the wavelengths: pair i turns by theta^(-2i/K) per token
    theta: float = 10_000.0
    # linear: positions / factor (Chen et al., 2023); ntk: a larger theta, so that only the slow
    # pairs stretch; dynamic_ntk: the same, growing with the length of the text;
    # yarn: by wavelength, with sharper attention (Peng et al., 2023); llama3: by wavelength in
    # another way, attention as it was (Llama 3.1 and later)
    scaling: Literal["none", "linear", "ntk", "dynamic_ntk", "yarn", "llama3"] = "none"
    # how many times `original_length` the model should reach
    factor: float = 1.0
    # trained length in tokens, for dynamic_ntk, yarn and llama3
    original_length: int = 512
    # yarn, llama3: pairs that turn more often than this over the trained length stay as they are
    # (Llama 3.1 has 4)
    beta_fast: float = 32.0
    # yarn, llama3: pairs that turn less often than this are interpolated in full
    beta_slow: float = 1.0
    # yarn: factor on queries and keys; None: 0.1 ln(factor) + 1
    attention_factor: float | None = None


@dataclass(frozen=True)
class Rotation:
    """Cosines and sines of one forward's new tokens, fp32 `[L, K/2]` or `[B, 1, L, K/2]`."""

    cos: Tensor
    sin: Tensor

    def turn(self, x: Tensor) -> Tensor:
        """Rotate heads `[B, heads, L, K]` by their tokens' angles.

        The pairs are (x_i, x_{i + K/2}), as in Llama's published weights; Su et al. (2021),
        eq. 34, pair neighbours, which is the same up to the order of each head's coordinates.
        """
        # Never below fp32; the tables are fp32 and lift half precision by type promotion.
        first, second = x.chunk(2, dim=-1)
        turned = torch.cat(
            (first * self.cos - second * self.sin, second * self.cos + first * self.sin), dim=-1
        )
        return turned.to(x.dtype)


def frequencies(config: RopeConfig, head_size: int, length: int | Tensor) -> tuple[Tensor, float]:
    """Angle per token of each pair, float64 `[..., K/2]`, and the factor on cosines and sines.

    Args:
        config: the rotation.
        head_size: K.
        length: tokens in the text (used by dynamic_ntk only); a tensor `[B]` gives `[B, K/2]`.
    """
    K, theta, factor = head_size, config.theta, config.factor
    exponents = torch.arange(0, K, 2, dtype=torch.float64) / K
    if config.scaling == "ntk":
        theta = without_ntk(config, K).theta
    elif config.scaling == "dynamic_ntk":
        stretch = torch.as_tensor(length, dtype=torch.float64).clamp(min=config.original_length)
        stretch = factor * stretch / config.original_length - (factor - 1.0)
        thetas = theta * stretch ** (K / (K - 2))
        return thetas[..., None] ** -exponents.to(thetas.device), 1.0
    plain = theta**-exponents
    if config.scaling == "linear":
        return plain / factor, 1.0
    if config.scaling == "yarn":
        return yarn_frequencies(config, plain), yarn_attention_factor(config)
    if config.scaling == "llama3":
        return llama3_frequencies(config, plain), 1.0
    return plain, 1.0


def yarn_frequencies(config: RopeConfig, plain: Tensor) -> Tensor:
    """Mix plain and interpolated frequencies by turns over the trained length (YaRN, §3.2)."""
    K = 2 * plain.numel()

    def pair_with_turns(turns: float) -> float:
        return (
            K
            * math.log(config.original_length / (turns * 2 * math.pi))
            / 2
            / math.log(config.theta)
        )

    low = max(math.floor(pair_with_turns(config.beta_fast)), 0)
    high = min(math.ceil(pair_with_turns(config.beta_slow)), K - 1)
    ramp = (torch.arange(K // 2, dtype=torch.float64) - low) / max(high - low, 0.001)
    interpolated = ramp.clamp(0.0, 1.0)
    return plain / config.factor * interpolated + plain * (1.0 - interpolated)


def llama3_frequencies(config: RopeConfig, plain: Tensor) -> Tensor:
    """Mix plain and interpolated frequencies, evenly by turns over the trained length.

    This is YaRN's "NTK by parts" as its paper has it (Peng et al., 2023, §3.2), where YaRN's own
    code mixes by the pair's number; published with Llama 3.1's weights (2024).
    """
    turns = config.original_length * plain / (2 * math.pi)
    kept = (turns - config.beta_slow) / (config.beta_fast - config.beta_slow)
    kept = kept.clamp(0.0, 1.0)
    return plain * kept + plain / config.factor * (1.0 - kept)


def without_ntk(config: RopeConfig, head_size: int) -> RopeConfig:
    """The same rotation without `ntk`, which is nothing but a larger theta."""
    if config.scaling != "ntk":
        return config
    theta = config.theta * config.factor ** (head_size / (head_size - 2))
    return replace(config, theta=theta, scaling="none", factor=1.0)


def yarn_attention_factor(config: RopeConfig) -> float:
    """Factor on queries and keys, so on scores its square (YaRN, §3.4)."""
    if config.attention_factor is not None:
        return config.attention_factor
    return 0.1 * math.log(config.factor) + 1.0 if config.factor > 1.0 else 1.0


def angles(config: RopeConfig, head_size: int, positions: Tensor, length: int | Tensor) -> Tensor:
    """Cosines and sines `[2, ..., K/2]` in fp32 at `positions [...]`."""
    per_token, factor = frequencies(config, head_size, length)
    per_token = per_token.to(positions.device)
    if per_token.dim() > 1:
        per_token = per_token[:, None]  # [B, 1, K/2]: each text its own
    phases = positions.to(torch.float64)[..., None] * per_token
    return (torch.stack((phases.cos(), phases.sin())) * factor).float()


def cached_angles(config: RopeConfig, head_size: int, positions: Tensor, largest: int) -> Tensor:
    """`angles` at `positions`, of which `largest` is an upper bound, looked up in a kept table."""
    if torch.compiler.is_compiling():
        return angles(config, head_size, positions, largest + 1)
    length = 1 << max(largest, 127).bit_length()
    return angle_table(config, head_size, length, positions.device)[:, positions]


@lru_cache(maxsize=16)
def angle_table(config: RopeConfig, head_size: int, length: int, device: torch.device) -> Tensor:
    """`angles` of the positions 0 … length - 1, where they do not depend on the text's length."""
    return angles(config, head_size, torch.arange(length), length).to(device)

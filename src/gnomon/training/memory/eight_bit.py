"""Numbers in 8 bits: blocks of neighbours share a scale, their largest absolute value is 127.

After Dettmers et al. 2022 (arXiv 2110.02861) for optimizer states, but evenly spaced: activations
within a block are of one size. Elements pass through the cache a few at a time.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

BLOCK = 256  # numbers that share a scale
_CHUNK = 512  # blocks worked on at once: half a megabyte of fp32, which stays in the cache
_LARGEST = 127


@dataclass(frozen=True)
class EightBit:
    """A flat tensor in 8 bits.

    Attributes:
        values: int8 [N / BLOCK, BLOCK], rounded up to whole blocks.
        scales: fp32 [N / BLOCK, 1].
        numel: N.
        dtype: of the tensor.
        error: root mean square of what rounding loses, as a share of that of the tensor.
    """

    values: Tensor
    scales: Tensor
    numel: int
    dtype: torch.dtype
    error: float

    @property
    def nbytes(self) -> int:
        """Memory held."""
        return self.values.nbytes + self.scales.nbytes

    def restored(self) -> Tensor:
        """The flat tensor again, nearly."""
        if self.dtype == torch.float32:
            return self.values.to(torch.float32).mul_(self.scales).view(-1)[: self.numel]
        result = torch.empty(self.values.shape, dtype=self.dtype, device=self.values.device)
        for start in range(0, len(self.values), _CHUNK):
            rows = slice(start, start + _CHUNK)
            torch.mul(self.values[rows].float(), self.scales[rows], out=result[rows])
        return result.view(-1)[: self.numel]


def eight_bit(flat: Tensor) -> EightBit:
    """The 8-bit form of a flat floating-point tensor [N].

    Where no number is negative (after ReLU, of softmax) one that is not zero does not become zero:
    ReLU's backward pass asks which are.
    """
    numel = flat.numel()
    num_blocks = -(-numel // BLOCK)
    if num_blocks * BLOCK != numel:
        flat = torch.cat([flat, flat.new_zeros(num_blocks * BLOCK - numel)])
    blocks = flat.view(num_blocks, BLOCK)
    is_positive = bool(flat.amin() >= 0)
    values = torch.empty(blocks.shape, dtype=torch.int8, device=flat.device)
    scales = torch.empty(num_blocks, 1, dtype=torch.float32, device=flat.device)
    room = torch.empty(min(_CHUNK, num_blocks), BLOCK, dtype=torch.float32, device=flat.device)
    for start in range(0, num_blocks, _CHUNK):
        rows = slice(start, start + _CHUNK)
        chunk = blocks[rows]
        scaled = room[: len(chunk)]
        largest = scaled.copy_(chunk).abs_().amax(dim=1, keepdim=True)
        # The smallest scale whose inverse is a number; a block of zeros has that one.
        scale = torch.div(largest, _LARGEST, out=scales[rows]).clamp_(min=1e-37)
        torch.mul(chunk, scale.reciprocal(), out=scaled)
        if is_positive:
            least = scaled.clamp(max=1.0).ceil_()
            torch.maximum(scaled.round_(), least, out=scaled)
        else:
            scaled.round_()
        values[rows].copy_(scaled)
    return EightBit(values, scales, numel, flat.dtype, _error(flat, scales))


def _error(flat: Tensor, scales: Tensor) -> float:
    """Even rounding to steps of s is off by s / √12."""
    size = float(torch.linalg.vector_norm(flat, dtype=torch.float32))
    lost = float(torch.linalg.vector_norm(scales)) * (BLOCK / 12) ** 0.5
    return lost / size if size != 0 else 0.0  # nan stays nan

"""Softmax written out, its largest score taken off first: no bias that makes up for a scale."""

import pytest
import torch
from torch import Tensor, nn

from gnomon.doctor import diagnose


class WrittenOut(nn.Module):
    def __init__(self, scale: float) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.query, self.key, self.value = (nn.Linear(32, 32, bias=False) for _ in range(3))
        for each in (self.query, self.key):
            nn.init.normal_(each.weight, std=0.05)
        self.scale = scale

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (each(x).unflatten(-1, (4, 8)).transpose(1, 2)
                   for each in (self.query, self.key, self.value))  # fmt: skip
        keep = torch.ones(x.size(1), x.size(1), dtype=torch.bool).tril()
        scores = q @ k.mT * self.scale + torch.where(keep, 0.0, -torch.inf)
        weights = (scores - scores.amax(-1, keepdim=True)).exp()
        return ((weights / weights.sum(-1, keepdim=True)) @ v).transpose(1, 2).flatten(2)


@pytest.mark.parametrize(("scale", "verdict"), [(8**-0.5, "pass"), (1.0, "warn")])
def test_a_missing_scale_is_told(scale: float, verdict: str) -> None:
    found = diagnose(WrittenOut(scale), {"x": torch.randn(2, 8, 32)}, only=["score-scale"])
    assert found["score-scale"].verdict == verdict, found["score-scale"].evidence

"""A gnomon model handed over alone: its own beam search is no fault of it."""

from __future__ import annotations

import pytest
import torch

from gnomon.doctor import diagnose
from gnomon.model import Transformer
from model_configs import BASE


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("begin", ["same", "different"])
def test_the_beams_of_a_sound_model_are_not_called_wrong(seed: int, begin: str) -> None:
    torch.manual_seed(seed)
    module = Transformer(BASE)
    source, target = torch.randint(4, 29, (3, 9)), torch.randint(4, 29, (3, 8))
    if begin == "same":
        target[:, 0] = 2
    report = diagnose(module, {"ids": source, "target": target}, only=["beam-reorder"])
    assert report["beam-reorder"].verdict == "pass", report["beam-reorder"].evidence

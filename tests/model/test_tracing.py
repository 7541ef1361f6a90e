"""Models can be recorded by torch.export, and recording leaves nothing behind."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim, export

from gnomon.model import Transformer
from model_configs import CONFIGS


@pytest.mark.slow
@pytest.mark.parametrize("name", ["base", "t5", "rope_yarn", "sliding_window", "block_sparse"])
@torch.no_grad()
def test_exported_models_compute_the_same_for_other_sizes(name: str) -> None:
    torch.manual_seed(0)
    model = Transformer(CONFIGS[name]).eval()
    source, target = torch.randint(1, 29, (3, 9)), torch.randint(1, 29, (3, 7))
    batch = Dim("B", min=1, max=8)
    sizes = {
        "ids": {0: batch, 1: Dim("S", min=2, max=20)},
        "target": {0: batch, 1: Dim("T", min=2, max=20)},
    }
    recorded = export(model, (source, target), dynamic_shapes=sizes).module()
    source, target = torch.randint(1, 29, (2, 6)), torch.randint(1, 29, (2, 11))
    source[1, 3:] = 0
    torch.testing.assert_close(recorded(source, target), model(source, target))

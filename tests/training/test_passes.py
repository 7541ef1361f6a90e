"""What a forward pass of the training is told."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from gnomon.model.unpadded import Unpadding, unpadded
from gnomon.training import TrainingConfig
from gnomon.training.objective import LossSums
from gnomon.training.passes import Passes
from gnomon.training.precision import choose_precision
from training.tiny_task import TinyTask


@pytest.mark.parametrize(("mode", "expected"), [("auto", True), ("always", True), ("never", False)])
def test_padding_is_left_out_as_the_recipe_says(mode: Unpadding, expected: bool) -> None:
    keep = torch.tensor([[True, True], [True, False]])
    seen: list[bool] = []

    def forward(batch: Tensor, count_correct: bool) -> LossSums:
        seen.append(unpadded(keep, width=4096) is not None)
        return LossSums(batch.sum(), torch.zeros(()), 1)

    precision = choose_precision("fp32", torch.device("cpu"))
    passes = Passes(TinyTask(), forward, precision, unpadded=mode)
    passes(torch.ones(1, requires_grad=True), 1, count_correct=False)
    assert seen == [expected]
    assert unpadded(keep, width=4096) is None  # the pass is over


def test_compiled_layers_take_rows() -> None:
    assert TrainingConfig(compile=True).problems() == []
    (problem,) = TrainingConfig(compile=True, unpadded="always").problems()
    assert "training.compile" in problem

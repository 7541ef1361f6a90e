"""A copy in another number format: the original, its ties and its memory stay what they are."""

from __future__ import annotations

import torch
from torch import nn

from gnomon.doctor.facts.beside.converted import converted


def tied() -> nn.Sequential:
    module = nn.Sequential(nn.Embedding(20, 8), nn.Linear(8, 20, bias=False), nn.BatchNorm1d(20))
    module[1].weight = module[0].weight  # type: ignore[assignment]
    return module


def test_the_original_is_as_it_was_and_ties_hold() -> None:
    module = tied()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    half = converted(module, torch.float16)
    assert {p.dtype for p in half.parameters()} == {torch.float16}
    assert half.get_parameter("0.weight") is half.get_parameter("1.weight")
    assert torch.equal(half.get_parameter("0.weight"), before["0.weight"].half())
    half.get_buffer("2.running_mean").fill_(3.0)
    for name, value in module.state_dict().items():
        assert value.dtype == before[name].dtype and torch.equal(value, before[name])


def test_what_is_in_that_format_already_is_not_copied() -> None:
    module = tied()
    same = converted(module, torch.float32)
    assert same is not module
    assert same.get_parameter("0.weight").data_ptr() == module[0].weight.data_ptr()

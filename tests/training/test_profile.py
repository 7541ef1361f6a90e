"""A training can be profiled on the way, and is the same training."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from gnomon.training.profile import ProfileSteps, by_group, group_of
from training.tiny_task import trainer


def test_what_operations_are() -> None:
    assert group_of("aten::addmm") == "matrix products"
    assert group_of("aten::_log_softmax_backward_data") == "softmax"
    assert group_of("aten::native_layer_norm_backward") == "norms"
    assert group_of("aten::_fused_adamw_") == "optimizer"
    assert group_of("Optimizer.step#zero") == "everything else"
    events = [("aten::mm", 1.0), ("aten::bmm", 2.0), ("aten::copy_", 4.0)]
    assert by_group(events) == {"copies and casts": 4.0, "matrix products": 3.0}


def test_some_steps_are_recorded_and_the_training_is_the_same(tmp_path: Path) -> None:
    said: list[str] = []
    folder = tmp_path / "run" / "profile"
    plain = trainer(tmp_path / "plain", max_steps=12)
    plain.fit()
    profiled = trainer(
        tmp_path / "run", max_steps=12, listeners=[ProfileSteps(folder, 3, said.append)]
    )
    profiled.fit()
    assert "3 steps" in said[0]
    trace = json.loads((folder / "trace.json").read_text())
    names = {event.get("name") for event in trace["traceEvents"]}
    assert "aten::addmm" in names
    table = (folder / "table.txt").read_text()
    assert "matrix products" in table
    assert "aten::addmm" in table
    both = (plain.task.model.parameters(), profiled.task.model.parameters())
    assert all(torch.equal(one, other) for one, other in zip(*both, strict=True))


def test_a_training_that_ends_before(tmp_path: Path) -> None:
    said: list[str] = []
    for max_steps in (4, 7):
        folder = tmp_path / str(max_steps)
        listener = ProfileSteps(folder / "profile", 100, said.append)
        trainer(folder, max_steps=max_steps, listeners=[listener]).fit()
    assert [text.split(":")[0] for text in said] == ["profile of 2 steps"]

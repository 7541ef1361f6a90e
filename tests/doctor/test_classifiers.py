"""gnomon's own classifiers: examined before their training, as runs, and found healthy or not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import gnomon
from gnomon import api
from gnomon.doctor.monitors.replay import replay
from gnomon.doctor.targets.open import open_target
from gnomon.doctor.targets.target import Options
from gnomon.errors import CheckError, TrainingStopped
from gnomon.training import Listener
from label_training import RECIPE, write

KINDS = {
    "single": ["training.max_steps=30"],
    "multi": ["data.labels_are=multi", "training.max_steps=30"],
    "words": ["data.labels_are=words", "training.max_steps=30"],
    "pair": ["data.pair=pair", "model.embedding.num_segments=2", "training.max_steps=30"],
    "bilstm": ["network=bilstm", "bilstm.d_model=32", "training.max_steps=30"],
    "decoder": ["model.family=decoder", "classifier.pooling=last", "training.max_steps=30"],
}


def train(folder: Path, kind: str, *settings: str, **options: Any) -> api.Training:
    (folder / "r.toml").write_text(RECIPE)
    text = kind if kind in ("single", "multi", "words", "pair") else "single"
    return api.train(
        folder / "r.toml",
        data=write(folder, text),
        overrides=[*KINDS[kind], *settings],
        run=folder / "run",
        **options,
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_healthy_classifier_has_no_failure(tmp_path: Path, kind: str) -> None:
    reports: list[Any] = []
    training = train(tmp_path, kind, examined=reports.append)
    (preflight,) = reports
    assert len(preflight.of("pass")) >= 8
    assert not preflight.of("fail")
    report = api.examine_target(training.run, Options())
    assert not report.of("fail"), [(f.code, f.evidence) for f in report.of("fail")]
    assert len(report.of("pass")) >= 15


def test_a_leak_between_texts_stops_the_training(tmp_path: Path) -> None:
    def spoil(task: Any) -> None:
        network, forward = task.model, task.model.forward

        def leaking(ids: torch.Tensor, keep: torch.Tensor, segments: Any = None) -> torch.Tensor:
            logits = forward(ids, keep, segments)
            return logits + 0.1 * logits.mean(dim=0, keepdim=True)

        network.forward = leaking

    with pytest.raises(CheckError, match="batch-leak"):
        train(tmp_path, "single", before_start=spoil)


def test_the_run_is_opened_with_its_text_and_optimizer(tmp_path: Path) -> None:
    training = train(tmp_path, "single")
    target = open_target(str(training.run), Options())
    assert set(target.patient.batch) == {"ids", "keep", "labels"}
    assert target.patient.optimizer.state
    assert target.patient.texts


@pytest.mark.parametrize("kind", ["single", "multi", "words"])
def test_a_step_that_fails_leaves_a_bundle_that_fails_again(tmp_path: Path, kind: str) -> None:
    tasks: list[Any] = []

    class Spoil(Listener):
        def on_step(self, record: Any) -> None:
            if record.step == 5:
                with torch.no_grad():
                    tasks[0].model.network.encoder.layers[0].feedforward.up.weight[0, 0] = torch.nan

    with pytest.raises(TrainingStopped, match=r"layers\.0\.feedforward"):
        train(tmp_path, kind, before_start=tasks.append, listeners=[Spoil()])
    (bundle,) = (tmp_path / "run" / "bundles").iterdir()
    report = api.examine_target(bundle, Options())
    finding = report["non-finite"]
    assert finding.verdict == "fail"
    assert "layers.0.feedforward" in finding.where[0]
    again = replay(bundle)
    assert again.facts["run again"] == "yes"
    assert again.facts["as it was"]


def test_looks_change_nothing(tmp_path: Path) -> None:
    weights = []
    for every in (0, 3):
        folder = tmp_path / str(every)
        folder.mkdir()
        training = train(folder, "single", f"training.monitor_every={every}")
        weights.append(gnomon.load(training.run, checkpoint="last").network.state_dict())
    assert all(torch.equal(value, weights[1][name]) for name, value in weights[0].items())


@pytest.mark.parametrize("name", ["classifier", "bilstm", "finetune"])
def test_a_recipe_is_examined_before_there_is_text(name: str) -> None:
    report = api.examine_target(name, Options())
    assert not report.of("fail"), [(f.code, f.evidence) for f in report.of("fail")]
    assert len(report.of("pass")) >= 10

"""A gnomon training with monitors is the same training; what they see is in its log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from command_line import run_command
from digits import DIGITS_RECIPE, write_digits
from gnomon import api
from gnomon.doctor.monitors import read_bundle, replay
from gnomon.errors import TrainingStopped
from gnomon.tasks import TranslationTask
from gnomon.training import Listener, RunFolder, StepRecord, read_metrics
from small_training import Stop

EVERY = "training.monitor_every"


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("digits")
    (folder / "r.toml").write_text(DIGITS_RECIPE)
    torch.set_num_threads(1)
    return folder / "r.toml", write_digits(folder)


def weights(run: Path, name: str = "model.safetensors") -> bytes:
    return (RunFolder(run).last() / name).read_bytes()


def test_watched_or_not_killed_or_not_it_is_the_same_training(
    recipe: tuple[Path, Path], tmp_path: Path
) -> None:
    toml, data = recipe
    api.train(toml, data=data, run=tmp_path / "plain", overrides=[f"{EVERY}=0"])
    api.train(toml, data=data, run=tmp_path / "watched", overrides=[f"{EVERY}=3"])
    for step in (4, 9, 31):
        api.train(
            toml,
            data=data,
            run=tmp_path / "killed",
            overrides=[f"{EVERY}=3"],
            listeners=[Stop(step)],
        )
    api.train(toml, data=data, run=tmp_path / "killed", overrides=[f"{EVERY}=3"])
    for name in ("model.safetensors", "training.safetensors"):
        plain = weights(tmp_path / "plain", name)
        assert weights(tmp_path / "watched", name) == plain
        assert weights(tmp_path / "killed", name) == plain
    lines = [list(seen(tmp_path / run)) for run in ("plain", "watched", "killed")]
    assert lines[0] == []
    assert lines[1] == lines[2]
    kinds = {line["kind"] for line in lines[1]}
    assert kinds == {"updates", "attention", "source", "outputs", "free_running"}
    assert {1, 2, 3, 6, 39} <= {line["step"] for line in lines[1] if line["kind"] == "updates"}
    assert not any("warning" in line for line in lines[1])


def seen(run: Path) -> list[dict[str, object]]:
    return [
        line
        for line in read_metrics(RunFolder(run).metrics_path)
        if line["kind"] not in ("train", "validation")
    ]


class Spoil(Listener):
    """Makes one feed-forward layer overflow after a step."""

    def __init__(self) -> None:
        self.task: TranslationTask | None = None

    def catch(self, task: TranslationTask) -> None:
        self.task = task

    def on_step(self, record: StepRecord) -> None:
        if record.step == 12:
            assert self.task is not None and self.task.model.decoder is not None
            name = "decoder.layers.0.feedforward"
            with torch.no_grad():
                for parameter in self.task.model.get_submodule(name).parameters():
                    parameter.fill_(1e25)


def test_a_bad_step_leaves_a_bundle_that_replays_it(
    recipe: tuple[Path, Path], tmp_path: Path
) -> None:
    toml, data = recipe
    spoil = Spoil()
    with pytest.raises(TrainingStopped, match="gnomon doctor") as caught:
        api.train(
            toml, data=data, run=tmp_path / "run", listeners=[spoil], before_start=spoil.catch
        )
    assert "decoder.layers.0.feedforward" in str(caught.value)
    folder = tmp_path / "run/bundles/step-00000013"
    assert sorted(path.name for path in folder.iterdir()) == [
        "batch.safetensors", "bundle.json", "generators.safetensors", "model", "recipe.toml",
    ]  # fmt: skip
    bundle = read_bundle(folder)
    assert bundle.step == 13 and "digits" in str(bundle.record["lines"])
    report = replay(folder)
    assert report.failed and report.facts["as it was"], report
    assert report["non-finite"].where[0].startswith("decoder.layers.0.feedforward")
    result = run_command("doctor", folder, "--json")
    assert result.returncode == 1, result.stderr
    first = json.loads(result.stdout)["findings"]
    assert "non-finite" in {each["code"] for each in first if each["verdict"] == "fail"}
    assert api.load(bundle.model) is not None, "the weights of a bundle are a model folder"

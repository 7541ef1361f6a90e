"""gnomon's own language models and encoders in pretraining: healthy ones, and each fault by name.

Faults are put into the model or the task before the training begins; its preflight must refuse.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from document_training import train
from gnomon import api
from gnomon.doctor.monitors.replay import replay
from gnomon.doctor.targets.open import open_target
from gnomon.doctor.targets.target import Options
from gnomon.errors import CheckError, TrainingStopped
from gnomon.model.documents import Documents
from gnomon.tasks.packing import NO_LABEL
from gnomon.training import Listener, RunFolder, read_metrics

TASKS = ["language_model", "masked_lm"]
KINDS = [*TASKS, "replaced_tokens"]
STEPS = "training.max_steps=4"


@pytest.fixture(scope="module", params=TASKS)
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The reports of preflights, and the run, of one healthy training of each task."""
    reports: list[Any] = []
    folder = tmp_path_factory.mktemp(request.param)
    run = train(folder, request.param, examined=reports.append).run
    return reports, run, request.param


def test_a_healthy_one_passes_before_and_after(trained: Any) -> None:
    reports, run, task = trained
    (preflight,) = reports
    assert not preflight.of("fail", "warn"), [f.evidence for f in preflight.of("fail", "warn")]
    codes = {each.code for each in preflight.of("pass")}
    assert {"packed-documents", "packed-positions", "initial-loss", "decay-on-norms"} <= codes
    assert ("label-shift" if task == "language_model" else "labels-in-sight") in codes
    report = api.examine_target(run, Options())
    assert not report.of("fail", "warn"), [(f.code, f.evidence) for f in report.of("fail", "warn")]
    assert len(report.of("skip")) <= 0.1 * len(report.findings), [
        (f.code, f.evidence) for f in report.of("skip")
    ]


def test_a_run_is_opened_with_text_loss_and_optimizer(trained: Any) -> None:
    _, run, task = trained
    patient = open_target(str(run), Options()).patient
    assert set(patient.batch) == {"ids", "keep", "documents", "labels"}
    assert patient.optimizer.state and patient.step is not None and patient.texts
    labels = patient.batch["labels"]
    asked = float((labels != NO_LABEL).float().mean())
    assert asked == 1 if task == "language_model" else 0.05 < asked < 0.3
    with torch.no_grad():
        loss = patient.module(**patient.batch)["loss"]
    assert float(loss) < 5.5, "below the loss of guessing, ln 320"


def test_a_detector_has_all_of_it(trained: Any, tmp_path: Path) -> None:
    _, generator, task = trained
    if task != "masked_lm":
        pytest.skip("no generator")
    reports: list[Any] = []
    options = {"start_from": generator, "examined": reports.append}
    run = train(tmp_path, "replaced_tokens", "training.monitor_every=5", **options).run
    assert not reports[0].of("fail", "warn"), [f.evidence for f in reports[0].of("fail", "warn")]
    assert "packed-documents" in {each.code for each in reports[0].of("pass")}
    kinds = {line["kind"] for line in read_metrics(RunFolder(run).metrics_path)}
    assert {"updates", "attention"} <= kinds
    report = api.examine_target(run, Options())
    assert not report.of("fail", "warn"), [(f.code, f.evidence) for f in report.of("fail", "warn")]
    assert set(open_target(str(run), Options()).patient.batch["labels"].unique().tolist()) == {0, 1}
    spoil = Spoil()
    with pytest.raises(TrainingStopped, match=r"layers\.1\.feedforward"):
        train(
            tmp_path,
            "replaced_tokens",
            run=tmp_path / "spoilt",
            start_from=generator,
            before_start=spoil.catch,
            listeners=[spoil],
        )
    (bundle,) = (tmp_path / "spoilt/bundles").iterdir()
    again = replay(bundle)
    assert again.facts["run again"] == "yes" and again.facts["as it was"]
    assert api.examine_target(bundle, Options())["non-finite"].verdict == "fail"


@pytest.mark.parametrize("task", KINDS)
def test_a_recipe_is_examined_before_there_is_text(tmp_path: Path, task: str) -> None:
    from document_training import RECIPES

    (tmp_path / "r.toml").write_text(RECIPES[task])
    report = api.examine_target(tmp_path / "r.toml", Options())
    assert not report.of("fail", "warn"), [f.evidence for f in report.of("fail", "warn")]
    assert report["packed-documents"].verdict == "pass"
    assert len(report.of("pass")) >= 50


def test_one_document_in_rows_as_long_as_the_positions_leaves_nothing_out(tmp_path: Path) -> None:
    reports: list[Any] = []
    learned = ["model.position.kind=learned", "model.position.max_length=32"]
    settings = [STEPS, "data.documents_are=files", *learned]
    train(tmp_path, "language_model", *settings, examined=reports.append)
    assert not reports[0].of("fail", "warn", "skip"), reports[0].of("skip")
    assert reports[0]["packed-documents"].verdict == "n/a"


# -- faults ------------------------------------------------------------------------------------


def refused(folder: Path, task: str, spoil: Callable[[Any], None], *overrides: str) -> str:
    """What the preflight says of a task that was spoilt."""
    with pytest.raises(CheckError) as caught:
        train(folder, task, STEPS, *overrides, before_start=spoil)
    assert not list((folder / "run/checkpoints").glob("*")), "no step was made"
    return str(caught.value)


def test_a_missing_causal_mask_is_refused(tmp_path: Path) -> None:
    def spoil(task: Any) -> None:
        task.model.decoder.causal = False

    assert "future-leak" in refused(tmp_path, "language_model", spoil)


@pytest.mark.parametrize("task", TASKS)
def test_documents_that_see_each_other_are_refused(
    tmp_path: Path, task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def together(self: Documents, query: Tensor, key: Tensor, value: Tensor, attend: Any) -> Tensor:
        weights = (query @ key.transpose(-1, -2) / query.size(-1) ** 0.5).tril().softmax(-1)
        return weights @ value

    def spoil(_: Any) -> None:
        monkeypatch.setattr(Documents, "apart", together)

    assert "packed-documents" in refused(tmp_path, task, spoil)


def test_a_look_ahead_in_packed_rows_alone_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def both_ways(self: Documents, query: Tensor, key: Tensor, value: Tensor, _: Any) -> Tensor:
        scores = query @ key.transpose(-1, -2) / query.size(-1) ** 0.5
        return scores.masked_fill(~self.same, -torch.inf).softmax(-1) @ value

    def spoil(_: Any) -> None:
        monkeypatch.setattr(Documents, "apart", both_ways)

    assert "rows of several documents" in refused(tmp_path, "language_model", spoil)


@pytest.mark.parametrize("position", ["sinusoidal", "learned", "rope"])
def test_positions_that_run_on_are_told(
    tmp_path: Path, position: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = Documents.__init__

    def running_on(self: Documents, numbers: Tensor) -> None:
        built(self, numbers)
        self.positions = torch.arange(numbers.size(1)).expand(numbers.shape)

    reports: list[Any] = []
    train(
        tmp_path,
        "language_model",
        STEPS,
        f"model.position.kind={position}",
        before_start=lambda _: monkeypatch.setattr(Documents, "__init__", running_on),
        examined=reports.append,
    )
    verdict = reports[0]["packed-positions"].verdict
    assert verdict == ("pass" if position == "rope" else "warn"), "relative ones restart anyway"


@pytest.mark.parametrize(("shift", "said"), [(0, "very token they read"), (2, "2 after their own")])
def test_labels_of_another_shift_are_refused(tmp_path: Path, shift: int, said: str) -> None:
    def spoil(task: Any) -> None:
        collate = task.collate

        def shifted(spec: Any) -> Any:
            batch = collate(spec)
            labels = torch.roll(batch.inputs, -shift, 1)
            labels[:, batch.inputs.size(1) - shift :] = NO_LABEL
            return replace(batch, target=torch.cat([batch.target[:, :1], labels], 1))

        task.collate = shifted

    seen = refused(tmp_path, "language_model", spoil)
    assert "label-shift" in seen and said in seen


def test_labels_of_visible_tokens_are_refused(tmp_path: Path) -> None:
    def spoil(task: Any) -> None:
        collate = task.collate

        def everything(spec: Any) -> Any:
            batch = collate(spec)
            labels = torch.where(batch.target[:, 1:] == NO_LABEL, batch.inputs, batch.target[:, 1:])
            return replace(batch, target=torch.cat([batch.target[:, :1], labels], 1))

        task.collate = everything

    assert "labels-in-sight" in refused(tmp_path, "masked_lm", spoil)


@pytest.mark.parametrize("task", TASKS)
def test_decay_of_norms_is_told(tmp_path: Path, task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from gnomon.doctor import preflight as module
    from gnomon.training.optimizers import ParameterGroup, group_parameters

    def one_group(model: Any, config: Any) -> list[ParameterGroup]:
        groups = group_parameters(model, config)
        together = {name: p for group in groups for name, p in group.parameters.items()}
        return [replace(groups[0], parameters=together, weight_decay=0.1)]

    monkeypatch.setattr(module, "group_parameters", one_group)
    reports: list[Any] = []
    train(tmp_path, task, STEPS, examined=reports.append)
    assert {each.code for each in reports[0].of("warn")} == {"decay-on-norms"}


def test_a_post_norm_recipe_without_warm_up_is_warned_of(tmp_path: Path) -> None:
    from document_training import LANGUAGE_MODEL

    text = LANGUAGE_MODEL.replace('"pre"', '"post"').replace(
        "warmup_steps = 20", "warmup_steps = 1"
    )
    (tmp_path / "r.toml").write_text(text)
    report = api.examine_target(tmp_path / "r.toml", Options())
    assert "recipe-schedule" in {each.code for each in report.of("warn", "fail")}


# -- while it trains -----------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
def test_looks_change_nothing_and_are_in_the_log(tmp_path: Path, task: str) -> None:
    weights = []
    for every in (0, 3):
        folder = tmp_path / str(every)
        folder.mkdir()
        run = RunFolder(train(folder, task, f"training.monitor_every={every}").run)
        weights.append((run.last() / "training.safetensors").read_bytes())
        kinds = {line["kind"] for line in read_metrics(run.metrics_path)}
    assert weights[0] == weights[1]
    looks = {"updates", "attention"}
    looks |= {"continuations", "free_running"} if task == "language_model" else set()
    assert kinds - {"train", "validation"} == looks


class Spoil(Listener):
    """Makes one feed-forward layer overflow in fp16 after a step."""

    def __init__(self) -> None:
        self.task: Any = None

    def catch(self, task: Any) -> None:
        self.task = task

    def on_step(self, record: Any) -> None:
        if record.step == 5:
            stack = self.task.network.decoder or self.task.network.encoder
            with torch.no_grad():
                stack.layers[1].feedforward.down.weight.fill_(3e38)


@pytest.mark.parametrize("task", TASKS)
def test_a_step_that_fails_leaves_a_bundle_that_fails_again(tmp_path: Path, task: str) -> None:
    spoil = Spoil()
    with pytest.raises(TrainingStopped, match=r"layers\.1\.feedforward"):
        train(tmp_path, task, before_start=spoil.catch, listeners=[spoil])
    (bundle,) = (tmp_path / "run/bundles").iterdir()
    again = replay(bundle)
    assert again.facts["run again"] == "yes" and again.facts["as it was"]
    report = api.examine_target(bundle, Options())
    assert report["non-finite"].verdict == "fail"
    assert "layers.1.feedforward" in report["non-finite"].where[0]
    patient = open_target(str(bundle), Options()).patient
    assert set(patient.batch) == {"ids", "keep", "documents", "labels"}

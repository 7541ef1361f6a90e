"""Means of weights: exact, complete, judged by validation, and asked for by one recipe table."""

import pytest
import torch
from safetensors.torch import load_file, save_file

from gnomon.errors import ModelError, RecipeError, RunError
from gnomon.model import Transformer, load_model, mean_weights, save_model
from gnomon.training import AveragingConfig, Listener, RunFolder, read_metrics
from gnomon.training.averaging import MovingAverage, read_record
from model_configs import BASE, changed
from training.tiny_task import TinyTask, trainer


class Averages(Listener):
    def __init__(self):
        self.records, self.messages = [], []

    def on_average(self, record):
        self.records.append(record)

    def on_message(self, level, text):
        self.messages.append(text)


def weights_of(folder):
    return load_file(folder / "model.safetensors")


def mean_of(folders):
    every = [weights_of(folder) for folder in folders]
    return {name: torch.stack([w[name].double() for w in every]).mean(0) for name in every[0]}


def assert_is_mean(folder, members):
    found, expected = weights_of(folder), mean_of(members)
    assert found.keys() == expected.keys()
    for name, tensor in found.items():
        assert tensor.dtype == torch.float32
        assert tensor.equal(expected[name].float()), name  # exact to the last rounding


# -- the arithmetic ------------------------------------------------------------------------------


def test_the_mean_is_rounded_once(tmp_path):
    """Of 300 values a running sum in fp32 would be off in the last bits, and overflow in fp16."""
    torch.manual_seed(0)
    files = []
    for number in range(300):
        tensors = {
            "w": torch.randn(50) + 1000,
            "half": torch.full((3,), 60000.0, dtype=torch.float16),
            "count": torch.tensor([number]),
        }
        files.append(tmp_path / f"{number}.safetensors")
        save_file(tensors, files[-1])
    mean = mean_weights(files)
    exact = torch.stack([load_file(file)["w"].double() for file in files]).mean(0)
    assert mean["w"].equal(exact.float())
    assert mean["half"].tolist() == [60000.0] * 3
    assert mean["half"].dtype == torch.float16
    assert mean["count"].tolist() == [299]  # whole numbers have no mean: the newest


@pytest.mark.parametrize(
    ("other", "seen"),
    [
        ({"w": torch.zeros(3)}, "w is"),
        ({"w": torch.zeros(2, dtype=torch.bfloat16)}, "bfloat16"),
        ({"w": torch.zeros(2), "b": torch.zeros(1)}, "b"),
    ],
)
def test_other_architectures_are_refused(tmp_path, other, seen):
    save_file({"w": torch.zeros(2)}, tmp_path / "a.safetensors")
    save_file(other, tmp_path / "b.safetensors")
    with pytest.raises(ModelError, match=f"one architecture[\\s\\S]*{seen}"):
        mean_weights([tmp_path / "a.safetensors", tmp_path / "b.safetensors"])


def test_an_unreadable_file_is_named(tmp_path):
    save_file({"w": torch.zeros(2)}, tmp_path / "a.safetensors")
    (tmp_path / "b.safetensors").write_bytes(b"junk")
    for name in ("b", "nowhere"):
        with pytest.raises(ModelError, match=f"{name}.safetensors cannot be read"):
            mean_weights([tmp_path / "a.safetensors", tmp_path / f"{name}.safetensors"])


@pytest.mark.parametrize("tie", ["all", "none"])
def test_tied_tables_stay_one(tmp_path, tie):
    for seed in (1, 2):
        torch.manual_seed(seed)
        save_model(Transformer(changed(BASE, {"tie": tie})), tmp_path / str(seed))
    files = [tmp_path / str(seed) / "model.safetensors" for seed in (1, 2)]
    save_file(mean_weights(files), files[1], metadata={"format": "pt"})
    model = load_model(tmp_path / "2")
    assert len(model.tables) == (1 if tie == "all" else 3)
    assert (model.table("source") is model.table("output")) == (tie == "all")


# -- at the end of a training --------------------------------------------------------------------


def test_the_last_checkpoints_are_kept_averaged_and_validated(tmp_path):
    listener, measured = Averages(), []

    def validate(step):
        measured.append({n: p.detach().clone() for n, p in task.model.named_parameters()})
        return {"nll": 1.0 if len(measured) == 1 else 0.5}

    task, run = TinyTask(), RunFolder(tmp_path)
    outcome = trainer(
        run,
        task,
        max_steps=20,
        checkpoint_every=3,
        validate_every=100,
        keep_last=1,
        averaging=AveragingConfig(kind="last", count=4),
        validate=validate,
        listeners=[listener],
    ).fit()
    assert outcome.reason == "max_steps"
    (record,) = listener.records
    assert record.members == run.checkpoints.steps() == [12, 15, 18, 20]
    assert run.resolve("averaged") == record.path == tmp_path / "checkpoints/averaged"
    assert_is_mean(record.path, [run.checkpoints.path(step) for step in record.members])
    # Validation saw the average, and afterwards the model has the last weights again.
    for name, tensor in weights_of(record.path).items():
        assert measured[1][name].equal(tensor)
    for name, tensor in weights_of(run.last()).items():
        assert dict(task.model.named_parameters())[name].equal(tensor)
    assert record.is_best
    assert record.metrics == {"nll": 0.5}
    assert run.best() == run.resolve() == record.path
    assert read_record(record.path).members == [f"step-{s:08d}" for s in record.members]
    assert not list(record.path.glob("training.*"))
    (line,) = [x for x in read_metrics(run.metrics_path) if x["kind"] == "average"]
    assert (line["step"], line["members"]) == (20, [12, 15, 18, 20])
    assert not listener.messages


@pytest.mark.parametrize("mode", ["min", "max"])
def test_the_best_checkpoints_are_kept_and_averaged(tmp_path, mode):
    sign = 1 if mode == "min" else -1
    curve = {2: 9.0, 4: 3.0, 6: 5.0, 8: float("nan"), 10: 1.0, 12: 3.0, 14: 7.0, 16: 2.0}
    listener, run = Averages(), RunFolder(tmp_path)
    trainer(
        run,
        max_steps=16,
        validate_every=2,
        checkpoint_every=100,
        keep_last=1,
        best_metric="bleu",
        best_mode=mode,
        averaging=AveragingConfig(kind="best", count=3),
        validate=lambda step: {"bleu": sign * curve[step]},
        listeners=[listener],
    ).fit()
    (record,) = listener.records
    assert record.members == [4, 10, 16]  # 4 came before 12, which is as good
    assert run.checkpoints.steps() == [4, 10, 16]
    assert_is_mean(record.path, [run.checkpoints.path(step) for step in record.members])
    # The average measured what step 16 does, 2.0: not better than step 10.
    assert not record.is_best
    assert run.best() == run.checkpoints.path(10)
    assert run.resolve("averaged") == record.path


def test_without_validation_the_average_is_what_is_used(tmp_path):
    run = RunFolder(tmp_path)
    trainer(
        run, max_steps=6, checkpoint_every=2, averaging=AveragingConfig(kind="last", count=2)
    ).fit()
    assert run.best() == run.resolve("averaged")
    assert read_record(run.best()).metrics == {}


def test_too_few_checkpoints_are_said(tmp_path):
    listener = Averages()
    trainer(
        tmp_path,
        max_steps=6,
        checkpoint_every=4,
        averaging=AveragingConfig(kind="last", count=5),
        listeners=[listener],
    ).fit()
    assert listener.records[0].members == [4, 6]
    assert any("only 2 checkpoints" in message for message in listener.messages)


def test_a_finished_run_is_not_averaged_again(tmp_path):
    for _ in range(2):
        listener = Averages()
        settings = {"max_steps": 6, "averaging": AveragingConfig(kind="last", count=2)}
        trainer(tmp_path, checkpoint_every=2, listeners=[listener], **settings).fit()
    assert listener.records == []


def test_best_needs_a_validation(tmp_path):
    with pytest.raises(RecipeError, match="validation"):
        trainer(tmp_path, averaging=AveragingConfig(kind="best"))


def test_a_damaged_record_is_named(tmp_path):
    run = RunFolder(tmp_path)
    trainer(
        run, max_steps=4, checkpoint_every=2, averaging=AveragingConfig(kind="last", count=2)
    ).fit()
    (run.checkpoints.averaged_path / "average.json").write_text("{")
    with pytest.raises(RunError, match=r"average\.json"):
        run.best()
    assert run.last().name == "step-00000004"


def test_a_run_without_average_says_how_to_make_one(tmp_path):
    run = RunFolder(tmp_path)
    trainer(run, max_steps=2).fit()
    with pytest.raises(RunError, match="gnomon average"):
        run.resolve("averaged")


@pytest.mark.parametrize(
    ("values", "key"),
    [({"count": 1}, "count"), ({"decay": 1.0}, "decay"), ({"decay": float("nan")}, "decay")],
)
def test_impossible_values_are_named(values, key):
    (problem,) = AveragingConfig(kind="ema", **values).problems()
    assert f"averaging.{key}" in problem


def test_keys_without_effect_are_named():
    assert "count" in AveragingConfig(kind="ema", count=3).unused()[0]
    assert "decay" in AveragingConfig(kind="last", decay=0.9).unused()[0]
    assert AveragingConfig(kind="best", count=3).unused() == []


# -- the moving average --------------------------------------------------------------------------


def test_the_moving_average_follows_its_formula(tmp_path):
    """Over a real training, against the recursion in float64 from the weights of every step."""
    history = []

    class Watcher(Listener):
        def on_step(self, record):
            history.append({n: p.detach().double() for n, p in task.model.named_parameters()})

    task = TinyTask(dropout=0.2)
    start = {n: p.detach().double() for n, p in task.model.named_parameters()}
    run = RunFolder(tmp_path)
    trainer(
        run,
        task,
        max_steps=40,
        averaging=AveragingConfig(kind="ema", decay=0.8),
        listeners=[Watcher()],
    ).fit()
    expected = start
    for step, values in enumerate(history, start=1):
        decay = min(0.8, (1 + step) / (10 + step))
        expected = {n: decay * expected[n] + (1 - decay) * values[n] for n in expected}
    shipped = weights_of(run.last())
    for name, value in expected.items():
        torch.testing.assert_close(shipped[name].double(), value, rtol=0, atol=2e-6)
    assert not shipped["inner.weight"].double().equal(history[-1]["inner.weight"])
    # Training goes on with the weights themselves.
    tensors = load_file(run.last() / "training.safetensors")
    for name, value in history[-1].items():
        assert tensors[f"weights/{name}"].double().equal(value)


def test_the_moving_average_changes_what_is_validated_and_nothing_in_training(tmp_path):
    def run(name, averaging):
        task, seen = TinyTask(dropout=0.3), []

        def validate(step):
            seen.append(task.model.inner.weight.detach().clone())
            return {"nll": 1.0}

        trainer(
            tmp_path / name,
            task,
            max_steps=20,
            validate_every=5,
            validate=validate,
            averaging=averaging,
        ).fit()
        return task.model.inner.weight, seen

    plain, plain_seen = run("plain", AveragingConfig())
    averaged, averaged_seen = run("ema", AveragingConfig(kind="ema"))
    assert averaged.equal(plain)
    assert not any(a.equal(b) for a, b in zip(plain_seen, averaged_seen, strict=True))


def test_in_place_gives_the_weights_back_and_touches_no_storage():
    torch.manual_seed(0)
    task = TinyTask()
    average = MovingAverage(task.model, 0.9)
    with torch.no_grad():
        task.model.inner.weight += 1
    view, before = task.model.inner.weight.data.view(-1), task.model.inner.weight.clone()
    with average.in_place():
        assert torch.allclose(view, before.view(-1) - 1)
    assert task.model.inner.weight.equal(before)
    with pytest.raises(ZeroDivisionError), average.in_place():
        raise ZeroDivisionError
    assert task.model.inner.weight.equal(before)


def test_a_run_with_a_moving_average_has_no_other(tmp_path):
    run = RunFolder(tmp_path)
    trainer(run, max_steps=4, averaging=AveragingConfig(kind="ema")).fit()
    with pytest.raises(RunError, match="ema"):
        run.resolve("averaged")

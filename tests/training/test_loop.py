import json
import math
import shutil

import pytest
import torch

from gnomon.errors import RecipeError
from gnomon.training.events import Listener
from gnomon.training.objective import ObjectiveConfig
from gnomon.training.optimizers import OptimizerConfig
from gnomon.training.run import RunFolder
from training.tiny_task import TinyTask, trainer


class Recorder(Listener):
    def __init__(self):
        self.steps, self.logs, self.validations, self.checkpoints = [], [], [], []
        self.starts, self.messages, self.outcomes, self.closed = [], [], [], 0

    def on_start(self, record):
        self.starts.append(record)

    def on_step(self, record):
        self.steps.append(record)

    def on_log(self, record):
        self.logs.append(record)

    def on_validation(self, record):
        self.validations.append(record)

    def on_checkpoint(self, record):
        self.checkpoints.append(record)

    def on_message(self, level, text):
        self.messages.append((level, text))

    def on_end(self, outcome):
        self.outcomes.append(outcome)

    def close(self):
        self.closed += 1


def weights(task):
    return {name: p.detach().clone() for name, p in task.model.named_parameters()}


class Unshuffled(TinyTask):
    """Whose batches of 4 and of 16 hold the same examples in the same order."""

    def epoch(self, number):
        order = range(len(self.examples))
        return [[list(order[i : i + self.batch_size]) for i in range(0, 48, self.batch_size)]]


class TwoOpinions(Unshuffled):
    """Whose second pass differs from the first in a way that is not drawn."""

    def predict(self, batch, inputs, keep):
        logits = self.model(inputs)
        tilt = 1 + (torch.arange(len(inputs)) >= len(batch.target) // 2)
        return (logits * tilt[:, None, None])[keep]


@pytest.mark.parametrize("r_drop", [0.0, 5.0])
def test_k_micro_batches_equal_one_big_batch(tmp_path, r_drop):
    """Unequal token counts per micro-batch: a mean of means would be off by percents."""
    results = []
    for batch_size, accumulate in ((16, 1), (4, 4)):
        task = (TwoOpinions if r_drop else Unshuffled)(batch_size=batch_size, dropout=0.0)
        recorder = Recorder()
        run = tmp_path / str(accumulate)
        trainer(
            run,
            task,
            accumulate=accumulate,
            max_steps=6,
            listeners=[recorder],
            objective=ObjectiveConfig(r_drop=r_drop),
        ).fit()
        results.append((weights(task), recorder.steps))
    (big, big_steps), (small, small_steps) = results
    for one, other in zip(big_steps, small_steps, strict=True):
        assert one.num_tokens == other.num_tokens
        assert one.loss == pytest.approx(other.loss, rel=1e-6)
        assert one.gradient_norm == pytest.approx(other.gradient_norm, rel=1e-5)
    for name, tensor in big.items():
        # Adam divides by tiny second moments, so weights agree less closely than gradients.
        torch.testing.assert_close(small[name], tensor, rtol=1e-4, atol=1e-5)


def test_accumulated_gradient_is_the_big_batch_gradient_to_1e_6(tmp_path):
    def gradient(batch_size, accumulate):
        task = Unshuffled(batch_size=batch_size, dropout=0.0)
        training = trainer(tmp_path / str(accumulate), task, accumulate=accumulate)
        batches = [task.collate(spec) for spec in task.epoch(0)[0][:accumulate]]
        total = sum(training.objective.num_tokens(task.target(b)) for b in batches)
        for batch in batches:
            training._differentiate.passes(batch, total, count_correct=False)
        return torch.cat([p.grad.flatten() for p in task.model.parameters()])

    torch.testing.assert_close(gradient(4, 4), gradient(16, 1), rtol=1e-5, atol=1e-6)


def test_r_drop_changes_the_training_only_where_dropout_makes_passes_differ(tmp_path):
    def steps(name, r_drop, dropout):
        recorder = Recorder()
        trainer(
            tmp_path / name,
            TinyTask(dropout=dropout),
            max_steps=3,
            objective=ObjectiveConfig(r_drop=r_drop),
            listeners=[recorder],
        ).fit()
        return recorder.steps

    plain, same = steps("a", 0.0, 0.0), steps("b", 5.0, 0.0)
    for one, other in zip(plain, same, strict=True):
        assert other.loss == pytest.approx(one.loss, rel=1e-5)
        assert other.nll == pytest.approx(one.nll, rel=1e-5)
        assert other.num_tokens == one.num_tokens
    low, high = steps("c", 1.0, 0.3), steps("d", 5.0, 0.3)
    assert low[0].nll == high[0].nll  # the same draws, and the divergence is no part of it
    assert low[0].loss < high[0].loss
    assert low[1].nll != high[1].nll


def test_it_learns(tmp_path):
    recorder = Recorder()
    outcome = trainer(tmp_path, max_steps=300, log_every=50, listeners=[recorder]).fit()
    assert outcome.reason == "max_steps"
    assert outcome.exit_code == 0
    assert recorder.logs[-1].nll < recorder.logs[0].nll / 1.5
    assert recorder.logs[-1].accuracy > 0.5


def test_every_step_is_told_and_log_lines_average_over_tokens(tmp_path):
    recorder = Recorder()
    trainer(tmp_path, max_steps=20, log_every=10, listeners=[recorder]).fit()
    assert [s.step for s in recorder.steps] == list(range(1, 21))
    assert [record.step for record in recorder.logs] == [10, 20]
    second = recorder.steps[10:]
    tokens = sum(s.num_tokens for s in second)
    log = recorder.logs[1]
    assert log.loss == pytest.approx(sum(s.loss * s.num_tokens for s in second) / tokens)
    assert log.nll == pytest.approx(sum(s.nll * s.num_tokens for s in second) / tokens)
    assert log.perplexity == pytest.approx(math.exp(log.nll))
    assert log.num_tokens == sum(s.num_tokens for s in recorder.steps)
    assert log.accuracy == second[-1].num_correct / second[-1].num_tokens
    assert log.tokens_per_second > 0
    assert 0 <= log.data_share <= 1
    assert recorder.starts[0].total_steps == 20
    assert len(recorder.outcomes) == recorder.closed == 1


def test_gradients_are_clipped_before_the_step(tmp_path):
    training = trainer(
        tmp_path, max_steps=1, optimizer=OptimizerConfig(clip_norm=0.01, betas=(0.9, 0.98))
    )
    training.fit()
    moments = [t for n, t in training.optimizer.state_tensors().items() if n.startswith("exp_avg/")]
    # After one step the first moment is a tenth of the gradient that was used.
    assert torch.cat([m.flatten() for m in moments]).norm().item() == pytest.approx(0.001, rel=1e-4)


def test_the_learning_rate_is_the_schedule_of_the_step_counted_from_one(tmp_path):
    recorder = Recorder()
    trainer(tmp_path, max_steps=5, schedule=lambda s: s * 1e-4, listeners=[recorder]).fit()
    assert [s.learning_rate for s in recorder.steps] == [s * 1e-4 for s in range(1, 6)]


def test_epochs_end_training_with_their_last_batches(tmp_path):
    recorder = Recorder()
    task = TinyTask(num_examples=56)  # two parts of 7 batches an epoch
    outcome = trainer(  # 42 batches in three epochs: 11 steps of 4, the last of 2
        tmp_path, task, max_epochs=3, accumulate=4, listeners=[recorder]
    ).fit()
    assert outcome.reason == "max_epochs"
    assert outcome.step == recorder.starts[0].total_steps == 11
    assert sum(s.num_tokens for s in recorder.steps) == 3 * sum(len(e) - 1 for e in task.examples)


def test_a_time_budget_ends_training_cleanly(tmp_path):
    outcome = trainer(tmp_path, max_steps=10**6, max_minutes=0.5 / 60).fit()
    assert outcome.reason == "max_minutes"
    assert 0 < outcome.step < 10**6
    assert RunFolder(tmp_path).state().finished == "max_minutes"


def test_a_finished_run_returns_at_once(tmp_path):
    first = trainer(tmp_path, max_steps=10).fit()
    recorder = Recorder()
    again = trainer(tmp_path, max_steps=10, listeners=[recorder]).fit()
    assert again == first
    assert not recorder.steps


@pytest.mark.parametrize("mode", ["min", "max"])
def test_patience_stops_after_that_many_validations_without_gain(tmp_path, mode):
    sign = 1 if mode == "min" else -1
    curve = {2: 5.0, 4: 3.0, 6: 3.0, 8: math.nan, 10: 2.0, 12: 4.0, 14: 2.5, 16: 2.1, 18: 0.0}
    recorder = Recorder()
    outcome = trainer(
        tmp_path,
        validate_every=2,
        patience=3,
        best_metric="bleu",
        best_mode=mode,
        validate=lambda step: {"bleu": sign * curve[step], "other": 0.0},
        listeners=[recorder],
    ).fit()
    assert outcome.reason == "early_stopping"
    assert outcome.step == 16
    assert outcome.best_step == 10
    assert [v.step for v in recorder.validations if v.is_best] == [2, 4, 10]


def test_the_best_and_the_last_checkpoints_are_kept(tmp_path):
    curve = {4: 3.0, 8: 1.0, 12: 2.0, 16: 2.0, 20: 2.0}
    seen = []

    class Watcher(Listener):
        def on_checkpoint(self, record):
            seen.append(run.checkpoints.steps())

    run = RunFolder(tmp_path)
    trainer(
        run,
        max_steps=21,
        validate_every=4,
        checkpoint_every=3,
        keep_last=2,
        validate=lambda step: {"nll": curve.get(step, 9.0)},
        listeners=[Watcher()],
    ).fit()
    # 4 and 8 are saved because they are best; 8 outlives all later ones.
    assert seen == [
        [3],
        [3, 4],
        [4, 6],
        [6, 8],
        [8, 9],
        [8, 9, 12],
        [8, 12, 15],
        [8, 15, 18],
        [8, 18, 21],
    ]
    assert run.best() == run.checkpoints.path(8)
    assert run.last() == run.checkpoints.path(21)


def test_validation_happens_at_the_end_and_only_once_per_step(tmp_path):
    steps = []

    def validate(step):
        steps.append(step)
        return {"nll": 1.0}

    trainer(tmp_path, max_steps=10, validate_every=4, validate=validate).fit()
    assert steps == [4, 8, 10]
    trainer(tmp_path / "b", max_steps=8, validate_every=4, validate=validate).fit()
    assert steps[3:] == [4, 8]


def test_validation_changes_nothing_in_training(tmp_path):
    """Even one that draws random numbers, and in eval mode without gradients."""
    modes = []

    def greedy_for_randomness(step):
        modes.append((task.model.training, torch.is_grad_enabled()))
        torch.rand(step)
        torch.nn.functional.dropout(torch.ones(9), training=True)
        return {"nll": 0.0}

    task = TinyTask(dropout=0.3)
    trainer(
        tmp_path / "a", task, max_steps=20, validate_every=3, validate=greedy_for_randomness
    ).fit()
    plain = TinyTask(dropout=0.3)
    trainer(tmp_path / "b", plain, max_steps=20).fit()
    assert set(modes) == {(False, False)}
    assert task.model.training
    for name, tensor in weights(plain).items():
        assert tensor.equal(weights(task)[name])


def test_dropout_is_drawn_anew_each_step_and_seeded(tmp_path):
    def run(name, seed):
        task = TinyTask(dropout=0.5)
        trainer(tmp_path / name, task, max_steps=3, seed=seed).fit()
        return task.model.inner.weight

    assert run("a", 1).equal(run("b", 1))
    assert not run("c", 2).equal(run("a2", 1))


def test_a_missing_best_metric_is_named_with_those_there_are(tmp_path):
    training = trainer(
        tmp_path, validate_every=1, best_metric="blue", validate=lambda s: {"bleu": 1.0, "nll": 2.0}
    )
    with pytest.raises(RecipeError, match=r"blue[\s\S]*bleu, nll"):
        training.fit()


def test_impossible_values_are_all_told_at_once(tmp_path):
    with pytest.raises(RecipeError, match=r"max_steps[\s\S]*accumulate[\s\S]*max_minutes"):
        trainer(tmp_path, max_steps=0, accumulate=0, max_minutes=-1)
    with pytest.raises(RecipeError, match="patience"):
        trainer(tmp_path, patience=2)


def test_bf16_trains_fp32_weights(tmp_path):
    task = TinyTask()
    recorder = Recorder()
    trainer(tmp_path, task, precision="bf16", max_steps=200, listeners=[recorder]).fit()
    assert {p.dtype for p in task.model.parameters()} == {torch.float32}
    assert recorder.steps[-1].nll < recorder.steps[0].nll


def test_metrics_file_holds_one_object_per_log_line_and_validation(tmp_path):
    trainer(
        tmp_path, max_steps=20, log_every=5, validate_every=10, validate=lambda s: {"nll": 1.0}
    ).fit()
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [(line["kind"], line["step"]) for line in lines] == [
        ("train", 5),
        ("train", 10),
        ("validation", 10),
        ("train", 15),
        ("train", 20),
        ("validation", 20),
    ]


def test_a_continued_run_keeps_the_precision_it_began_with(tmp_path, monkeypatch):
    from gnomon.training import precision

    run = RunFolder(tmp_path)
    for gain in (9.0, 0.1):  # as if continued on another machine
        monkeypatch.setattr(precision, "_bf16_gain", lambda gain=gain: gain)
        recorder = Recorder()
        training = trainer(
            run, precision="auto", max_steps=4, checkpoint_every=2, listeners=[recorder]
        )
        training.fit()
        assert recorder.starts[0].step == (0 if gain > 1 else 2)
        assert training.precision.name == "bf16"
        shutil.rmtree(run.checkpoints.path(4))

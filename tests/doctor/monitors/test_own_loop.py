"""A loop of one's own: watched it trains the same, a bad step is stopped, kept and replayed."""

import copy
import json

import pytest
import torch

from doctor.monitors.watched_model import LanguageModel, batch, loss_for
from gnomon.doctor.monitors import TrainingMonitor, is_bundle, read_bundle, replay, watch
from gnomon.errors import DoctorError, TrainingStopped


def train(model, steps=6, spoil_at=None, accumulate=1, **options):
    """Weights after some steps with dropout; `options` make it watched."""
    torch.manual_seed(1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    monitor = watch(model, optimizer, **options) if options else None
    for step in range(1, steps + 1):
        if step == spoil_at:
            with torch.no_grad():
                model.layers[1].norm.bias.fill_(1e25)
        total = 0.0
        for part in range(accumulate):
            ids = batch(step * 10 + part)
            loss = loss_for(ids)(model(ids)) / accumulate
            loss.backward()
            total += loss.detach()
        if monitor is not None:
            monitor.step(total)
        optimizer.step()
        optimizer.zero_grad()
    return monitor, {name: p.detach().clone() for name, p in model.named_parameters()}


@pytest.fixture
def model():
    torch.manual_seed(0)
    return LanguageModel()


def test_a_watched_training_is_the_same_bit_for_bit(model, tmp_path):
    other = copy.deepcopy(model)
    monitor, watched = train(model, folder=tmp_path, every=2, say=print)
    _, plain = train(other)
    assert all(torch.equal(watched[name], plain[name]) for name in plain)
    lines = [json.loads(line) for line in (tmp_path / "monitors.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if line["kind"] == "attention"] == [1, 2, 4, 6]
    assert {"updates", "attention"} == {line["kind"] for line in lines}
    assert not monitor.findings


def test_closing_leaves_no_hook(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with TrainingMonitor(model, optimizer):
        assert model._forward_pre_hooks
    assert not model._forward_pre_hooks
    assert not optimizer._optimizer_step_post_hooks


def test_a_bad_step_is_not_taken_and_can_be_replayed(model, tmp_path):
    with pytest.raises(TrainingStopped, match=r"layers\.1") as caught:
        train(model, spoil_at=4, folder=tmp_path, say=print)
    assert "gnomon doctor" in str(caught.value)
    folder = tmp_path / "bundles/step-00000004"
    assert is_bundle(folder)
    kept = {name: p.clone() for name, p in model.named_parameters()}
    without = replay(folder)
    assert without.failed and without.facts["run again"].startswith("no")
    again = replay(folder, LanguageModel())
    assert again.facts["run again"] == "yes" and again.facts["as it was"]
    assert again["non-finite"].where[0].startswith("layers.1")
    assert all(torch.equal(kept[name], p) for name, p in model.named_parameters())


def test_the_guilty_micro_batch_is_the_one_kept(model, tmp_path):
    class Fussy(torch.nn.Module):
        def forward(self, x):
            return x * float("nan") if torch.equal(ids_seen[-1], batch(12)) else x

    ids_seen = []
    model.register_forward_pre_hook(lambda module, args: ids_seen.append(args[0]))
    model.layers[0].feedforward.append(Fussy())
    with pytest.raises(TrainingStopped, match=r"layers\.0\.feedforward\.3"):
        train(model, accumulate=4, folder=tmp_path, say=print)
    kept = read_bundle(tmp_path / "bundles/step-00000001").batch["arg.0"]
    assert torch.equal(kept, batch(12))


class Poison(torch.nn.Module):
    """Bad for one draw of random numbers in ten."""

    def forward(self, x):
        return x * float("nan") if self.training and torch.rand(()) < 0.1 else x


def poisoned():
    model = LanguageModel()
    model.layers[1].dropout = torch.nn.Sequential(model.layers[1].dropout, Poison())
    return model


def test_a_draw_that_brings_it_about_is_drawn_again(tmp_path):
    with pytest.raises(TrainingStopped, match=r"layers\.1\.dropout\.1 \(Poison"):
        train(poisoned(), steps=100, folder=tmp_path, say=print)
    (bundle,) = (tmp_path / "bundles").iterdir()
    again, state = poisoned(), torch.get_rng_state()
    assert replay(bundle, again)["non-finite"].where == ("layers.1.dropout.1",)
    assert torch.equal(state, torch.get_rng_state())


def test_a_loss_function_that_fails_is_told_from_the_model(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    monitor = watch(model, optimizer, say=print)
    loss = loss_for(batch())(model(batch())) * float("inf")
    loss.backward()
    with pytest.raises(TrainingStopped, match="behind the model"):
        monitor.step(loss)


def test_validations_are_judged_and_each_warning_said_once(model):
    said, logged = [], []
    monitor = watch(
        model, torch.optim.SGD(model.parameters(), lr=0.1), say=said.append, log=logged.append
    )
    for _ in range(5):
        monitor.validation(nll=2.0, nll_of_shuffled=2.0)
    assert len(said) == 1 and said[0].startswith("source-ignored")
    assert "cause:" in said[0] and "mend:" in said[0]
    assert len(logged) == 5


def test_a_damaged_or_foreign_bundle_is_a_clear_error(model, tmp_path):
    with pytest.raises(DoctorError, match="crash bundle"):
        read_bundle(tmp_path)
    with pytest.raises(TrainingStopped):
        train(model, spoil_at=2, folder=tmp_path, say=print)
    folder = tmp_path / "bundles/step-00000002"
    with pytest.raises(DoctorError, match="written from"):
        replay(folder, torch.nn.Linear(2, 2))
    (folder / "batch.safetensors").write_bytes(b"x")
    with pytest.raises(DoctorError, match="crash bundle"):
        replay(folder)

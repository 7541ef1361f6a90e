"""The callback of Hugging Face's Trainer, driven by a stand-in for its loop.

The Trainer itself needs the package accelerate, which the tests do not; the stand-in makes the
calls that `Trainer` makes, in its order (transformers 5: `_inner_training_loop`).
"""

from types import SimpleNamespace

import pytest
import torch

from gnomon.doctor.monitors import replay
from gnomon.errors import TrainingStopped

transformers = pytest.importorskip("transformers")


def model():
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=60,
        n_positions=32,
        n_embd=32,
        n_layer=2,
        n_head=2,
        bos_token_id=1,
        eos_token_id=1,
    )
    return transformers.GPT2LMHeadModel(config)


def fit(network, callback=None, steps=4, accumulate=2):
    """What `Trainer.train` does, as far as callbacks see it."""
    state, optimizer = (
        SimpleNamespace(global_step=0),
        torch.optim.AdamW(network.parameters(), lr=1e-3),
    )
    wrapped = SimpleNamespace(optimizer=optimizer)
    called = lambda name: (  # noqa: E731
        getattr(callback, name)(None, state, None, model=network, optimizer=wrapped)
        if callback
        else None
    )
    network.train()
    called("on_train_begin")
    torch.manual_seed(1)
    for step in range(steps):
        for part in range(accumulate):
            seed = torch.Generator().manual_seed(step * 10 + part)
            ids = torch.randint(2, 60, (2, 10), generator=seed)
            (network(input_ids=ids, labels=ids).loss / accumulate).backward()
        called("on_pre_optimizer_step")
        optimizer.step()
        optimizer.zero_grad()
        state.global_step += 1
    called("on_train_end")
    return {name: p.detach().clone() for name, p in network.named_parameters()}


def test_a_followed_training_is_the_same_and_leaves_no_hook(tmp_path):
    from gnomon.doctor.monitors.huggingface import MonitorCallback

    network = model()
    callback = MonitorCallback(folder=tmp_path, every=2, say=print)
    assert isinstance(callback, transformers.TrainerCallback)
    watched, plain = fit(network, callback), fit(model())
    assert all(torch.equal(watched[name], plain[name]) for name in plain)
    assert '"attention"' in (tmp_path / "monitors.jsonl").read_text()
    assert callback.monitor.num_steps == 4
    assert not network._forward_hooks and not network._forward_pre_hooks


def test_a_bad_step_names_the_layer_and_its_bundle_is_replayed_without_more(tmp_path):
    from gnomon.doctor.monitors.huggingface import MonitorCallback

    network = model()
    with torch.no_grad():
        network.transformer.h[1].mlp.c_fc.bias.fill_(float("inf"))
        network.transformer.h[1].mlp.c_fc.bias.fill_(3e38)
        network.transformer.h[1].mlp.c_fc.weight.mul_(1e38)
    with pytest.raises(TrainingStopped, match=r"transformer\.h\.1\.mlp"):
        fit(network, MonitorCallback(folder=tmp_path, say=print))
    report = replay(tmp_path / "bundles/step-00000001")
    assert report.facts["run again"] == "yes" and report.facts["as it was"]
    assert report["non-finite"].where[0].startswith("transformer.h.1.mlp")

"""training.compile: the same training from compiled layers, in few forms, checkpoints and all."""

import copy

import pytest
import torch

from gnomon.errors import RecipeError
from gnomon.model import Transformer
from gnomon.training import Listener, MemoryConfig
from gnomon.training.audience import Audience
from gnomon.training.compiled import CompiledLayers, compile_layers
from model_configs import BASE, changed

CONFIG = changed(BASE, {"dropout": 0.0, "norm.placement": "pre"})


class Told(Listener):
    def __init__(self):
        self.messages = []

    def on_message(self, level, text):
        self.messages.append((level, text))


def loss(model, size, precision=torch.float32):
    B, T, S = size
    torch.manual_seed(B * T * S)
    source, target = torch.randint(4, 29, (B, S)), torch.randint(4, 29, (B, T))
    source[0, -1] = target[0, -1] = 0  # padding
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == torch.bfloat16):
        return model(source, target).float().logsumexp(-1).mean()


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_one_form_a_kind_of_layer_serves_all_sizes():
    torch.manual_seed(0)
    plain = Transformer(CONFIG).train()
    model, told = copy.deepcopy(plain), Told()
    compile_layers(model, MemoryConfig(), Audience([told]))
    for size in [(2, 9, 7), (3, 5, 11), (4, 8, 8), (5, 16, 6)]:
        for each in (plain, model):
            each.zero_grad(set_to_none=True)
            loss(each, size).backward()
        for (name, a), b in zip(plain.named_parameters(), model.parameters(), strict=True):
            torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-6, msg=name)
    assert 2 <= model.encoder.call.num_forms <= 4
    assert len(told.messages) == model.encoder.call.num_forms
    assert model.state_dict().keys() == plain.state_dict().keys()


def test_outside_of_training_passes_layers_run_as_they_are(monkeypatch):
    model = Transformer(CONFIG)
    compile_layers(model, MemoryConfig(), Audience([]))

    def never(*_, **__):
        raise AssertionError("compiled")

    monkeypatch.setattr(torch, "compile", never)
    with torch.no_grad():
        loss(model.train(), (2, 3, 4))
    loss(model.eval(), (2, 3, 4))
    with pytest.raises(AssertionError, match="compiled"):
        loss(model.train(), (2, 3, 4))


def test_past_the_bound_layers_run_as_they_are_and_it_is_said(monkeypatch):
    """Without a compiler: what counts is how often it is asked."""
    told, model = Told(), Transformer(CONFIG).train()
    compiled = CompiledLayers(Audience([told]))
    model.encoder.call = compiled
    monkeypatch.setattr("torch._dynamo.lookup_backend", lambda name: lambda graph, inputs: graph)
    asked = []

    def compile_anew(function, *, backend, **_):
        def call(*arguments):
            asked.append(backend(None, []))
            return function(*arguments)

        return call

    monkeypatch.setattr(torch, "compile", compile_anew)
    for _ in range(10):
        loss(model, (2, 3, 4))
    assert compiled.num_forms == len(asked) == 8
    warnings = [text for level, text in told.messages if level == "warning"]
    assert len(warnings) == 1 and "8 times" in warnings[0]


def test_what_does_not_go_together_is_refused():
    model = Transformer(CONFIG)
    for memory in (MemoryConfig(recompute="full"), MemoryConfig(activations="int8")):
        with pytest.raises(RecipeError, match="memory"):
            compile_layers(model, memory, Audience([]))
    sparse = changed(CONFIG, {"attention.pattern": "sliding_window", "attention.window": 2})
    with pytest.raises(RecipeError, match="sparse attention"):
        compile_layers(Transformer(sparse), MemoryConfig(), Audience([]))
    with pytest.raises(RecipeError, match="layers"):
        compile_layers(torch.nn.Linear(1, 1), MemoryConfig(), Audience([]))

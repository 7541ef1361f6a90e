"""Gradients and updates are measured as they are; what moves too far or not at all is found."""

import pytest
import torch
from torch import nn

from gnomon.doctor.monitors.layers import layer_of
from gnomon.doctor.monitors.updates import Updates


def step(model, monitor, number=2, rate=0.1):
    """One step of plain gradient descent, so that the right figures are known."""
    model.zero_grad()
    model(
        torch.randn(8, 16, generator=torch.Generator().manual_seed(number))
    ).square().sum().backward()
    monitor.on_gradients(number)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= rate * parameter.grad
    return monitor.on_update(number)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 24), nn.Linear(24, 4))


def test_figures_are_those_of_the_whole_tensors(model):
    before = [p.detach().clone() for p in model.parameters()]
    seen = step(model, Updates(model), rate=1e-4)
    for layer, place in (("0", 0), ("1", 2)):
        weight, bias = list(model.parameters())[place : place + 2]
        sizes = sorted(float(p.grad.square().mean().sqrt()) for p in (weight, bias))
        assert seen.values[f"gradient/{layer}/low"] == pytest.approx(sizes[0], rel=1e-5)
        assert seen.values[f"gradient/{layer}/high"] == pytest.approx(sizes[1], rel=1e-5)
        change = (weight.detach() - before[place]).square().mean().sqrt()
        ratio = float(change / before[place].square().mean().sqrt())
        assert seen.values[f"ratio/{layer}/median"] == pytest.approx(ratio, rel=1e-4)
    assert seen.finding is None


def test_a_large_tensor_is_judged_by_a_sample(model):
    big = nn.Sequential(nn.Linear(16, 5000))
    before = big[0].weight.detach().clone()
    seen = step(big, Updates(big), rate=1e-4)
    ratio = float(
        (big[0].weight.detach() - before).square().mean().sqrt() / before.square().mean().sqrt()
    )
    assert seen.values["ratio/0/median"] == pytest.approx(ratio, rel=0.1)


def test_steps_that_move_too_far_are_found_when_they_last(model):
    monitor = Updates(model)
    assert step(model, monitor, 2, rate=0.2).finding is None
    finding = step(model, monitor, 3, rate=0.2).finding
    assert finding.code == "gradient-ratio"
    assert "learning rate" in finding.cause
    assert finding.where[0] in dict(model.named_parameters())


def test_updates_that_bf16_swallows_are_found(model):
    model.to(torch.bfloat16)
    monitor = Updates(model)

    def cast(number):
        model.zero_grad()
        model(torch.randn(8, 16).to(torch.bfloat16)).square().sum().backward()
        monitor.on_gradients(number)
        with torch.no_grad():
            for p in model.parameters():
                p -= 1e-6 * p.grad
        return monitor.on_update(number)

    assert cast(2).finding is None
    finding = cast(3).finding
    assert "did not change" in finding.evidence
    assert "bfloat16" in finding.cause


def test_parameters_without_gradient_and_sparse_ones_are_no_trouble():
    model = nn.Sequential(nn.Embedding(20, 8, sparse=True), nn.Linear(8, 2))
    model[1].bias.requires_grad_(False)
    monitor = Updates(model)
    model(torch.tensor([[1, 2, 2]])).sum().backward()
    monitor.on_gradients(2)
    seen = monitor.on_update(2)
    assert {"gradient/0/low", "gradient/1/low"} <= set(seen.values)


@pytest.mark.parametrize(
    ("name", "layer"),
    [
        ("encoder.layers.0.norm.weight", "encoder.layers.0"),
        ("tables.source", "tables"),
        ("h.11.x.2", "h.11"),
    ],
)
def test_layers(name, layer):
    assert layer_of(name) == layer

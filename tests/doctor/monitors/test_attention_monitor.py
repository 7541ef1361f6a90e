"""Entropy is measured as defined; collapse, saturation and dead heads are told apart."""

import pytest
import torch

from doctor.monitors.watched_model import LanguageModel, batch
from gnomon.doctor.monitors.attention import Attention


def look(model):
    return Attention(model, lambda: model(batch())).on_update(7)


def test_uniform_attention_has_the_largest_entropy():
    model = LanguageModel()
    with torch.no_grad():
        for layer in model.layers:
            layer.attention.query.weight.zero_()
            layer.attention.query.bias.zero_()
    seen = look(model)
    assert seen.values["entropy/layers.0.attention"] == pytest.approx(1.0, abs=1e-5)
    assert seen.values["lowest_entropy"] == pytest.approx(1.0, abs=1e-5)
    assert seen.finding is None


def test_a_fresh_model_is_left_alone_and_left_as_it_was():
    torch.manual_seed(0)
    model = LanguageModel().train()
    model.layers[0].eval()
    assert look(model).finding is None
    assert model.training and not model.layers[0].training and model.layers[1].dropout.training


def test_dropout_is_off_while_looking():
    torch.manual_seed(0)
    model = LanguageModel().train()
    assert look(model).values == look(model).values


def test_saturated_softmax():
    torch.manual_seed(0)
    model = LanguageModel()
    with torch.no_grad():
        for layer in model.layers:
            layer.attention.query.weight.mul_(300)
            layer.attention.key.weight.mul_(300)
    finding = look(model).finding
    assert finding.code == "entropy-collapse"
    assert "single key a query" in finding.evidence
    assert finding.where[0] == "head 0 of layers.0.attention"


def test_collapse_onto_one_token():
    model = LanguageModel()
    ids = torch.full((3, 12), 5)
    ids[:, 0] = 9  # every query sees it; its key is what all queries look for
    with torch.no_grad():
        for layer in model.layers:
            attention = layer.attention
            attention.query.weight.zero_()
            attention.query.bias.fill_(1.0)
            attention.key.bias.zero_()
            attention.key.weight.zero_()
            attention.key.weight[:, 0] = 100.0
        model.embed.weight.zero_()
        model.embed.weight[9, 0], model.embed.weight[5, 0] = 1.0, -1.0
    finding = Attention(model, lambda: model(ids)).on_update(7).finding
    assert finding is not None and "one and the same key" in finding.evidence


def test_a_dead_head_is_named():
    torch.manual_seed(0)
    model = LanguageModel()
    with torch.no_grad():
        for parameter in (
            model.layers[1].attention.value.weight,
            model.layers[1].attention.value.bias,
        ):
            parameter[16:] = 0.0
    seen = look(model)
    assert seen.finding.code == "dead-heads"
    assert seen.finding.where == ("head 1 of layers.1.attention",)
    assert seen.values["dead_heads"] == 1.0

"""A step that is not finite: the first module is named, and its cause told apart from others."""

import math
from functools import partial

import pytest
import torch
from torch import nn

from doctor.monitors.watched_model import LanguageModel, batch, loss_for
from gnomon.doctor.monitors.autopsy import explain, look_into
from gnomon.doctor.monitors.replay import run_again


def finding_of(model, *, autocast="float16", loss=None):
    ids = batch()
    run = partial(run_again, model, (ids,), {}, loss or loss_for(ids), autocast)
    return explain(look_into(model, run, before_each=lambda: torch.manual_seed(0)), "step 1")


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def grown(model, factor):
    with torch.no_grad():
        for part in (model.layers[1].attention.query, model.layers[1].attention.key):
            part.weight.mul_(factor)
    return model


def test_scores_without_their_scale():
    finding = finding_of(grown(LanguageModel(scale=False), 600))
    assert finding.where[0] == "layers.1.attention"
    assert finding.where[1].startswith("head ")
    assert "scale 1/√d_k = 0.25 is missing" in finding.cause
    largest = finding.numbers["scores"]["1 layers.1.attention"]
    assert largest > 65504
    assert f"{largest:,.4g}" in finding.evidence


def test_scores_that_have_grown_though_they_are_scaled():
    finding = finding_of(grown(LanguageModel(), 3000))
    assert finding.where[0] == "layers.1.attention"
    assert "though they are scaled" in finding.cause


def test_a_row_that_sees_nothing():
    finding = finding_of(LanguageModel(hide_all=True, constant=-math.inf), autocast=None)
    assert finding.where[0] == "layers.0.attention"
    assert "no key at all" in finding.cause


def test_a_mask_constant_that_fp16_does_not_have():
    finding = finding_of(LanguageModel(hide_all=True, constant=-1e9).half(), autocast=None)
    assert finding.verdict == "fail"
    assert finding.where[0] == "layers.0.attention"
    assert "torch.finfo(scores.dtype).min" in finding.mend


def test_a_stream_that_left_the_range():
    model = LanguageModel()
    with torch.no_grad():
        model.layers[0].feedforward[2].weight.mul_(3e5)
    finding = finding_of(model)
    assert finding.where[0] == "layers.0.feedforward.2"
    assert (
        "fp16" in finding.cause
        or "float16" in finding.cause
        or "weights have grown" in finding.cause
    )


def test_the_weights_themselves():
    model = LanguageModel()
    with torch.no_grad():
        model.layers[0].norm.weight[3] = math.nan
    finding = finding_of(model, autocast=None)
    assert finding.where == ("layers.0.norm.weight",)
    assert "earlier update" in finding.cause


def test_the_loss_itself():
    finding = finding_of(LanguageModel(), autocast=None, loss=lambda logits: logits.sum() / 0)
    assert "division by a count of 0" in finding.cause
    assert finding.where == ()


def test_the_way_back():
    class Root(nn.Module):
        def forward(self, x):
            return (x - x).sqrt() + x

    model = LanguageModel()
    model.layers[1].feedforward.append(Root())
    finding = finding_of(model, autocast=None)
    assert "gradient" in finding.evidence
    assert "root of 0" in finding.cause
    assert finding.where[0].startswith("layers.1.feedforward")


def test_what_does_not_come_back_is_said():
    finding = finding_of(LanguageModel(), autocast=None)
    assert "everything is finite" in finding.evidence

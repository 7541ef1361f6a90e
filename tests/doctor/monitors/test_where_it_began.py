"""NaN and infinity put in at many places: the autopsy names the operation that makes them."""

import copy
import math
from functools import partial

import pytest
import torch
from torch import nn

from doctor.monitors.watched_model import WIDTH, Attention, LanguageModel, batch, loss_for
from gnomon.doctor import diagnose
from gnomon.doctor.monitors.autopsy import explain, look_into
from gnomon.doctor.monitors.replay import run_again

IDS = batch()


def autopsy(model, autocast, loss=None):
    run = partial(run_again, model, (IDS,), {}, loss or loss_for(IDS), autocast)
    return explain(look_into(model, run, before_each=lambda: torch.manual_seed(0)))


class Then(nn.Module):
    """A function as a module behind the second feed-forward network."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def with_function(function):
    model = LanguageModel()
    model.layers[1].feedforward.append(Then(function))
    return model


def hidden(x):
    """Position 3 is a vector of zeros."""
    return x * (torch.arange(x.size(1)) != 3)[:, None]


def zero_row(x):
    return hidden(x) / hidden(x).norm(dim=-1, keepdim=True)


def no_spread(x):
    y = hidden(x)
    return (y - y.mean(-1, keepdim=True)) / y.std(-1, keepdim=True)


def hides_the_nan(x):
    y = hidden(x)
    length = y.square().sum(-1, keepdim=True).sqrt()
    return torch.where(length == 0, torch.zeros_like(y), y / length)


def grown(parts, factor):
    with torch.no_grad():
        for part in parts:
            part.weight.mul_(factor)


def scores(autocast, *, scale=False):
    model = LanguageModel(scale=scale)
    attention = model.layers[1].attention
    grown((attention.query, attention.key), 3e3 if autocast else 3e19)
    return model


def activation(autocast):
    model = LanguageModel()
    feedforward = model.layers[0].feedforward
    grown((feedforward[0],), 1e3 if autocast else 1e19)
    grown((feedforward[2],), 1e3 if autocast else 1e20)
    return model


def norm_without_eps(autocast):
    model = LanguageModel()
    model.layers[1].norm = nn.Sequential(Then(hidden), nn.LayerNorm(WIDTH, eps=0.0))
    return model


def infinite_row(autocast):
    model = LanguageModel()
    model.embed.weight.data[3, 4] = math.inf
    return model


def log_of_zero(logits):
    p = logits.float().softmax(-1) * (torch.arange(logits.size(-1)) > 5)
    return -p.log().gather(-1, IDS[..., None]).mean()


def far_too_large(logits):
    return loss_for(IDS)(logits) * 1e9


IN_LAYER = "layers.1.feedforward.3"
INJECTED = {
    "scores": (scores, None, "layers.1.attention", "1/√d_k = 0.25 is missing", "√d_k"),
    "scaled scores": (
        partial(scores, scale=True), None, "layers.1.attention", "though they are scaled", "QK-norm"
    ),
    "activation": (activation, None, "layers.0.feedforward.2", "does not fit", "norm before it"),
    "zero row": (lambda _: with_function(zero_row), None, IN_LAYER, "division by 0", "eps"),
    "no spread": (lambda _: with_function(no_spread), None, IN_LAYER, "division by 0", "eps"),
    "norm": (norm_without_eps, None, "layers.1.norm.1", "spread of 0", "eps"),
    "own division": (
        lambda _: with_function(lambda x: x / (x > 9).sum(-1, keepdim=True)), None, IN_LAYER,
        "divisor is 0 in 48 of 48", "eps",
    ),
    "logarithm": (
        lambda _: with_function(lambda x: x.log()), None, IN_LAYER, "operand is negative", "clamp"
    ),
    "empty row": (
        lambda _: LanguageModel(hide_all=True, constant=-math.inf), None, "layers.0.attention",
        "no key at all", "finfo",
    ),
    "embedding": (infinite_row, None, "embed.weight", "earlier update", "checkpoint"),
    "loss": (lambda _: LanguageModel(), log_of_zero, "", "logarithm", "cross_entropy"),
    "root on the way back": (
        lambda _: with_function(lambda x: (x - x).sqrt() + x), None, IN_LAYER, "way back", "root"
    ),
    "where on the way back": (
        lambda _: with_function(hides_the_nan), None, IN_LAYER, "way back", "`where`"
    ),
}  # fmt: skip


@pytest.mark.parametrize("autocast", [None, "float16"])
@pytest.mark.parametrize("what", INJECTED)
def test_the_first_place_is_named(what, autocast):
    torch.manual_seed(0)
    make, loss, place, cause, mend = INJECTED[what]
    found = autopsy(make(autocast), autocast, loss)
    assert (found.where[0] if found.where else "") == place, found.evidence
    assert cause in found.cause
    assert mend in found.mend
    assert autocast is None or "fp32, which ends" not in found.cause


@pytest.mark.parametrize("what", ["scores", "activation"])
def test_what_fp16_cannot_hold_is_told_with_its_end(what):
    torch.manual_seed(0)
    found = autopsy(INJECTED[what][0]("float16"), "float16")
    assert "fp16, which ends at 65,504" in found.cause
    assert "bf16, which has fp32's range" in found.mend


def test_the_size_of_scores_is_told_though_they_overflowed():
    torch.manual_seed(0)
    model = scores("float16")
    found = autopsy(model, "float16")
    largest = found.numbers["scores"]["1 layers.1.attention"]
    assert 65504 < largest < math.inf
    assert f"{largest:,.4g}" in found.evidence and f"{largest:,.4g}" in found.cause
    assert "missing, and with it they would still be" in found.cause


class Projected(Attention):
    """With an output projection, in which the NaN of the scores shows first."""

    def __init__(self, **options):
        super().__init__(**options)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x, hidden):
        return self.out(super().forward(x, hidden))


@pytest.mark.parametrize("autocast", [None, "float16"])
def test_scores_are_not_blamed_on_the_projection_behind_them(autocast):
    torch.manual_seed(0)
    model = LanguageModel()
    attention = model.layers[1].attention = Projected(scale=False)
    grown((attention.query, attention.key), 3e3 if autocast else 3e19)
    found = autopsy(model, autocast)
    assert found.where[0] == "layers.1.attention", found.evidence
    assert "layers.1.attention.out" in found.evidence  # where it shows
    assert "scores q·k" in found.cause


def test_a_product_that_fits_only_when_scaled_comes_too_late():
    torch.manual_seed(0)
    model = LanguageModel()
    attention = model.layers[1].attention
    grown((attention.query, attention.key), 170)
    found = autopsy(model, "float16")
    assert found.where[0] == "layers.1.attention"
    assert "scaled only behind the product" in found.cause
    assert "before the product" in found.mend


def test_weights_that_fp16_cannot_hold():
    torch.manual_seed(0)
    model = LanguageModel()
    grown((model.layers[0].feedforward[2],), 3e6)
    found = autopsy(model, "float16")
    assert found.where[0] == "layers.0.feedforward.2"
    assert "weights have grown" in found.cause and "65,504" in found.cause
    assert "bf16" in found.mend


def test_a_gradient_that_alone_does_not_fit():
    torch.manual_seed(0)
    found = autopsy(LanguageModel(), "float16", far_too_large)
    assert found.where[0] == "head"
    assert "gradient" in found.cause and "65,504" in found.cause
    assert "scaler" in found.mend


def test_the_line_of_the_code_is_named():
    torch.manual_seed(0)
    found = autopsy(with_function(zero_row), None)
    assert "test_where_it_began.py" in found.numbers["line"]
    assert found.numbers["line"].endswith("in zero_row")
    assert found.numbers["line"] in found.evidence


class Mask(nn.Module):
    """Gives −inf, as a mask should, in one of two ways."""

    def __init__(self, by_log):
        super().__init__()
        self.by_log = by_log

    def forward(self, ids):
        keep = torch.ones(ids.size(1), ids.size(1)).tril()
        return (
            keep.log() if self.by_log else torch.zeros_like(keep).masked_fill(keep == 0, -math.inf)
        )


class Masked(nn.Module):
    def __init__(self, by_log):
        super().__init__()
        self.embed, self.mask = nn.Embedding(50, 16), Mask(by_log)
        self.query, self.key, self.head = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 50)

    def forward(self, ids):
        x = self.embed(ids)
        scores = self.query(x) @ self.key(x).transpose(1, 2) / 4 + self.mask(ids)
        return self.head(scores.softmax(-1) @ x)


@pytest.mark.parametrize("by_log", [False, True])
def test_the_infinity_of_a_mask_is_no_fault(by_log):
    torch.manual_seed(0)
    found = autopsy(Masked(by_log), None)
    assert "everything is finite" in found.evidence
    report = diagnose(Masked(by_log), {"ids": IDS}, only=["non-finite"])
    assert report["non-finite"].verdict == "pass"


def test_an_output_that_holds_itself_is_read():
    class Round(LanguageModel):
        def forward(self, ids):
            output = {"logits": super().forward(ids)}
            output["self"] = output
            return output

    torch.manual_seed(0)
    report = diagnose(Round(), {"ids": IDS}, only=["non-finite"])
    assert report["non-finite"].verdict == "pass"


def test_nothing_is_changed_by_looking():
    torch.manual_seed(0)
    model = LanguageModel()
    before = copy.deepcopy(model.state_dict())
    autopsy(model, "float16")
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert not any(each._forward_hooks or each._forward_pre_hooks for each in model.modules())

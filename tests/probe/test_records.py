"""Norms, embeddings, dropouts, activations, modules, random draws: what else a record holds."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gnomon.probe import NormCall, Record, Statistics, observe

B, T, D = 3, 5, 16


def seen(module: nn.Module, x: Tensor) -> Record:
    with torch.no_grad(), observe(module) as record:
        module(x)
    return record


def only_norm(module: nn.Module, x: Tensor | None = None) -> NormCall:
    torch.manual_seed(0)
    (norm,) = seen(module, torch.randn(B, T, D) * 3 + 1 if x is None else x).norms
    return norm


# --- norms ------------------------------------------------------------------------------------


class HandwrittenLayerNorm(nn.Module):
    """The annotated paper's: unbiased deviation, eps outside the root."""

    def __init__(self, axis: int = -1) -> None:
        super().__init__()
        self.a_2, self.b_2 = nn.Parameter(torch.rand(D) + 0.5), nn.Parameter(torch.randn(D))
        self.axis = axis

    def forward(self, x: Tensor) -> Tensor:
        mean, std = x.mean(self.axis, keepdim=True), x.std(self.axis, keepdim=True)
        return self.a_2 * (x - mean) / (std + 1e-6) + self.b_2


class HandwrittenRMSNorm(nn.Module):
    def __init__(self, *, gemma: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(D))
        self.gemma = gemma

    def forward(self, x: Tensor) -> Tensor:
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        return x * (1 + self.weight if self.gemma else self.weight)


class NotNormalising(nn.Module):
    """Built like a norm, divides by the sum instead."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(D))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * x / x.abs().sum(-1, keepdim=True)


@pytest.mark.parametrize(
    ("module", "kind", "dims", "eps"),
    [
        (nn.LayerNorm(D, eps=1e-4), "layer", (2,), 1e-4),
        (nn.LayerNorm((T, D)), "layer", (1, 2), 1e-5),
        (nn.RMSNorm(D, eps=1e-3), "rms", (2,), 1e-3),
        (nn.BatchNorm1d(T, eps=1e-2), "batch", (0, 2), 1e-2),
        (nn.GroupNorm(5, T, eps=1e-7), "group", (1, 2), 1e-7),
        (HandwrittenLayerNorm(), "layer", (2,), 1e-6),
        (HandwrittenLayerNorm(axis=1), "layer", (1,), 1e-6),
        (HandwrittenLayerNorm(axis=0), "layer", (0,), 1e-6),
        (HandwrittenRMSNorm(), "rms", (2,), 1e-6),
        (HandwrittenRMSNorm(gemma=True), "rms", (2,), 1e-6),
    ],
)
def test_norms(module: nn.Module, kind: str, dims: tuple[int, ...], eps: float) -> None:
    size = 40 if isinstance(module, HandwrittenLayerNorm) else 1
    x = torch.randn(B * size, T * (size if kind == "layer" and size > 1 else 1), D) * 3 + 1
    norm = only_norm(module.eval(), x)
    assert (norm.kind, norm.dims) == (kind, dims)
    assert norm.eps == pytest.approx(eps)
    assert norm.handwritten == module.__class__.__name__.startswith("Handwritten")
    assert torch.equal(norm.input, x)
    assert norm.weight is next(module.parameters())
    assert norm.input_statistics.std == pytest.approx(3, rel=0.2)
    torch.testing.assert_close(norm.output, module(x).detach())


def test_a_module_built_like_a_norm_that_does_not_normalise() -> None:
    norm = only_norm(NotNormalising())
    assert norm.kind is None and norm.handwritten


def test_layers_that_are_no_norms() -> None:
    model = nn.Sequential(nn.Linear(D, D), nn.ReLU(), nn.Dropout(), nn.Linear(D, D), nn.Softmax(-1))
    assert not seen(model, torch.randn(B, T, D)).norms


def test_functional_norm_belongs_to_its_caller() -> None:
    class Block(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.rms_norm(x, (D,)) + F.layer_norm(x, (D,))

    model = nn.Sequential(Block())
    record = seen(model, torch.randn(B, T, D))
    assert [(norm.module, norm.kind) for norm in record.norms] == [("0", "rms"), ("0", "layer")]
    assert record.norms[0].weight is None


# --- the others -------------------------------------------------------------------------------


def test_embeddings_by_function_and_by_index() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(11, D, padding_idx=-1)
            self.places = nn.Parameter(torch.randn(9, D))

        def forward(self, ids: Tensor) -> Tensor:
            return self.words(ids) + self.places[torch.arange(ids.shape[1])]

    module = Two()
    ids = torch.randint(11, (B, T))
    words, places = seen(module, ids).embeddings
    assert words.module == "words" and words.table is module.words.weight
    assert words.padding_idx == 10
    assert torch.equal(words.ids, ids)
    assert torch.equal(words.output, module.words(ids))
    assert places.table is module.places and places.module == ""
    assert torch.equal(places.ids, torch.arange(T))


def test_dropouts_in_both_modes() -> None:
    module = nn.Sequential(nn.Linear(D, D), nn.Dropout(0.25))
    for train in (True, False):
        record = seen(module.train(train), torch.randn(B, D))
        (drop,) = record.dropouts
        assert (drop.module, drop.p, drop.training) == ("1", 0.25, train)
        assert drop.position is None and drop.shape == (B, D)
        assert [op.module for op in record.random_ops] == (["1"] if train else [])


def test_random_draws_of_any_kind_have_an_owner() -> None:
    class Noisy(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            x = x + torch.randn_like(x) * torch.rand(D)
            return x + torch.empty_like(x).normal_() + torch.bernoulli(torch.full((D,), 0.5))

    record = seen(nn.Sequential(Noisy()), torch.randn(B, D))
    assert [op.name for op in record.random_ops] == ["randn_like", "rand", "normal_", "bernoulli"]
    assert {op.module for op in record.random_ops} == {"0"}


def test_activations_and_dead_units() -> None:
    module = nn.Sequential(nn.Linear(D, 8), nn.ReLU(), nn.Linear(8, D), nn.GELU())
    with torch.no_grad():
        module[0].weight[:2] = 0
        module[0].bias[:2] = -1
    relu, gelu = seen(module, torch.randn(50, T, D)).activations
    assert (relu.module, relu.name) == ("1", "relu")
    assert (gelu.module, gelu.name) == ("3", "gelu")
    assert relu.dead == 2 / 8
    assert gelu.dead == 0


def test_every_module_call_has_statistics_of_inputs_and_outputs() -> None:
    module = nn.Sequential(nn.Linear(D, D), nn.Identity())
    x = torch.randn(B, T, D)
    with observe(module) as record:
        module(x)
        output = module.eval()(x)
    assert list(record.modules) == ["", "0", "1"]
    first, second = record.modules["0"]
    assert first.training and not second.training
    assert [call.order for call in (record.modules[""][0], first, record.modules["1"][0])] == [
        0,
        1,
        2,
    ]
    (statistics,) = second.outputs
    assert statistics.shape == (B, T, D)
    assert statistics.absmax == pytest.approx(output.abs().max().item())
    assert statistics.mean == pytest.approx(output.mean().item(), abs=1e-6)
    assert statistics.std == pytest.approx(output.std(correction=0).item(), rel=1e-5)
    assert statistics.finite
    assert second.inputs[0].absmax == pytest.approx(x.abs().max().item())


def test_statistics_follow_what_is_overwritten_in_place() -> None:
    module = nn.Sequential(nn.ReLU(inplace=True), nn.Identity())
    with torch.no_grad(), observe(module, keep_outputs=True) as record:
        module(-torch.ones(3))
    assert torch.equal(record.modules["0"][0].given[0], -torch.ones(3))
    assert torch.equal(record.modules["0"][0].tensors[0], torch.zeros(3))
    assert record.modules["0"][0].inputs[0].absmax == 1
    assert record.modules["1"][0].inputs[0].absmax == 0


@pytest.mark.parametrize(
    ("values", "absmax", "finite"),
    [
        ([1.0, -3.0], 3.0, True),
        ([1.0, math.inf], math.inf, False),
        ([1.0, -math.inf], math.inf, False),
        ([math.nan, 1.0], math.nan, False),
        ([], math.nan, False),
    ],
)
def test_statistics(values: list[float], absmax: float, finite: bool) -> None:
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        statistics = Statistics(torch.tensor(values, dtype=dtype))
        assert statistics.absmax == pytest.approx(absmax, nan_ok=True)
        assert statistics.finite == finite


def test_statistics_of_a_spread_far_from_zero() -> None:
    x = 1000 + torch.randn(4096)
    assert Statistics(x).std == pytest.approx(x.double().std(correction=0).item(), rel=1e-3)

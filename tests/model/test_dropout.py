"""Our own dropout: right probability, right mean, replayable."""

from __future__ import annotations

import pytest
import torch

from gnomon.model import Transformer
from gnomon.model.dropout import dropout
from model_configs import BASE, changed


@pytest.mark.parametrize("probability", [0.001, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_share_and_scale(probability: float, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x = torch.ones(1000, 1001, dtype=dtype)
    y = dropout(x, probability, training=True)
    assert y.dtype == dtype
    share = (y == 0).double().mean().item()
    assert share == pytest.approx(probability, abs=4 * (probability / 1e6) ** 0.5)
    values = y.unique()
    assert len(values) == 2
    assert values[1].item() == pytest.approx(1 / (1 - probability), rel=1e-2)
    if dtype == torch.float32:
        assert y.double().mean().item() == pytest.approx(1.0, abs=0.01)


def test_neighbours_are_independent() -> None:
    torch.manual_seed(0)
    dropped = (dropout(torch.ones(1_000_000), 0.3, training=True) == 0).double()
    for step in (1, 2, 3, 4, 256):
        both = (dropped[step:] * dropped[:-step]).mean().item()
        assert both == pytest.approx(0.09, abs=0.002)


def test_the_generators_state_replays_it_bit_for_bit_on_any_number_of_threads() -> None:
    x = torch.randn(333, 777)
    torch.manual_seed(5)
    state = torch.get_rng_state()
    first = dropout(x, 0.1, training=True)
    assert not torch.equal(dropout(x, 0.1, training=True), first)
    torch.set_rng_state(state)
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert torch.equal(dropout(x, 0.1, training=True), first)
    finally:
        torch.set_num_threads(threads)


def test_the_gradient_goes_where_the_value_went() -> None:
    x = torch.randn(50, 7, requires_grad=True)
    torch.manual_seed(0)
    y = dropout(x, 0.4, training=True)
    y.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad, y.detach() / x.detach())


def test_one_byte_an_element_is_kept_for_the_way_back() -> None:
    x = torch.randn(50, 7, requires_grad=True)
    kept: list[torch.Tensor] = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        dropout(x, 0.4, training=True)
    assert [(t.dtype, t.shape) for t in kept] == [(torch.int8, x.shape)]


def test_nothing_happens_outside_training_or_at_zero() -> None:
    x = torch.randn(5)
    assert dropout(x, 0.5, training=False) is x
    assert dropout(x, 0.0, training=True) is x
    assert dropout(x, 1e-9, training=True) is x


def test_layers_are_passed_over_as_often_as_asked_and_in_training_only() -> None:
    model = Transformer(changed(BASE, {"layer_drop": 0.3, "num_encoder_layers": 5}))
    stack = model.encoder
    assert stack is not None
    torch.manual_seed(0)
    draws = [stack.train().passed_over() for _ in range(4000)]
    for layer in range(5):
        share = sum(layer in draw for draw in draws) / len(draws)
        assert share == pytest.approx(0.3, abs=4 * (0.21 / 4000) ** 0.5)
    assert {len(draw) for draw in draws} == {0, 1, 2, 3, 4, 5}  # each layer for itself
    assert stack.eval().passed_over() == frozenset()


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_a_layer_passed_over_changes_nothing_and_gets_no_gradient(
    placement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    model = Transformer(
        changed(BASE, {"layer_drop": 0.5, "norm.placement": placement, "dropout": 0.0})
    ).train()
    shallow = Transformer(changed(model.config, {"num_encoder_layers": 1, "layer_drop": 0.0}))
    weights = {n: p for n, p in model.state_dict().items() if "encoder.layers.1" not in n}
    shallow.load_state_dict(weights)
    ids = torch.randint(1, 29, (3, 7))
    monkeypatch.setattr(
        type(model.encoder), "passed_over", lambda self: {1} if self is model.encoder else set()
    )
    logits = model(ids, ids)
    torch.testing.assert_close(logits, shallow.train()(ids, ids))
    logits.sum().backward()
    for name, parameter in model.named_parameters():
        assert (parameter.grad is None) == ("encoder.layers.1" in name), name


def test_layer_drop_leaves_evaluation_and_cached_decoding_whole() -> None:
    torch.manual_seed(0)
    model = Transformer(changed(BASE, {"layer_drop": 0.9}))
    plain = Transformer(BASE)
    plain.load_state_dict(model.state_dict())
    ids = torch.randint(1, 29, (3, 7))
    assert torch.equal(model.eval()(ids, ids), plain.eval()(ids, ids))
    # Even a model left in training mode decodes with every layer: a cache has room for all.
    memory = plain.encode(ids)
    model.decoder.train()
    for module in model.decoder.modules():
        if hasattr(module, "dropout"):
            module.dropout = 0.0
    cache = model.new_cache()
    hidden = model.decode(ids, memory, cache=cache)
    torch.testing.assert_close(hidden, plain.decode(ids, memory))

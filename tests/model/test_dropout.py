"""Our own dropout: right probability, right mean, replayable."""

from __future__ import annotations

import pytest
import torch

from gnomon.model.dropout import dropout


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


def test_nothing_happens_outside_training_or_at_zero() -> None:
    x = torch.randn(5)
    assert dropout(x, 0.5, training=False) is x
    assert dropout(x, 0.0, training=True) is x
    assert dropout(x, 1e-9, training=True) is x

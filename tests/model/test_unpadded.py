"""Leaving padding out changes what is computed, not what comes of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor, nn

from gnomon.model import Transformer
from gnomon.model.unpadded import Unpadded, unpadded, unpadding
from model_configs import BASE, changed

LENGTHS = (7, 2, 5), (3, 6, 1)  # of sources, of targets

CONFIGS = {
    "base": {},
    "pre-norm": {"norm.placement": "pre"},
    "grouped heads": {"attention.num_key_value_heads": 2},
    "rope": {"position.kind": "rope"},
    "relative": {"position.kind": "relative"},
    "window": {"attention.pattern": "sliding_window", "attention.window": 3},
    "query-key norm": {"attention.query_key_norm": True},
}


def rows(lengths: tuple[int, ...], seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(1, 29, (len(lengths), max(lengths)), generator=generator)
    return ids.masked_fill(torch.arange(max(lengths)) >= torch.tensor(lengths)[:, None], 0)


def states(model: Transformer, mode: str) -> tuple[list[Tensor], dict[str, Tensor]]:
    """Hidden states at real tokens of both sides, and the gradient of a function of them."""
    source, target = (rows(lengths, seed) for seed, lengths in enumerate(LENGTHS))
    model.zero_grad()
    with unpadding(mode):
        keep = model.keep(source)
        memory = model.encode(source, keep)
        hidden = model.decode(target, memory, keep, needed=target != 0)
    found = [memory[source != 0], hidden[target != 0]]
    generator = torch.Generator().manual_seed(5)
    weights = torch.randn(found[1].shape, generator=generator, dtype=hidden.dtype)
    (found[1] * weights).sum().backward()
    return found, {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


@contextmanager
def widths(model: Transformer) -> Iterator[set[tuple[int, ...]]]:
    """What the feed-forward layers are given."""
    seen: set[tuple[int, ...]] = set()
    handles = [
        module.register_forward_pre_hook(lambda _, inputs: seen.add(tuple(inputs[0].shape[:2])))
        for name, module in model.named_modules()
        if name.endswith("feedforward")
    ]
    yield seen
    for handle in handles:
        handle.remove()


@pytest.mark.parametrize("name", CONFIGS)
def test_states_and_gradients_are_those_of_padded_rows(name: str) -> None:
    torch.manual_seed(0)
    model = Transformer(changed(BASE, {"dropout": 0.0, **CONFIGS[name]})).double().train()
    expected, expected_gradients = states(model, "never")
    with widths(model) as seen:
        found, gradients = states(model, "always")
    assert seen == {(1, sum(LENGTHS[0])), (1, sum(LENGTHS[1]))}
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
    assert gradients.keys() == expected_gradients.keys()
    torch.testing.assert_close(gradients, expected_gradients, rtol=1e-9, atol=1e-11)


def test_in_single_precision_the_error_is_that_of_padded_rows() -> None:
    torch.manual_seed(0)
    model = Transformer(changed(BASE, {"dropout": 0.0})).train()
    padded, unpadded = (states(model, mode)[1] for mode in ("never", "always"))
    exact = states(model.double(), "never")[1]
    for name, reference in exact.items():
        floor = 8 * torch.finfo(torch.float32).eps * reference.abs().max()
        allowed = 2 * (padded[name].double() - reference).abs().max() + floor
        assert (unpadded[name].double() - reference).abs().max() <= allowed, name


def test_dropout_falls_on_real_tokens_with_its_probability() -> None:
    torch.manual_seed(0)
    model = Transformer(changed(BASE, {"dropout": 0.0, "feedforward.dropout": 0.5})).train()
    dropped: list[Tensor] = []

    def look(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        dropped.append((inputs[0] == 0).double().mean(dim=-1).flatten())

    with torch.no_grad():  # so that half of the values behind the activation are zero by dropout
        for name, parameter in model.named_parameters():
            if name.endswith("feedforward.up.bias"):
                parameter.fill_(100.0)
    for name, module in model.named_modules():
        if name.endswith("feedforward.down"):
            module.register_forward_pre_hook(look)
    first, _ = states(model, "always")
    share = torch.cat(dropped)
    assert share.mean().item() == pytest.approx(0.5, abs=0.1)
    second, _ = states(model, "always")
    assert not torch.equal(first[1], second[1])


def test_auto_leaves_out_where_there_is_enough_and_on_cpus_only() -> None:
    keep = torch.ones(4, 64, dtype=torch.bool)
    keep[0, -32:] = False
    with unpadding("auto"):
        assert isinstance(unpadded(keep, width=512), Unpadded)  # 32 tokens: just enough
        assert unpadded(keep, width=511) is None
        assert unpadded(torch.ones_like(keep), width=4096) is None
        assert unpadded(None, width=4096) is None
        assert unpadded(keep.to("meta"), width=4096) is None
    with unpadding("always"):
        assert isinstance(unpadded(torch.ones_like(keep), width=8), Unpadded)
    assert unpadded(keep, width=4096) is None  # outside a training


def test_nothing_is_left_out_of_an_evaluation() -> None:
    model = Transformer(BASE).eval()
    with widths(model) as seen:
        states(model, "always")
    assert seen == {(3, 7), (3, 6)}

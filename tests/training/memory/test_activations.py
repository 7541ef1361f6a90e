"""What is not kept comes back: the same bits when made again, nearly when kept in 8 bits."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor

from gnomon.errors import RecipeError
from gnomon.model import Transformer, TransformerConfig
from gnomon.training.memory import MemoryConfig, keeping
from gnomon.training.memory.activations import Activations
from gnomon.training.memory.count import Storages
from model_configs import BASE, CONFIGS, changed

CPU = torch.device("cpu")
SELECTIVE = MemoryConfig(recompute="selective")
FULL = MemoryConfig(recompute="full")
EVERY_SECOND = MemoryConfig(recompute="full", every=2)
INT8 = MemoryConfig(activations="int8")
BOTH = MemoryConfig(recompute="selective", activations="int8")
LARGER = {"d_model": 64, "feedforward.size": 256, "dropout": 0.1, "vocab_size": 211}


def built(config: TransformerConfig) -> Transformer:
    torch.manual_seed(0)
    return Transformer(config).train()


def hidden(model: Transformer, rows: int, length: int) -> Tensor:
    """The last hidden states of random text with some padding."""
    torch.manual_seed(1)
    low, high = 3, model.config.vocab_size
    ids = torch.randint(low, high, (rows, length))
    if model.config.pad_id is not None:
        ids[0, -2:] = model.config.pad_id
    if model.config.family == "decoder":
        return model.decode(ids)
    memory = model.encode(ids)
    if model.config.family == "encoder":
        return memory
    high = model.config.target_vocab_size or high
    return model.decode(torch.randint(low, high, (rows, length + 1)), memory, model.keep(ids))


def gradients(
    model: Transformer,
    memory: MemoryConfig | AbstractContextManager[Any],
    *,
    bf16: bool = False,
    rows: int = 3,
    length: int = 7,
) -> dict[str, Tensor]:
    """Of the squares of the hidden states, with what a forward pass keeps decided by `memory`."""
    context = keeping(memory, model, CPU)() if isinstance(memory, MemoryConfig) else memory
    model.zero_grad(set_to_none=True)
    with context, torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        states = hidden(model, rows, length)
        loss = (states * torch.arange(states.shape[-1])).float().pow(2).mean()
    loss.backward()
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def assert_equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> None:
    assert one.keys() == other.keys()
    different = [name for name, value in one.items() if not torch.equal(value, other[name])]
    assert not different


def distance(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    square = sum(((one[name] - other[name]) ** 2).sum() for name in one)
    return float((square / sum((value**2).sum() for value in one.values())) ** 0.5)


@pytest.mark.parametrize("memory", [SELECTIVE, FULL], ids=["selective", "full"])
@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_gradients_are_the_same_bits_when_made_again(name: str, memory: MemoryConfig) -> None:
    model = built(changed(CONFIGS[name], {"dropout": 0.1, "layer_drop": 0.0}))
    if model.config.embedding.sparse_gradient:
        pytest.skip("sparse gradients have no order")
    assert_equal(gradients(model, MemoryConfig()), gradients(model, memory))


@pytest.mark.parametrize("memory", [SELECTIVE, FULL, EVERY_SECOND], ids=lambda m: m.recompute)
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"norm.placement": "pre", "feedforward.activation": "gelu"},
        {"norm.placement": "sandwich", "feedforward.gated": True},
        {"layer_drop": 0.4},
        {"attention.dropout": 0.1},
    ],
    ids=str,
)
def test_and_in_bf16(changes: dict[str, Any], memory: MemoryConfig) -> None:
    model = built(changed(BASE, LARGER | changes))
    plain = gradients(model, MemoryConfig(), bf16=True)
    assert_equal(plain, gradients(model, memory, bf16=True))


def test_what_is_kept_is_counted_and_less() -> None:
    model = built(changed(BASE, LARGER | {"num_encoder_layers": 4, "num_decoder_layers": 4}))
    size = {"rows": 8, "length": 32}
    plain = Storages(model)

    def count(tensor: Tensor) -> Tensor:
        plain.add(tensor)
        return tensor

    hooks = torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor)
    expected = gradients(model, hooks, **size)
    least = {"selective": 2.0, "int8": 3.0, "both": 3.5}
    for name, selective, to_int8 in (
        ("selective", True, False),
        ("int8", False, True),
        ("both", True, True),
    ):
        activations = Activations(model, recompute=selective, to_int8=to_int8)
        found = gradients(model, activations.forward(), **size)
        assert plain.nbytes / activations.kept_bytes > least[name], name
        assert 0 < distance(expected, found) < 0.03 if to_int8 else not distance(expected, found)


def test_full_keeps_the_input_of_layers() -> None:
    model = built(changed(BASE, LARGER | {"num_encoder_layers": 6, "num_decoder_layers": 6}))
    counts = []
    for memory in (MemoryConfig(), FULL):
        keeping(memory, model, CPU)
        counted = Storages(model)

        def count(tensor: Tensor, counted: Storages = counted) -> Tensor:
            counted.add(tensor)
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
            hidden(model, 8, 32)
        counts.append(counted.nbytes)
    # What the hooks see of a layer that is recomputed is nothing, its input apart.
    assert counts[0] / counts[1] > 5


@pytest.mark.parametrize("bf16", [False, True], ids=["fp32", "bf16"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("memory", [INT8, BOTH], ids=["int8", "both"])
def test_gradients_from_8_bits_are_close(activation: str, bf16: bool, memory: MemoryConfig) -> None:
    model = built(changed(BASE, LARGER | {"feedforward.activation": activation}))
    expected = gradients(model, MemoryConfig(), bf16=bf16, rows=8, length=32)
    found = gradients(model, memory, bf16=bf16, rows=8, length=32)
    assert 0 < distance(expected, found) < 0.03


@pytest.mark.parametrize("memory", [SELECTIVE, BOTH], ids=["selective", "both"])
def test_a_graph_can_go_back_twice(memory: MemoryConfig) -> None:
    model = built(changed(BASE, LARGER))
    with keeping(memory, model, CPU)():
        loss = hidden(model, 2, 9).pow(2).mean()
    parameters = list(model.parameters())
    first = torch.autograd.grad(loss, parameters, retain_graph=True, allow_unused=True)
    second = torch.autograd.grad(loss, parameters, allow_unused=True)
    for one, other in zip(first, second, strict=True):
        assert one is other is None or torch.equal(one, other)


def test_frozen_layers_and_passes_without_gradient_cost_nothing() -> None:
    model = built(changed(BASE, LARGER))
    assert model.encoder is not None
    for parameter in model.encoder.parameters():
        parameter.requires_grad_(False)
    model.tables["source"].requires_grad_(False)
    assert_equal(gradients(model, MemoryConfig()), gradients(model, SELECTIVE))
    activations = Activations(model, recompute=True, to_int8=True)
    with activations.forward(), torch.no_grad():
        hidden(model, 2, 9)
    assert activations.kept_bytes == 0


def test_recomputing_draws_nothing_from_the_generator() -> None:
    model = built(changed(BASE, LARGER))
    states = []
    for memory in (MemoryConfig(), SELECTIVE, FULL):
        gradients(model, memory)
        states.append(torch.get_rng_state())
    assert all(torch.equal(states[0], state) for state in states)


def test_numbers_that_are_not_finite_stay_what_they_are() -> None:
    x = torch.randn(4096, requires_grad=True)
    model = torch.nn.Linear(2, 2)
    with Activations(model, recompute=False, to_int8=True).forward():
        y = x.exp()  # saves its result
        z = (y * torch.where(torch.arange(4096) == 5, torch.inf, 1.0)).exp()
    z.sum().backward()
    assert x.grad is not None
    assert torch.isinf(x.grad[5])


def test_moving_to_the_host_is_for_gpus() -> None:
    with pytest.raises(RecipeError, match="host"):
        keeping(MemoryConfig(activations="host"), built(BASE), CPU)


def test_full_and_8_bits_exclude_each_other_and_every_is_for_full() -> None:
    assert MemoryConfig(recompute="full", activations="int8").problems()
    assert MemoryConfig(every=0).problems()
    assert MemoryConfig(every=2).unused()
    assert MemoryConfig(budget="2 GiB").unused()
    for budget in (None, "2", "GiB", "-1 GiB", "2 TB"):
        assert MemoryConfig(recompute="budget", budget=budget).problems(), budget
    assert MemoryConfig(recompute="budget", budget="1.5 GiB").budget_bytes == 3 * 2**29
    assert MemoryConfig(recompute="budget", budget="20MB").budget_bytes == 20_000_000
    assert not SELECTIVE.problems() + BOTH.problems() + EVERY_SECOND.unused()


def test_the_comparison_can_fail() -> None:
    model = built(changed(BASE, LARGER))
    plain = gradients(model, nullcontext())
    torch.nn.init.normal_(model.tables["source"])
    assert distance(plain, gradients(model, SELECTIVE)) > 0.1

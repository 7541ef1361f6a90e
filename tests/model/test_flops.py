"""The count of operations is what PyTorch's own counter sees of a forward and a backward pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from gnomon.model import ClassifierConfig, ClassifierNetwork, Transformer
from gnomon.model.attend import use_backend
from gnomon.model.bilstm import BiLSTM, BiLSTMConfig
from gnomon.model.flops import Flops, TextLengths
from gnomon.model.lora import LoraConfig
from model_configs import BASE, changed

ROWS, S, T = 3, 7, 5
ONE_STACK = {"family": "decoder", "tie": "decoder"}


def texts(count: int, length: int) -> Tensor:
    return torch.randint(3, 29, (count, length))


def lengths(source: int, target: int | None = None) -> TextLengths:
    full = [None if n is None else np.full(ROWS, n) for n in (source, target)]
    assert full[0] is not None
    return TextLengths(full[0], full[1])


def seen_by_torch(run: Any) -> tuple[float, float]:
    """Operations forward and backward."""
    with use_backend("reference"), FlopCounterMode(display=False) as forward:
        loss = run().sum()
    with FlopCounterMode(display=False) as backward:
        loss.backward()
    return forward.get_total_flops(), backward.get_total_flops()


def counted(flops: Flops, found: TextLengths, labels: int) -> tuple[float, float]:
    operations = flops(found, labels)
    return sum(operations.forward.values()), sum(operations.backward.values())


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"feedforward.gated": True, "attention.num_key_value_heads": 2},
        {"head.kind": "transform", "head.bias": True, "tie": "none"},
        {"attention.head_size": 6, "num_encoder_layers": 3},
    ],
    ids=str,
)
def test_encoder_decoder(changes: dict[str, Any]) -> None:
    model = Transformer(changed(BASE, changes)).train()
    source, target = texts(ROWS, S), texts(ROWS, T)
    expected = seen_by_torch(lambda: model(source, target))
    assert counted(Flops(model), lengths(S, T), ROWS * T) == expected


def test_decoder_and_encoder_alone() -> None:
    decoder = Transformer(changed(BASE, ONE_STACK))
    expected = seen_by_torch(lambda: decoder(texts(ROWS, S)))
    assert counted(Flops(decoder), lengths(S), ROWS * S) == expected
    encoder = Transformer(changed(BASE, {"family": "encoder", "tie": "none", "head.kind": "none"}))
    network = ClassifierNetwork(encoder, ClassifierConfig(dense=True), 4, per_token=False)
    ids = texts(ROWS, S)
    expected = seen_by_torch(lambda: network(ids, torch.ones_like(ids, dtype=torch.bool)))
    assert counted(Flops(network), lengths(S), ROWS) == expected


def test_frozen_weights_have_no_gradient_of_their_own() -> None:
    encoder = Transformer(changed(BASE, {"family": "encoder", "tie": "none", "head.kind": "none"}))
    network = ClassifierNetwork(encoder, ClassifierConfig(), 4, per_token=True)
    network.add_lora(LoraConfig(rank=2))
    for name, parameter in encoder.named_parameters():
        parameter.requires_grad_("low_rank" in name or "tables" in name)
    ids = texts(ROWS, S)
    expected = seen_by_torch(lambda: network(ids, torch.ones_like(ids, dtype=torch.bool)))
    assert counted(Flops(network), lengths(S), ROWS * S) == expected


def test_an_lstm_is_its_matrices() -> None:
    network = BiLSTM(BiLSTMConfig(vocab_size=29, d_model=8, embedding_size=6))
    each = 2 * (4 * 4 * 6 + 4 * 4 * 4)  # both directions: four gates of what is read and held
    forward, backward = counted(Flops(network), lengths(S), ROWS)
    assert (forward, backward) == (2.0 * each * ROWS * S, 4.0 * each * ROWS * S)


def test_padding_is_counted_or_not() -> None:
    flops = Flops(Transformer(BASE))
    found = TextLengths(np.array([2, 4]), np.array([3, 1]))
    padded = found.padded()
    assert (padded.num_tokens, found.num_tokens) == (14, 10)
    assert flops(padded, 4).total > flops(found, 4).total
    assert TextLengths(found.source, is_packed=True).padded().num_tokens == 6


def test_a_window_sees_so_many_keys_and_layers_passed_over_count_by_chance() -> None:
    full = Transformer(changed(BASE, ONE_STACK))
    window = {**ONE_STACK, "attention.pattern": "sliding_window", "attention.window": 2}
    narrow = Transformer(changed(BASE, window))
    found = lengths(50)
    part = "attention scores"
    ratio = Flops(narrow)(found, 0).forward[part] / Flops(full)(found, 0).forward[part]
    assert ratio == 4 / 50  # two on a side, itself once, and the global token
    dropped = Flops(Transformer(changed(BASE, {**ONE_STACK, "layer_drop": 0.25})))
    assert dropped(found, 0).total == 0.75 * Flops(full)(found, 0).total
    assert Flops(full, num_passes=2)(found, 5).total == 2 * Flops(full)(found, 5).total

"""From hidden states to labels: what padding must not change, and what every option must."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from gnomon.errors import ModelError
from gnomon.model import (
    BiLSTM,
    BiLSTMConfig,
    ClassifierConfig,
    ClassifierNetwork,
    Transformer,
    parameter_roles,
)
from gnomon.model.classifier import pool
from model_configs import CONFIGS

ENCODER = CONFIGS["encoder_headless"]
DECODER = replace(ENCODER, family="decoder", num_decoder_layers=2)
LSTM = BiLSTMConfig(vocab_size=ENCODER.vocab_size, d_model=16, embedding_size=8, num_layers=2)
NETWORKS = {
    "encoder": lambda: Transformer(ENCODER),
    "decoder": lambda: Transformer(DECODER),
    "bilstm": lambda: BiLSTM(LSTM),
}


def build(name: str, *, per_token: bool = False, **options: Any) -> ClassifierNetwork:
    torch.manual_seed(0)
    found = ClassifierNetwork(NETWORKS[name](), ClassifierConfig(**options), 3, per_token=per_token)
    return found.double().eval()


def batch(rows: int = 3, length: int = 7) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    ids = torch.randint(4, ENCODER.vocab_size, (rows, length))
    keep = torch.arange(length) < torch.tensor([[length], [4], [1]])[:rows]
    return ids.masked_fill(~keep, 0), keep


@pytest.mark.parametrize("per_token", [False, True])
@pytest.mark.parametrize("pooling", ["first", "mean", "max", "last"])
@pytest.mark.parametrize("name", NETWORKS)
def test_neither_padding_nor_neighbours_count(name: str, pooling: str, per_token: bool) -> None:
    network = build(name, per_token=per_token, pooling=pooling)
    ids, keep = batch()
    together = network(ids, keep)
    wider = torch.nn.functional.pad(ids, (0, 5)), torch.nn.functional.pad(keep, (0, 5))
    other = network(*wider)
    if per_token:
        other, together = other[:, : ids.shape[1]][keep], together[keep]
    assert torch.allclose(other, together, atol=1e-12)
    whole = network(ids, keep)
    for row in range(len(ids)):
        length = int(keep[row].sum())
        alone = network(ids[row : row + 1, :length], keep[row : row + 1, :length])[0]
        same = whole[row, :length] if per_token else whole[row]
        assert torch.allclose(alone, same, atol=1e-12)


def test_pooling_by_hand() -> None:
    hidden = torch.randn(2, 4, 5)
    keep = torch.tensor([[True, True, True, False], [False, True, True, True]])
    for row in range(2):
        mine = hidden[row][keep[row]]
        for pooling, expected in (
            ("first", mine[0]),
            ("last", mine[-1]),
            ("mean", mine.mean(0)),
            ("max", mine.amax(0)),
        ):
            assert torch.allclose(pool(hidden, keep, pooling)[row], expected)  # type: ignore[arg-type]
    none = torch.zeros_like(keep)
    for pooling in ("mean", "max"):
        assert torch.equal(pool(hidden, none, pooling), torch.zeros(2, 5))  # type: ignore[arg-type]


def test_every_option_changes_the_output() -> None:
    ids, keep = batch()
    seen = [build("encoder", pooling=pooling)(ids, keep) for pooling in ("first", "mean", "max")]
    seen.append(build("encoder", pooling="last")(ids, keep))
    seen.append(build("encoder", dense=True)(ids, keep))
    training = build("encoder", dropout=0.5).train()
    torch.manual_seed(2)
    seen.append(training(ids, keep))
    for number, one in enumerate(seen):
        for other in seen[:number]:
            assert not torch.allclose(one, other)
    lstm = {"dropout": 0.9, "num_layers": 1, "embedding_size": 4, "d_model": 8}
    plain = BiLSTM(LSTM).train()
    for name, value in lstm.items():
        torch.manual_seed(0)
        changed = BiLSTM(replace(LSTM, **{name: value})).train()
        torch.manual_seed(3)
        one = changed.encode(ids, keep)
        torch.manual_seed(3)
        other = plain.encode(ids, keep)
        assert one.shape != other.shape or not torch.allclose(one, other), name


def test_roles_decide_what_decays() -> None:
    roles = parameter_roles(build("bilstm"))
    assert roles["network.tables.source"] == "embedding"
    assert roles["network.lstm.weight_ih_l0"] == "matrix"
    assert roles["network.lstm.bias_hh_l0_reverse"] == "bias"
    assert roles["out.weight"] == "matrix"
    roles = parameter_roles(build("encoder"))
    assert {role for name, role in roles.items() if ".tables." in name} == {"embedding"}


def test_two_stacks_are_refused() -> None:
    with pytest.raises(ModelError, match="one stack"):
        ClassifierNetwork(
            Transformer(CONFIGS["base"] if "base" in CONFIGS else next(iter(CONFIGS.values()))),
            ClassifierConfig(),
            2,
            per_token=False,
        )
    assert "even" in BiLSTMConfig(d_model=3).problems()[0]
    assert "dropout" in ClassifierConfig(dropout=1.0).problems()[0]

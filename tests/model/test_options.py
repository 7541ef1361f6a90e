"""Every option of the configuration changes what the model computes, and none is forgotten."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from gnomon.errors import ModelError
from gnomon.model import Transformer, TransformerConfig
from model_configs import BASE, SWITCHES, changed, keys

# Options whose own tests are elsewhere: sizes show in every shape, the family in every test.
SIZES = {
    "family",
    "vocab_size",
    "d_model",
    "attention.num_heads",
    "feedforward.size",
    "pooler",  # of an encoder: below
}
# What a switch is compared with: the model without its last change.
BEFORE: dict[str, dict[str, Any]] = {
    "two_global_tokens": {"attention.pattern": "block_sparse", "attention.block_size": 1},
    "one_key_value_head": {"attention.num_key_value_heads": 2},
    "relative_small": {
        "position.kind": "relative",
        "position.relative.num_buckets": 8,
    },
    "dilated": {"attention.pattern": "dilated", "attention.window": 2},
    "block_sparse_ntk": {"attention.pattern": "block_sparse", "attention.block_size": 2},
    "rope_theta": {"position.kind": "rope"},
    "learned_offset": {"position.kind": "learned", "position.max_length": 24},
    "rope_linear": {"position.kind": "rope", "position.rope.factor": 4.0},
    "rope_ntk": {"position.kind": "rope", "position.rope.factor": 4.0},
    "rope_dynamic_ntk": {
        "position.kind": "rope",
        "position.rope.scaling": "dynamic_ntk",
        "position.rope.factor": 2.0,
    },
    "rope_yarn": {
        "position.kind": "rope",
        "position.rope.factor": 4.0,
        "position.rope.original_length": 8,
    },
    "rope_yarn_betas": {
        "position.kind": "rope",
        "position.rope.scaling": "yarn",
        "position.rope.factor": 4.0,
        "position.rope.original_length": 8,
    },
    "rope_llama3": {"position.kind": "rope"},
    "sandwich_rms": {"norm.placement": "sandwich"},
    "pre_rms": {"norm.placement": "pre"},
    "gated": {"feedforward.activation": "swish"},
}
# Same output: what these change is how it is trained.
SILENT = {"sparse_gradient", "tie_none", "tie_decoder", "tie_inputs"}


def test_every_option_has_a_switch_here() -> None:
    covered = {key for changes in SWITCHES.values() for key in changes}
    assert set(keys(BASE)) == covered | SIZES


def sources() -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    ids = torch.randint(1, 29, (3, 9))
    ids[1, 5:] = 0
    return ids, torch.randint(1, 29, (3, 9))


def logits(config: TransformerConfig, weights_of: Transformer | None = None) -> Tensor:
    """Training-mode logits under one seed, with the weights of another model where they fit."""
    torch.manual_seed(0)
    model = Transformer(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
        if weights_of is not None:
            given = dict(weights_of.named_parameters())
            for name, parameter in model.named_parameters():
                if name in given and given[name].shape == parameter.shape:
                    parameter.copy_(given[name])
    torch.manual_seed(0)
    result: Tensor = model.train()(*sources())
    return result


@pytest.mark.parametrize("name", sorted(set(SWITCHES) - SILENT))
def test_the_option_changes_the_output(name: str) -> None:
    before = changed(BASE, BEFORE.get(name, {}))
    torch.manual_seed(0)
    donor = Transformer(before)
    with torch.no_grad():
        for parameter in donor.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    plain = logits(before, donor)
    torch.testing.assert_close(plain, logits(before, donor))  # nothing else differs
    switched = logits(changed(BASE, SWITCHES[name]), donor)
    if switched.shape == plain.shape:
        assert not torch.allclose(switched, plain, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("setting", [{"norm.eps": 1e-5}, {"dropout": 0.1}, {"attention.window": 9}])
def test_settings_without_effect_change_nothing(setting: dict[str, Any]) -> None:
    """The comparison above could not pass for any two models: here it would fail."""
    torch.manual_seed(0)
    donor = Transformer(BASE)
    assert torch.equal(logits(BASE, donor), logits(changed(BASE, setting), donor))


def test_sparse_gradients_hold_the_batchs_rows_only() -> None:
    model = Transformer(changed(BASE, SWITCHES["sparse_gradient"]))
    ids, target = sources()
    model(ids, target).sum().backward()
    for role, seen in (("source", ids), ("target", target)):
        gradient = model.table(role).grad
        assert gradient is not None and gradient.is_sparse
        rows = gradient.coalesce().indices()[0]
        assert set(rows.tolist()) == set(seen.unique().tolist())
    dense = Transformer(changed(BASE, {"tie": "none"}))
    dense.load_state_dict(model.state_dict())
    torch.manual_seed(0)
    dense.eval()(ids, target).sum().backward()
    model.zero_grad()
    model.eval()(ids, target).sum().backward()
    torch.testing.assert_close(
        model.table("source").grad.to_dense(),
        dense.table("source").grad,  # type: ignore[union-attr]
    )
    gradient = model.table("source").grad
    assert gradient is not None
    torch.optim.SparseAdam([model.table("source"), model.table("target")]).step()


def test_the_pooler_is_a_dense_layer_over_the_first_token() -> None:
    config = changed(BASE, {"family": "encoder", "pooler": True})
    model = Transformer(config).eval()
    hidden = model.encode(sources()[0])
    pooled = model.pool(hidden)
    dense = model.pooler.dense
    torch.testing.assert_close(pooled, (hidden[:, 0] @ dense.weight.T + dense.bias).tanh())
    with pytest.raises(ModelError, match="no pooler"):
        Transformer(changed(config, {"pooler": False})).pool(hidden)

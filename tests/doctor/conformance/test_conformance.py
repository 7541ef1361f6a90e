"""A changed stock model is found and the change named; unchanged ones pass in every mode."""

from __future__ import annotations

import functools
import types
from typing import Any

import pytest
import torch
from torch import nn

from gnomon.doctor import Finding, Patient, all_checks
from gnomon.doctor.examine import examine
from gnomon.model import Transformer
from model_configs import CONFIGS

transformers = pytest.importorskip("transformers")


def found(module: nn.Module, **fields: Any) -> Finding:
    return examine(Patient(module=module, **fields), [all_checks()["conformance"]]).findings[0]


def bert(attention: str = "eager", **changes: Any) -> Any:
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=90, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=64, attn_implementation=attention, **changes,
    )  # fmt: skip
    return transformers.BertForMaskedLM(config)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_an_unchanged_model_conforms_in_training_too(attention: str) -> None:
    module = bert(attention).train()
    finding = found(module)
    assert finding.verdict == "pass", finding.evidence
    assert module.training and all(p.grad is None for p in module.parameters())


def test_a_half_model_and_a_frozen_one_conform() -> None:
    assert found(bert().bfloat16()).verdict == "pass"
    frozen = bert()
    for parameter in frozen.bert.embeddings.parameters():
        parameter.requires_grad_(False)
    assert found(frozen).verdict == "pass"


@pytest.mark.parametrize("name", list(CONFIGS)[::6])
def test_gnomon_s_own_models_conform(name: str) -> None:
    torch.manual_seed(0)
    finding = found(Transformer(CONFIGS[name]))
    assert finding.verdict == "pass", finding.evidence


def replaced(module: Any) -> str:
    self_attention = module.bert.encoder.layer[1].attention.self
    own = type(self_attention).forward

    def forward(self: Any, hidden: Any, *args: Any, **kwargs: Any) -> Any:
        context, *rest = own(self, hidden, *args, **kwargs)
        return (context * 1.2, *rest)

    self_attention.forward = types.MethodType(forward, self_attention)
    return "bert.encoder.layer.1.attention.self"


def epsilon(module: Any) -> str:
    module.bert.encoder.layer[0].output.LayerNorm.eps = 0.1
    return "bert.encoder.layer.0.output.LayerNorm"


def dropout(module: Any) -> str:
    module.bert.encoder.layer[1].output.dropout.p = 0.9
    return "bert.encoder.layer.1.output.dropout"


def hook(module: Any) -> str:
    layer = module.bert.encoder.layer[0].intermediate
    layer.register_full_backward_hook(lambda m, gi, go: (gi[0] * 0,))
    return "bert.encoder.layer.0"


def removed(module: Any) -> str:
    module.bert.encoder.layer[0].output.LayerNorm = nn.Identity()
    return "bert.encoder.layer.0.output.LayerNorm"


@pytest.mark.parametrize("change", [replaced, epsilon, dropout, hook, removed])
def test_a_change_is_named(change: Any) -> None:
    module = bert()
    place = change(module)
    finding = found(module)
    assert finding.verdict == "fail", finding.evidence
    assert any(name.startswith(place) for name in finding.where) or change is hook, finding.where


def test_classes_of_the_user_have_no_stock_model() -> None:
    class Mine(transformers.BertForMaskedLM):  # type: ignore[misc,name-defined]
        pass

    assert found(Mine(bert().config)).verdict == "n/a"
    assert found(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)).verdict == "n/a"


@pytest.mark.parametrize("how", ["replaced", "hooked"])
def test_an_output_that_is_changed_after_all_modules_is_named(how: str) -> None:
    module = bert()
    if how == "hooked":
        module.register_forward_hook(lambda module, inputs, output: changed(output))
    else:
        own = module.forward
        module.forward = functools.wraps(own)(lambda *args, **inputs: changed(own(*args, **inputs)))
    finding = found(module)
    assert finding.verdict == "fail"
    assert finding.where == ("logits",)
    assert "own forward" in finding.cause


def changed(output: Any) -> Any:
    output.logits = output.logits.roll(1, -1)
    return output

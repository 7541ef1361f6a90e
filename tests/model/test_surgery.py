"""Position surgery: what changes, what stays, and what is refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from gnomon.errors import ModelError
from gnomon.model import Transformer, TransformerConfig, blocked, use_backend
from gnomon.model.surgery import (
    Operated,
    interpolated,
    replace_by_rope,
    resize_table,
    stretch_rope,
)
from model_configs import BASE, CONFIGS, changed

FAMILIES = ("encoder_decoder", "encoder", "decoder")


def model_of(config: TransformerConfig) -> Transformer:
    torch.manual_seed(3)
    return Transformer(config).double().eval()


def rebuilt(operated: Operated) -> Transformer:
    model = Transformer(operated.config).double().eval()
    model.load_state_dict(operated.weights)  # strict: nothing missing, nothing left over
    return model


def read(model: Transformer, length: int) -> torch.Tensor:
    torch.manual_seed(1)
    ids = torch.randint(4, 29, (2, length))
    return model(ids, ids) if model.config.family == "encoder_decoder" else model(ids)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", ["learned", "sinusoidal", "alibi", "relative", "none"])
def test_any_positions_become_rotary_and_all_else_stays(family: str, kind: str) -> None:
    config = changed(BASE, {"family": family, "position.kind": kind, "position.max_length": 24})
    model = model_of(config)
    before = model.state_dict()
    operated = replace_by_rope(config, before, theta=500.0)
    assert operated.config.position.kind == "rope"
    assert operated.config.position.rope.theta == 500.0
    num_stacks = 2 if family == "encoder_decoder" else 1
    assert len(operated.dropped) == (num_stacks if kind in ("learned", "relative") else 0)
    assert set(operated.dropped) | operated.weights.keys() == before.keys()
    for name, tensor in operated.weights.items():
        assert torch.equal(tensor, before[name])
    after = rebuilt(operated)
    assert not torch.allclose(read(after, 9), read(model, 9))
    assert torch.isfinite(read(after, 100)).all()


@pytest.mark.parametrize("family", FAMILIES)
def test_a_resized_table_reaches_further_and_keeps_its_ends(family: str) -> None:
    config = changed(
        BASE, {"family": family, "position.kind": "learned", "position.max_length": 24}
    )
    model = model_of(config)
    operated = resize_table(config, model.state_dict(), 47)
    for name in operated.resized:
        old, new = model.state_dict()[name], operated.weights[name]
        assert new.shape == (47, 16)
        # 46 steps over 23: every second point is an old one, the others lie halfway
        torch.testing.assert_close(new[::2], old, rtol=0, atol=1e-14)
        torch.testing.assert_close(new[1::2], (old[1:] + old[:-1]) / 2, rtol=0, atol=1e-14)
    assert len(operated.resized) == (2 if family == "encoder_decoder" else 1)
    with pytest.raises(ModelError):
        read(model, 25)
    assert torch.isfinite(read(rebuilt(operated), 47)).all()


def test_rows_that_no_token_uses_stay_in_front() -> None:
    """RoBERTa and BART number the first token 2."""
    config = changed(
        BASE, {"position.kind": "learned", "position.max_length": 9, "position.offset": 2}
    )
    model = model_of(config)
    operated = resize_table(config, model.state_dict(), 17)
    for name in operated.resized:
        old, new = model.state_dict()[name], operated.weights[name]
        assert torch.equal(new[:2], old[:2])
        torch.testing.assert_close(new[2::2], old[2:], rtol=0, atol=1e-14)
    assert torch.isfinite(read(rebuilt(operated), 17)).all()


def test_a_table_keeps_its_dtype_and_is_interpolated_in_more() -> None:
    table = torch.randn(5, 3).to(torch.bfloat16)
    result = interpolated(table, 9)
    assert result.dtype == torch.bfloat16
    assert torch.equal(result[::2], table)
    assert torch.equal(interpolated(table[:1], 4), table[:1].expand(4, -1))


@pytest.mark.parametrize("scaling", ["linear", "ntk", "dynamic_ntk", "yarn"])
@pytest.mark.parametrize("family", FAMILIES)
def test_stretching_changes_the_configuration_alone(scaling: Any, family: str) -> None:
    config = changed(BASE, {"family": family, "position.kind": "rope"})
    model = model_of(config)
    operated = stretch_rope(config, model.state_dict(), scaling, 4.0, trained_length=16)
    assert operated.config.position.rope.scaling == scaling
    for name, tensor in model.state_dict().items():
        assert operated.weights[name] is tensor or torch.equal(operated.weights[name], tensor)
    after = rebuilt(operated)
    assert not torch.allclose(read(after, 40), read(model, 40))
    if scaling == "dynamic_ntk":  # within the trained length nothing changes
        torch.testing.assert_close(read(after, 16), read(model, 16), rtol=0, atol=0)
    assert operated.config.unused() == []


@pytest.mark.parametrize("scaling", ["linear", "yarn"])
def test_a_stretch_takes_the_place_of_an_earlier_one(scaling: Any) -> None:
    config = changed(BASE, {"position.kind": "rope", "position.rope.theta": 500.0})
    once = stretch_rope(config, {}, "yarn", 2.0, trained_length=16).config
    twice = stretch_rope(once, {}, scaling, 4.0, trained_length=16).config
    assert twice == stretch_rope(config, {}, scaling, 4.0, trained_length=16).config
    assert twice.position.rope.theta == 500.0


@pytest.mark.parametrize("family", ["encoder", "decoder"])
def test_ntk_goes_together_with_block_sparse_attention(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An extended sparse model, past its trained length: blocks are the dense mask."""
    monkeypatch.setattr(blocked, "SMALLEST_BLOCK", 4)
    config = changed(
        BASE,
        {
            "family": family,
            "position.kind": "rope",
            "attention.pattern": "block_sparse",
            "attention.block_size": 4,
        },
    )
    model = rebuilt(
        stretch_rope(config, model_of(config).state_dict(), "ntk", 4.0, trained_length=16)
    )
    results = []
    for backend in ("reference", "blocked"):
        model.zero_grad()
        with use_backend(backend):  # type: ignore[arg-type]
            logits = read(model, 64)
        logits.square().sum().backward()
        results.append([logits, *(p.grad for p in model.parameters() if p.grad is not None)])
    for dense, fast in zip(*results, strict=True):
        torch.testing.assert_close(fast, dense, rtol=1e-9, atol=1e-9)
    assert not torch.allclose(read(model_of(config), 64), results[0][0])


REFUSED: dict[str, tuple[str, Callable[[TransformerConfig], Operated], str]] = {
    "rope_again": ("rope", lambda c: replace_by_rope(c, {}), "rotary already"),
    "stretch_alibi": ("alibi", lambda c: stretch_rope(c, {}, "ntk", 2.0), "ALiBi"),
    "stretch_sinusoidal": ("sinusoidal", lambda c: stretch_rope(c, {}, "linear", 2.0), "sinusoids"),
    "stretch_learned": ("learned", lambda c: stretch_rope(c, {}, "linear", 2.0), "resize"),
    "stretch_relative": ("relative", lambda c: stretch_rope(c, {}, "yarn", 2.0, 8), "buckets"),
    "stretch_nothing": ("none", lambda c: stretch_rope(c, {}, "ntk", 2.0), "no positions"),
    "yarn_of_unknown_length": ("rope", lambda c: stretch_rope(c, {}, "yarn", 2.0), "trained with"),
    "shrink": ("rope", lambda c: stretch_rope(c, {}, "linear", 0.5), "at least 1"),
    "resize_rope": ("rope", lambda c: resize_table(c, {}, 99), "stretch"),
    "resize_alibi": ("alibi", lambda c: resize_table(c, {}, 99), "ALiBi"),
    "resize_down": ("learned", lambda c: resize_table(c, {}, 512), "reach further"),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_is_refused_by_name(
    case: tuple[str, Callable[[TransformerConfig], Operated], str],
) -> None:
    kind, operate, named = case
    with pytest.raises(ModelError, match=named):
        operate(changed(BASE, {"position.kind": kind}))


def test_heads_that_cannot_be_turned_are_named() -> None:
    config = changed(CONFIGS["base"], {"attention.head_size": 5})
    with pytest.raises(ModelError, match="head size must be even"):
        replace_by_rope(config, {})

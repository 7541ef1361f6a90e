"""Texts many times longer than the pattern: blocks, chunks and a cache that forgets."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from gnomon.errors import ModelError
from gnomon.model import Transformer, TransformerConfig, blocked, use_backend
from model_configs import BASE, CONFIGS, changed

EXACT = {"rtol": 0.0, "atol": 1e-10}
LENGTH = 60
DECODERS = {name: config for name, config in CONFIGS.items() if config.family == "decoder"}
# Learned positions of the tests' models end before these texts do.
LONG_DECODERS = {
    name: config
    if config.position.kind != "learned"
    else changed(config, {"position.max_length": LENGTH})
    for name, config in DECODERS.items()
}
SPARSE: dict[str, dict[str, Any]] = {
    "window": {"pattern": "sliding_window", "window": 5, "num_global_tokens": 0},
    "window_global": {"pattern": "sliding_window", "window": 4, "num_global_tokens": 3},
    "dilated": {"pattern": "dilated", "window": 3, "dilation": 4},
    "block_sparse": {"pattern": "block_sparse", "block_size": 4, "num_global_tokens": 2},
}
POSITIONS: dict[str, dict[str, Any]] = {
    "sinusoidal": {},
    "rope_ntk": {
        "position.kind": "rope",
        "position.rope.scaling": "ntk",
        "position.rope.factor": 4.0,
    },
    "rope_yarn": {
        "position.kind": "rope",
        "position.rope.scaling": "yarn",
        "position.rope.factor": 8.0,
        "position.rope.original_length": 8,
    },
    "alibi": {"position.kind": "alibi"},
    "relative": {"position.kind": "relative", "position.relative.num_buckets": 8},
}
sparse = pytest.mark.parametrize("attention", SPARSE.values(), ids=SPARSE.keys())
positions = pytest.mark.parametrize("position", POSITIONS.values(), ids=POSITIONS.keys())


def build(config: TransformerConfig) -> Transformer:
    torch.manual_seed(3)
    model = Transformer(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    return model.double().eval()


def sparse_model(family: str, attention: dict[str, Any], position: dict[str, Any]) -> Transformer:
    keys = {f"attention.{key}": value for key, value in attention.items()}
    return build(changed(BASE, {"family": family, **keys, **position}))


def texts(num_rows: int, length: int) -> Tensor:
    torch.manual_seed(num_rows)
    return torch.randint(4, 29, (num_rows, length))


def gradient(model: Transformer) -> Tensor:
    grads = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
    return torch.cat(grads)


@sparse
@positions
@pytest.mark.parametrize("family", ["encoder", "decoder"])
def test_long_texts_in_blocks_equal_the_dense_mask(
    family: str, attention: Any, position: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocked, "SMALLEST_BLOCK", 4)
    model = sparse_model(family, attention, position)
    ids = texts(2, LENGTH)
    keep = torch.ones_like(ids, dtype=torch.bool)
    keep[1, 41:] = False
    results, seen = [], []
    monkeypatch.setattr(
        blocked, "make_plan", lambda *a, make=blocked.make_plan: (seen.append(a), make(*a))[1]
    )
    for backend in ("reference", "blocked"):
        model.zero_grad()
        with use_backend(backend):  # type: ignore[arg-type]
            logits = model(ids, keep=keep)
            logits[keep].square().sum().backward()
        results.append((logits[keep], gradient(model)))
    assert len(seen) == len(model.config.attention.sparsity())  # one plan for all layers
    torch.testing.assert_close(results[1][0], results[0][0], **EXACT)
    torch.testing.assert_close(results[1][1], results[0][1], rtol=1e-9, atol=1e-9)


def test_chosen_global_tokens_are_seen_and_see() -> None:
    model = sparse_model("encoder", SPARSE["window"], {})
    ids, chosen = texts(1, LENGTH), torch.zeros((1, LENGTH), dtype=torch.bool)
    chosen[0, 30] = True
    plain, marked = model(ids), model(ids, global_tokens=chosen)
    assert not torch.allclose(plain[:, 0], marked[:, 0])
    far = ids.clone()
    far[0, 30] = 4 + (far[0, 30] - 3) % 25
    torch.testing.assert_close(model(far)[:, 0], plain[:, 0], **EXACT)
    assert not torch.allclose(model(far, global_tokens=chosen)[:, 0], marked[:, 0])
    with pytest.raises(ModelError, match="pattern = full"):
        build(changed(BASE, {"family": "encoder"}))(ids, global_tokens=chosen)
    with pytest.raises(ModelError, match="num_global_tokens"):
        sparse_model("decoder", SPARSE["window"], {})(ids, global_tokens=chosen)


@pytest.mark.parametrize("config", LONG_DECODERS.values(), ids=LONG_DECODERS.keys())
@torch.no_grad()
def test_a_text_in_chunks_equals_one_pass(config: TransformerConfig) -> None:
    model = build(config)
    ids = texts(2, LENGTH)
    whole = model.decode(ids)
    for size in (7, 60, 100):
        cache = model.new_cache(max_length=LENGTH)
        parts = list(model.decode_in_chunks(ids, cache=cache, chunk_size=size))
        torch.testing.assert_close(torch.cat(parts, dim=1), whole, **EXACT)
        assert cache.length == LENGTH


@sparse
@torch.no_grad()
def test_a_cache_forgets_what_no_later_token_sees(attention: Any) -> None:
    model = sparse_model("decoder", attention, POSITIONS["rope_ntk"])
    ids = texts(2, 300)
    whole = model.decode(ids)
    cache, kept = model.new_cache(), []
    for start in range(300):
        step = model.decode(ids[:, start : start + 1], cache=cache)
        torch.testing.assert_close(step, whole[:, start : start + 1], **EXACT)
        kept.append(cache.num_kept)
        if start == 150:  # as beam search does it
            rows = torch.tensor([1, 0])
            cache.select(rows, torch.zeros(2, 1, dtype=torch.long))
            ids, whole = ids[rows], whole[rows]
    assert cache.length == 300
    assert max(kept) < 40
    assert max(kept[150:]) <= max(kept[:150])


@sparse
@torch.no_grad()
def test_what_comes_later_may_be_padded(attention: Any) -> None:
    """Padding that begins after tokens were forgotten, and tokens after it."""
    model = sparse_model("decoder", attention, {})
    ids, keep = texts(2, 120), torch.ones((2, 120), dtype=torch.bool)
    keep[1, 90:97] = False
    whole = model.decode(ids, keep=keep)
    cache = model.new_cache()
    first = list(model.decode_in_chunks(ids[:, :90], cache=cache, chunk_size=6))
    assert cache.num_forgotten
    second = list(model.decode_in_chunks(ids[:, 90:], cache=cache, chunk_size=6, keep=keep[:, 90:]))
    parts = torch.cat(first + second, dim=1)
    torch.testing.assert_close(parts[keep], whole[keep], **EXACT)


@sparse
@torch.no_grad()
def test_prompts_padded_in_front_forget_nothing(attention: Any) -> None:
    model = sparse_model("decoder", attention, {})
    ids, keep = texts(2, 120), torch.ones((2, 120), dtype=torch.bool)
    keep[1, :9] = False
    whole = model.decode(ids, keep=keep)
    cache = model.new_cache()
    parts = torch.cat(list(model.decode_in_chunks(ids, cache=cache, chunk_size=8, keep=keep)), 1)
    torch.testing.assert_close(parts[keep], whole[keep], **EXACT)
    assert cache.num_forgotten == 0


@torch.no_grad()
def test_full_attention_and_biases_forget_nothing() -> None:
    alibi = sparse_model("decoder", SPARSE["window"], POSITIONS["alibi"])
    for model in (alibi, build(CONFIGS["decoder_base"])):
        cache = model.new_cache()
        for _ in model.decode_in_chunks(texts(1, 100), cache=cache, chunk_size=10):
            pass
        assert cache.num_kept == cache.length == 100

"""PyTorch's own attention modules, whose code hides from a function mode, and their fast paths."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor, nn

from gnomon.probe import compare_unobserved, observe

B, T, S, D, H = 2, 5, 7, 16, 4
AHEAD = torch.ones(T, T, dtype=torch.bool).triu(1)


def padding(length: int) -> Tensor:
    """True = pad, as PyTorch's modules have it."""
    pad = torch.zeros(B, length, dtype=torch.bool)
    pad[1, -2:] = True
    return pad


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("masked", [None, "attn", "padding", "both"])
def test_multihead_attention(need_weights: bool, batch_first: bool, masked: str | None) -> None:
    torch.manual_seed(0)
    module = nn.MultiheadAttention(D, H, batch_first=batch_first).eval()
    x = torch.randn(B, T, D)
    given = x if batch_first else x.transpose(0, 1)
    masks = {}
    keep = torch.ones(B, 1, T, T, dtype=torch.bool)
    if masked in ("attn", "both"):
        masks["attn_mask"] = AHEAD
        keep = keep & ~AHEAD
    if masked in ("padding", "both"):
        masks["key_padding_mask"] = padding(T)
        keep = keep & ~padding(T)[:, None, None]
    with observe(module) as record:
        output, _ = module(given, given, given, need_weights=need_weights, **masks)
    _, weights = module(given, given, given, average_attn_weights=False, **masks)
    assert not record.notes
    (call,) = record.attention
    assert (call.path, call.module) == ("mha", "")
    assert call.scale == pytest.approx((D // H) ** -0.5)
    assert call.query.shape == call.key.shape == call.value.shape == (B, H, T, D // H)
    torch.testing.assert_close(call.weights, weights)
    torch.testing.assert_close(call.weights @ call.value, call.output, atol=1e-6, rtol=1e-5)
    assert call.is_cross is False
    assert call.mask_dtype == (torch.bool if masked else None)
    if masked is None:
        assert call.keep is None
    else:
        assert torch.equal(call.keep.expand(B, 1, T, T), keep)
        assert call.mask_constants == (-torch.inf,)
    expected = module(given, given, given, need_weights=need_weights, **masks)[0]
    torch.testing.assert_close(output, expected)


def test_multihead_attention_across() -> None:
    torch.manual_seed(0)
    module = nn.MultiheadAttention(D, H, kdim=6, vdim=9, batch_first=True)
    x, key, value = torch.randn(B, T, D), torch.randn(B, S, 6), torch.randn(B, S, 9)
    for need_weights in (True, False):
        with observe(module) as record:
            module(x, key, value, need_weights=need_weights)
        (call,) = record.attention
        assert call.is_cross
        assert call.weights.shape == (B, H, T, S)


def test_unbatched_multihead_attention_with_appended_keys() -> None:
    module = nn.MultiheadAttention(D, H, add_bias_kv=True, add_zero_attn=True)
    x = torch.randn(T, D)
    with observe(module) as record:
        module(x, x, x)
    (call,) = record.attention
    assert call.weights.shape == (1, H, T, T + 2)


def test_dropout_of_multihead_attention() -> None:
    module = nn.MultiheadAttention(D, H, dropout=0.5, batch_first=True)
    x = torch.randn(B, T, D)
    for need_weights in (True, False):
        for train in (True, False):
            with observe(module.train(train)) as record:
                module(x, x, x, need_weights=need_weights)
            (call,) = record.attention
            assert call.dropout == (0.5 if train else 0.0)
            assert call.training == train
            assert bool(record.random_ops) == train


@pytest.mark.parametrize(
    ("norm_first", "batch_first", "train"), list(itertools.product([True, False], repeat=3))
)
def test_whole_transformer(norm_first: bool, batch_first: bool, train: bool) -> None:
    torch.manual_seed(0)
    module = nn.Transformer(
        D, H, 2, 2, 24, dropout=0.1, norm_first=norm_first, batch_first=batch_first
    ).train(train)
    source, target = torch.randn(B, S, D), torch.randn(B, T, D)
    if not batch_first:
        source, target = source.transpose(0, 1), target.transpose(0, 1)
    with observe(module) as record:
        module(
            source,
            target,
            tgt_mask=nn.Transformer.generate_square_subsequent_mask(T),
            tgt_is_causal=True,
            src_key_padding_mask=padding(S),
            memory_key_padding_mask=padding(S),
        )
    assert [call.module for call in record.attention] == [
        "encoder.layers.0.self_attn",
        "encoder.layers.1.self_attn",
        "decoder.layers.0.self_attn",
        "decoder.layers.0.multihead_attn",
        "decoder.layers.1.self_attn",
        "decoder.layers.1.multihead_attn",
    ]
    assert [call.is_cross for call in record.attention] == [False] * 3 + [True, False, True]
    real = ~padding(S)[:, None, None]
    for call in record.attention:
        assert call.path == "mha"
        expected = real.expand(B, 1, call.weights.shape[2], S)
        if "decoder" in call.module and not call.is_cross:
            expected = ~AHEAD[None, None]
        assert torch.equal(call.keep, expected)
    assert len(record.norms) == 2 * 2 + 2 * 3 + 2
    assert {norm.kind for norm in record.norms} == {"layer"}
    assert [each.name for each in record.activations] == ["relu"] * 4
    assert bool(record.random_ops) == train


def encoder(**options: bool) -> nn.TransformerEncoder:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(D, H, 24, batch_first=True)
    return nn.TransformerEncoder(layer, 2, **options).eval()


def test_fast_path_is_seen_by_the_comparison() -> None:
    module = encoder()
    x = torch.randn(B, T, D)
    with torch.no_grad():
        difference = compare_unobserved(module, lambda: module(x))
        with observe(module) as record:
            module(x)
    assert difference.fast_path
    assert {kernel.name for kernel in difference.unobserved_kernels} >= {
        "_transformer_encoder_layer_fwd"
    }
    assert 0 < difference.absolute < 1e-5  # another order of summation
    assert len(record.attention) == 2
    assert all(kernel.name.startswith("_scaled") for kernel in record.fused)
    owners = [kernel.module for kernel in record.fused]
    assert owners == ["layers.0.self_attn", "layers.1.self_attn"]


def test_fast_path_differs_on_padding() -> None:
    module = encoder(enable_nested_tensor=True)
    x = torch.randn(B, T, D)
    with torch.no_grad():
        difference = compare_unobserved(module, lambda: module(x, src_key_padding_mask=padding(T)))
    assert difference.fast_path
    assert difference.absolute > 0.1


def test_without_a_fast_path_observation_changes_no_bit() -> None:
    module = encoder().train()
    x = torch.randn(B, T, D)
    difference = compare_unobserved(module, lambda: module(x))
    assert not difference.fast_path
    assert difference.absolute == difference.relative == 0
    assert difference.unobserved_kernels == tuple(
        type(k)("", k.name) for k in difference.observed_kernels
    )


def test_comparison_leaves_the_random_state_as_it_was() -> None:
    module = encoder().train()
    x = torch.randn(B, T, D)
    torch.manual_seed(3)
    before = torch.get_rng_state()
    compare_unobserved(module, lambda: module(x))
    assert torch.equal(torch.get_rng_state(), before)


def test_comparison_sees_what_depends_on_being_watched() -> None:
    class Sly(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + torch.overrides.has_torch_function((x,))

    module = Sly()
    difference = compare_unobserved(module, lambda: module(torch.ones(3)))
    assert difference.absolute == difference.relative == 1

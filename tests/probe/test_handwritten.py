"""Attention written by hand, in every habit: operands, scale, mask and weights are recovered."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gnomon.probe import observe
from probe.handwritten import SAME, Base, D, H, K, LoopOverHeads, PairwiseBias, reference

B, T = 3, 6


def setting(style: type[Base]) -> tuple[Base, Tensor, Tensor]:
    torch.manual_seed(0)
    module = style().eval()
    keep = torch.ones(B, 1, T, T, dtype=torch.bool).tril()
    keep[1, :, :, 0] = False  # a left pad
    keep[1, :, 0, 0] = True  # but no empty row: -inf and finite constants differ there
    return module, torch.randn(B, T, D), keep


@pytest.mark.parametrize("style", SAME)
def test_all_habits_show_the_same(style: type[Base]) -> None:
    module, x, keep = setting(style)
    with torch.no_grad():
        expected = reference(module, x, keep)
        with observe(module) as record:
            module(x, keep)
    assert not record.notes
    (call,) = record.attention
    assert not record.softmaxes
    assert call.module == ""
    assert call.scale == pytest.approx(K**-0.5)
    assert call.softmax_dim == -1
    assert call.is_cross is False
    assert call.num_heads == call.num_key_heads == H
    for name in ("query", "key", "value", "output", "weights"):
        seen = getattr(call, name)
        torch.testing.assert_close(seen, expected[name], atol=1e-6, rtol=1e-5, msg=name)
    torch.testing.assert_close(call.raw_scores, expected["raw"], atol=1e-6, rtol=1e-5)
    assert torch.equal(call.keep, keep)
    assert call.bias is None
    if call.applied_weights is not None:
        torch.testing.assert_close(call.applied_weights, call.weights)


@pytest.mark.parametrize("style", SAME)
def test_observation_changes_neither_loss_nor_gradients(style: type[Base]) -> None:
    module, x, keep = setting(style)
    module.train()

    def step() -> tuple[Tensor, list[Tensor]]:
        torch.manual_seed(7)
        module.zero_grad()
        loss = module(x, keep).square().sum()
        loss.backward()
        return loss, [p.grad.clone() for p in module.parameters() if p.grad is not None]

    plain, gradients = step()
    with observe(module, keep_outputs=True):
        watched, watched_gradients = step()
    assert torch.equal(plain, watched)
    assert all(map(torch.equal, gradients, watched_gradients))


def test_a_loop_over_heads_is_one_call_per_head() -> None:
    module, x, keep = setting(LoopOverHeads)
    with torch.no_grad():
        expected = reference(module, x, keep)
        with observe(module) as record:
            module(x, keep)
    assert len(record.attention) == H
    for head, call in enumerate(record.attention):
        assert call.num_heads == 1
        torch.testing.assert_close(call.weights[:, 0], expected["weights"][:, head])
        torch.testing.assert_close(call.query[:, 0], expected["query"][:, head])
        assert torch.equal(call.keep, keep)


def test_bias_and_mask_in_one_tensor_come_apart() -> None:
    module, x, keep = setting(PairwiseBias)
    with observe(module) as record:
        module(x, keep)
    assert not record.notes
    (call,) = record.attention
    assert torch.equal(call.keep, keep)
    table = module.table.detach()[None, :, :T, :T]
    expected = table.expand(B, H, T, T).masked_fill(~keep, 0)
    torch.testing.assert_close(call.bias.expand_as(expected), expected)
    assert call.mask_dtype == torch.float32
    assert max(call.mask_constants) < -3e38


# --- faults and special ways ------------------------------------------------------------------


class Attend(nn.Module):
    """One way of attending, given as a function of q, k, v."""

    def __init__(self, attend) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(D, D) for _ in range(3))
        self.attend = attend

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (p(x).view(B, T, H, K).transpose(1, 2) for p in (self.q, self.k, self.v))
        return self.attend(q, k, v)


def only_call(attend, *, train: bool = False):
    torch.manual_seed(0)
    module = Attend(attend).train(train)
    x = torch.randn(B, T, D)
    with observe(module) as record:
        module(x)
    assert not record.notes
    (call,) = record.attention
    return call, record


LOOK_AHEAD = torch.ones(T, T, dtype=torch.bool).triu(1)


def test_softmax_over_the_queries_is_told_from_keys_first() -> None:
    call, _ = only_call(lambda q, k, v: (q @ k.mT / 2).softmax(-2) @ v)
    assert call.softmax_dim == -2
    torch.testing.assert_close(call.weights.sum(-2), torch.ones(B, H, T))


def test_softmax_over_the_heads() -> None:
    call, _ = only_call(lambda q, k, v: (q @ k.mT / 2).softmax(1) @ v)
    assert call.softmax_dim == -3


def test_softmax_over_the_batch() -> None:
    call, _ = only_call(lambda q, k, v: (q @ k.mT / 2).softmax(0) @ v)
    assert call.softmax_dim == -4


def test_missing_and_doubled_scale() -> None:
    assert only_call(lambda q, k, v: (q @ k.mT).softmax(-1) @ v)[0].scale == 1.0
    twice = only_call(lambda q, k, v: (q * K**-0.5 @ k.mT / math.sqrt(K)).softmax(-1) @ v)[0]
    assert twice.scale == pytest.approx(1 / K)


def test_a_scale_as_tensor_and_after_rotation() -> None:
    scale = torch.tensor(4.0).sqrt()
    assert only_call(lambda q, k, v: (q @ k.mT / scale).softmax(-1) @ v)[0].scale == 0.5

    def rotate(x: Tensor) -> Tensor:
        half = x.chunk(2, -1)
        return x * torch.rand(T, K) + torch.cat((-half[1], half[0]), -1) * torch.rand(T, K)

    call, _ = only_call(lambda q, k, v: (rotate(q / 2) @ rotate(k).mT).softmax(-1) @ v)
    assert call.scale == pytest.approx(0.5)


def test_scale_per_head_is_no_number() -> None:
    temperature = torch.rand(H, 1, 1)
    call, _ = only_call(lambda q, k, v: (q @ k.mT * temperature).softmax(-1) @ v)
    assert call.scale is None
    assert call.transforms_before == ("mul",)


def test_dropout_before_softmax() -> None:
    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.dropout(q @ k.mT / 2, 0.3).softmax(-1) @ v

    call, record = only_call(attend, train=True)
    assert call.dropout_before_softmax
    assert call.dropout == 0
    assert [drop.position for drop in record.dropouts] == ["before softmax"]


def test_dropout_on_the_weights_and_what_was_applied() -> None:
    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.dropout((q @ k.mT / 2).softmax(-1), 0.5) @ v

    call, record = only_call(attend, train=True)
    assert call.dropout == 0.5
    assert not call.dropout_before_softmax
    assert [drop.position for drop in record.dropouts] == ["weights"]
    dropped = call.applied_weights == 0
    assert 0.2 < dropped.float().mean() < 0.8
    torch.testing.assert_close(call.applied_weights[~dropped], 2 * call.weights[~dropped])
    assert [op.name for op in record.random_ops] == ["bernoulli_"]


@pytest.mark.parametrize("position", ["weights", "before softmax"])
def test_dropout_by_hand(position: str) -> None:
    def drop(x: Tensor) -> Tensor:
        return x * (torch.rand_like(x) > 0.25).float() / 0.75

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if position == "weights":
            return drop((q @ k.mT / 2).softmax(-1)) @ v
        return drop(q @ k.mT / 2).softmax(-1) @ v

    call, record = only_call(attend)
    assert [drop.position for drop in record.dropouts] == [position]
    assert record.dropouts[0].p == pytest.approx(0.25, abs=0.1)
    assert call.dropout_before_softmax == (position == "before softmax")
    assert (call.dropout > 0) == (position == "weights")
    assert call.scale == pytest.approx(0.5 if position == "weights" else 0.5 / 0.75)


def test_exponentials_masked_before_they_are_summed() -> None:
    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        raised = torch.exp(q @ k.mT / 2) * ~LOOK_AHEAD
        return raised / (raised.sum(-1, keepdim=True) + 1e-9) @ v

    call, _ = only_call(attend)
    assert torch.equal(call.keep, ~LOOK_AHEAD[None, None])
    assert call.scale == 0.5
    torch.testing.assert_close(call.weights.sum(-1), torch.ones(B, H, T))


def test_grouped_queries_that_share_one_product() -> None:
    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        scores = (q.reshape(B, 2, 2 * T, K) @ k[:, ::2].mT).view(B, H, T, T) / 2
        weights = scores.masked_fill(LOOK_AHEAD, -torch.inf).softmax(-1)
        return (weights.view(B, 2, 2 * T, T) @ v[:, ::2]).view(B, H, T, K)

    call, _ = only_call(attend)
    assert call.num_key_heads == 2
    torch.testing.assert_close(call.key[:, 2], call.key[:, 3])
    assert torch.equal(call.keep, ~LOOK_AHEAD[None, None])
    scores = (call.query @ call.key.mT / 2).masked_fill(LOOK_AHEAD, -torch.inf)
    torch.testing.assert_close(call.weights, scores.softmax(-1))
    torch.testing.assert_close(call.applied_weights, call.weights)
    torch.testing.assert_close(call.weights @ call.value, call.output)


def test_grouped_queries_with_one_query() -> None:
    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q = q[:, :, -1:]
        scores = (q.reshape(B, 2, 2, K) @ k[:, ::2].mT).view(B, H, 1, T) / 2
        return (scores.softmax(-1).view(B, 2, 2, T) @ v[:, ::2]).view(B, H, 1, K)

    call, _ = only_call(attend)
    assert call.query.shape == (B, H, 1, K)
    assert call.num_key_heads == 2
    torch.testing.assert_close(call.weights, (call.query @ call.key.mT / 2).softmax(-1))
    torch.testing.assert_close(call.weights @ call.value, call.output)


def test_mask_applied_after_softmax_shows() -> None:
    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        weights = (q @ k.mT / 2).softmax(-1).masked_fill(LOOK_AHEAD, 0)
        return weights @ v

    call, _ = only_call(attend)
    assert call.keep is None
    assert call.transforms_after == ("masked_fill",)
    assert not call.applied_weights[..., LOOK_AHEAD].any()
    assert call.weights[..., LOOK_AHEAD].all()


def test_weights_multiplied_and_renormalised_after_softmax() -> None:
    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        weights = (q @ k.mT / 2).softmax(-1) * ~LOOK_AHEAD
        return weights / weights.sum(-1, keepdim=True) @ v

    call, _ = only_call(attend)
    assert call.transforms_after == ("mul", "div")


def test_weights_overwritten_in_place_stay_as_softmax_gave_them() -> None:
    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        weights = (q @ k.mT / 2).softmax(-1)
        weights[..., 0] = 0
        return weights @ v

    call, _ = only_call(lambda q, k, v: attend(q.detach(), k.detach(), v))
    torch.testing.assert_close(call.weights.sum(-1), torch.ones(B, H, T))
    assert not call.applied_weights[..., 0].any()
    assert call.transforms_after == ("__setitem__",)


def test_a_fill_that_hides_nothing() -> None:
    call, _ = only_call(
        lambda q, k, v: (q @ k.mT / 2).masked_fill(LOOK_AHEAD, 1e-9).softmax(-1) @ v
    )
    assert call.keep is None
    assert call.fills == (1e-9,)
    assert call.mask_constants == ()


@pytest.mark.parametrize("constant", [-100.0, -1000.0, -10000.0])
def test_small_constants_hide_too(constant: float) -> None:
    def filled(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return (q @ k.mT / 2).masked_fill(LOOK_AHEAD, constant).softmax(-1) @ v

    def added(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return (q @ k.mT / 2 + LOOK_AHEAD * constant).softmax(-1) @ v

    for attend in (filled, added):
        call, _ = only_call(attend)
        assert torch.equal(call.keep, ~LOOK_AHEAD[None, None])
        assert call.mask_constants == (constant,)


def test_an_old_constant_together_with_a_bias() -> None:
    bias = torch.randn(H, T, T) * 5
    call, _ = only_call(
        lambda q, k, v: (q @ k.mT / 2 + (bias + LOOK_AHEAD * -10000.0)).softmax(-1) @ v
    )
    assert torch.equal(call.keep, ~LOOK_AHEAD[None, None])
    torch.testing.assert_close(call.bias, bias.masked_fill(LOOK_AHEAD, 0)[None])
    given = (bias + LOOK_AHEAD * -10000.0)[None]
    fused, _ = only_call(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, given))
    assert torch.equal(fused.keep, call.keep)
    torch.testing.assert_close(fused.bias, call.bias)
    assert len(fused.mask_constants) > 1  # each is the constant and its place's bias


def test_a_steep_bias_hides_nothing() -> None:
    distance = (torch.arange(T)[:, None] - torch.arange(T)).abs()
    call, _ = only_call(lambda q, k, v: (q @ k.mT / 2 - 900.0 * distance).softmax(-1) @ v)
    assert call.keep is None
    assert call.bias is not None and call.mask_constants == ()


def test_two_added_minima_are_minus_infinity() -> None:
    lowest = torch.finfo(torch.float32).min
    ahead = torch.zeros(T, T).masked_fill(LOOK_AHEAD, lowest)
    padding = torch.zeros(B, 1, 1, T)
    padding[0, ..., -2:] = lowest
    call, _ = only_call(lambda q, k, v: (q @ k.mT / 2 + ahead + padding).softmax(-1) @ v)
    assert call.mask_constants[0] == -torch.inf
    assert call.mask_constants[1] == pytest.approx(lowest)
    assert torch.equal(call.keep, ~LOOK_AHEAD & (padding == 0))


def test_mask_before_scaling_is_scaled_with_the_scores() -> None:
    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return ((q @ k.mT).masked_fill(LOOK_AHEAD, -1e9) / 2).softmax(-1) @ v

    call, _ = only_call(attend)
    assert call.mask_constants == (-5e8,)
    assert call.scale == 0.5


def test_mask_that_reaches_some_heads_only() -> None:
    some = LOOK_AHEAD.repeat(H, 1, 1)
    some[2] = False
    call, _ = only_call(lambda q, k, v: (q @ k.mT / 2).masked_fill(some, -1e9).softmax(-1) @ v)
    assert call.keep.shape == (1, H, T, T)
    assert call.keep[0, 2].all() and not call.keep[0, 1].all()


def test_soft_capped_scores() -> None:
    call, record = only_call(lambda q, k, v: (torch.tanh(q @ k.mT / 2 / 30) * 30).softmax(-1) @ v)
    assert call.scale == pytest.approx(0.5)
    assert call.transforms_before == ("div", "div", "tanh", "mul")
    assert not record.activations


def test_attention_sinks_are_no_keys() -> None:
    sink = torch.randn(H, 1, 1)

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        scores = (q @ k.mT / 2).masked_fill(LOOK_AHEAD, -torch.inf)
        scores = torch.cat([scores, sink.expand(B, H, T, 1)], dim=-1)
        return scores.softmax(-1)[..., :-1] @ v

    call, _ = only_call(attend)
    assert call.scores.shape == call.weights.shape == (B, H, T, T)
    assert call.keep.shape == (1, 1, T, T)
    assert (call.weights.sum(-1) < 1).all()


def test_grouped_queries_by_einsum() -> None:
    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = q.unflatten(1, (2, 2)), k[:, :2], v[:, :2]
        scores = torch.einsum("bgrtd,bgsd->bgrts", q, k) / 2
        return torch.einsum("bgrts,bgsd->bgrtd", scores.softmax(-1), v)

    call, _ = only_call(attend)
    assert call.query.shape == call.key.shape == call.value.shape == (B, H, T, K)
    torch.testing.assert_close(call.key[:, 0], call.key[:, 1])
    torch.testing.assert_close(call.weights, (call.raw_scores / 2).softmax(-1))


def test_grouped_queries_by_broadcast() -> None:
    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return (q @ k[:, :1].mT / 2).softmax(-1) @ v[:, :1]

    call, _ = only_call(attend)
    assert call.key.shape == call.value.shape == (B, H, T, K)
    assert call.num_key_heads == 1


def test_fused_grouped_queries() -> None:
    call, _ = only_call(
        lambda q, k, v: F.scaled_dot_product_attention(q, k[:, :2], v[:, :2], enable_gqa=True)
    )
    assert call.num_key_heads == 2
    assert call.key.shape == (B, H, T, K)
    torch.testing.assert_close(call.weights @ call.value, call.output, atol=1e-6, rtol=1e-5)


def test_fused_causal_flag_with_fewer_queries_is_aligned_at_the_top_left() -> None:
    call, _ = only_call(
        lambda q, k, v: F.scaled_dot_product_attention(q[:, :, -2:], k, v, is_causal=True)
    )
    assert call.is_causal
    assert torch.equal(call.keep[0, 0], torch.ones(2, T, dtype=torch.bool).tril())
    torch.testing.assert_close(call.weights @ call.value, call.output, atol=1e-6, rtol=1e-5)


def test_fused_empty_row_has_no_weights() -> None:
    keep = torch.ones(T, T, dtype=torch.bool)
    keep[0] = False
    call, _ = only_call(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, keep))
    assert not call.weights[:, :, 0].any()
    torch.testing.assert_close(call.weights @ call.value, call.output, atol=1e-6, rtol=1e-5)


def test_attention_whose_scores_do_not_show() -> None:
    def additive(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        together = torch.tanh(q[:, :, :, None] + k[:, :, None]).sum(-1)
        return together.masked_fill(LOOK_AHEAD, -1e9).softmax(-1) @ v

    call, record = only_call(additive)
    assert call.query is None and call.key is None and call.scale is None
    assert call.value.shape == (B, H, T, K)
    assert torch.equal(call.keep, ~LOOK_AHEAD[None, None])
    assert not record.softmaxes


def test_a_softmax_over_logits_is_no_attention() -> None:
    class Classifier(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Parameter(torch.randn(20, D))

        def forward(self, x: Tensor) -> Tensor:
            return (x @ self.table.t()).softmax(-1)

    module = Classifier()
    with observe(module) as record:
        module(torch.randn(B, T, D))
    assert not record.attention
    assert [soft.dim for soft in record.softmaxes] == [2]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_other_precisions(dtype: torch.dtype) -> None:
    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = q.to(dtype), k.to(dtype), v.to(dtype)
        scores = (q @ k.mT / 2).masked_fill(LOOK_AHEAD, torch.finfo(dtype).min)
        return scores.softmax(-1) @ v

    call, _ = only_call(attend)
    assert call.dtype == dtype
    assert call.mask_constants == (torch.finfo(dtype).min,)
    assert call.raw_scores.dtype == torch.promote_types(dtype, torch.float32)
    assert torch.equal(call.keep, ~LOOK_AHEAD[None, None])


def test_one_head_without_batch() -> None:
    class Plain(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return (x @ x.T / 4).softmax(-1) @ x

    x = torch.randn(T, D)
    module = Plain()
    with observe(module) as record:
        module(x)
    assert not record.notes
    (call,) = record.attention
    assert call.weights.shape == (1, 1, T, T)
    assert call.query.shape == (1, 1, T, D)
    assert call.scale == 0.25


def test_live_weights_carry_gradients() -> None:
    torch.manual_seed(0)
    module = Attend(lambda q, k, v: (q @ k.mT / 2).softmax(-1) @ v)
    with observe(module, keep_graph=True) as record:
        loss = module(torch.randn(B, T, D)).sum()
    assert not record.notes
    (call,) = record.attention
    (gradient,) = torch.autograd.grad(loss, call.weights_tensor)
    torch.testing.assert_close(gradient, call.value.sum(-1)[:, :, None].expand(B, H, T, T))
    assert not call.weights.requires_grad

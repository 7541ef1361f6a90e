"""The observation itself: it leaves no trace, nests, survives exceptions and holds nothing."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import checkpoint

from gnomon.errors import GnomonError
from gnomon.probe import observe
from probe.handwritten import Annotated, D, Fused

B, T = 2, 5
KEEP = torch.ones(B, 1, T, T, dtype=torch.bool).tril()


def module_and_input() -> tuple[Annotated, Tensor]:
    torch.manual_seed(0)
    return Annotated().eval(), torch.randn(B, T, D)


def num_hooks(module: nn.Module) -> int:
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in module.modules())


def test_what_is_no_module_is_refused() -> None:
    with pytest.raises(GnomonError, match=r"(?s)torch\.nn\.Module.*function"), observe(len):
        pass


def test_hooks_and_modes_are_gone_afterwards_even_after_an_exception() -> None:
    module, x = module_and_input()
    with pytest.raises(ZeroDivisionError), observe(module) as record:
        module(x, KEEP)
        raise ZeroDivisionError
    assert num_hooks(module) == 0
    assert not torch.overrides.has_torch_function((x,))
    module(x, KEEP)
    assert len(record.attention) == 1


def test_an_exception_inside_a_module_keeps_the_owners_right() -> None:
    class Brittle(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Annotated()
            self.bad = nn.Linear(3, 3)

        def forward(self, x: Tensor) -> Tensor:
            try:
                self.bad(x)
            except RuntimeError:
                return self.inner(x, KEEP)
            raise AssertionError

    module = Brittle()
    with observe(module) as record:
        module(torch.randn(B, T, D))
    assert record.modules["bad"][0].failed
    assert not record.modules[""][0].failed
    assert [call.module for call in record.attention] == ["inner"]


def test_nested_observations_see_the_same() -> None:
    module, x = module_and_input()
    with observe(module) as outer, observe(module) as inner:
        module(x, KEEP)
    assert len(outer.attention) == len(inner.attention) == 1
    torch.testing.assert_close(outer.attention[0].weights, inner.attention[0].weights)


def test_looking_at_one_record_is_not_seen_by_another() -> None:
    module, x = module_and_input()
    with observe(module) as first:
        module(x, KEEP)
    with observe(module) as second:
        first.attention[0].weights.sum()
        assert first.attention[0].raw_scores is not None
    assert not second.attention and not second.softmaxes


def test_works_below_and_above_other_modes() -> None:
    class Count(TorchFunctionMode):
        number = 0

        def __torch_function__(self, func, types, args=(), kwargs=None):
            Count.number += 1
            return func(*args, **(kwargs or {}))

    module, x = module_and_input()
    with Count(), observe(module) as record, Count(), torch.device("cpu"):
        module(x, KEEP)
    assert len(record.attention) == 1
    assert Count.number > 10


def test_under_inference_mode_no_grad_and_autocast() -> None:
    module, x = module_and_input()
    with torch.inference_mode(), observe(module) as record:
        module(x, KEEP)
    with torch.no_grad(), observe(module) as without:
        module(x, KEEP)
    torch.testing.assert_close(record.attention[0].weights, without.attention[0].weights)
    with torch.autocast("cpu", torch.bfloat16), observe(module) as half:
        module(x, KEEP)
    (call,) = half.attention
    assert call.query.dtype == torch.bfloat16
    assert torch.equal(call.keep, KEEP[:1])


def test_the_record_holds_tensors_only_as_long_as_it_lives() -> None:
    module, x = module_and_input()
    seen: list[weakref.ref[Tensor]] = []

    class Spy(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            if isinstance(result, Tensor) and getattr(func, "__name__", "") == "softmax":
                seen.append(weakref.ref(result.untyped_storage()))
            return result

    with torch.no_grad(), observe(module) as record, Spy():
        module(x, KEEP)
    weights = record.attention[0].evidence.result.tensor
    alive = weakref.ref(weights)
    del weights
    gc.collect()
    assert alive() is not None
    del record
    gc.collect()
    assert alive() is None


def test_nothing_is_copied() -> None:
    module, x = module_and_input()
    with torch.no_grad(), observe(module, keep_outputs=True) as record:
        module(x, KEEP)
    (call,) = record.attention
    key = record.modules["k"][0].tensors[0]
    assert call.key.untyped_storage().data_ptr() == key.untyped_storage().data_ptr()


def test_outputs_are_kept_only_on_request() -> None:
    module, x = module_and_input()
    with observe(module) as record:
        output = module(x, KEEP)
    assert record.modules[""][0].tensors == ()
    with observe(module, keep_outputs=True) as record:
        output = module(x, KEEP)
    (kept,) = record.modules[""][0].tensors
    assert torch.equal(kept, output) and not kept.requires_grad


def test_a_tensor_overwritten_later_stays_as_it_was_seen() -> None:
    """A static cache: the keys of the first call are overwritten by the second."""

    class Cached(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("keys", torch.zeros(B, 4, T, 4))

        def forward(self, x: Tensor) -> Tensor:
            self.keys.copy_(x)
            return F.scaled_dot_product_attention(x, self.keys, self.keys)

    module = Cached()
    x = torch.randn(B, 4, T, 4)
    with torch.no_grad(), observe(module) as record:
        module(x)
        module(x + 1)
    torch.testing.assert_close(record.attention[0].key, x)
    torch.testing.assert_close(record.attention[1].key, x + 1)


def test_self_attention_with_a_cache_is_no_cross_attention() -> None:
    class Step(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(9, 4)

        def forward(self, ids: Tensor, cache: list[Tensor]) -> Tensor:
            x = self.table(ids)[:, None]
            cache.append(x)
            keys = torch.cat(cache, 2)
            return F.scaled_dot_product_attention(x, keys, keys)

    module, cache = Step(), []
    with observe(module) as record:
        for _ in range(3):
            module(torch.randint(9, (B, 1)), cache)
    assert [call.is_cross for call in record.attention] == [False] * 3
    assert [call.weights.shape[-1] for call in record.attention] == [1, 2, 3]


def test_backward_and_checkpointing_are_not_seen_twice() -> None:
    module, x = module_and_input()
    x.requires_grad_()
    with observe(module) as record:
        checkpoint(module, x, KEEP, use_reentrant=False).sum().backward()
    assert len(record.attention) == 1
    assert x.grad is not None
    fused = Fused()
    with observe(fused) as record:
        checkpoint(fused, x, KEEP, use_reentrant=False).sum().backward()
    assert len(record.fused) == len(record.attention) == 1


def test_compiled_code_is_observed_uncompiled() -> None:
    module, x = module_and_input()
    compiled = torch.compile(module, backend="eager")
    expected = compiled(x, KEEP)
    with observe(compiled) as record:
        output = compiled(x, KEEP)
    (call,) = record.attention
    assert call.module == "_orig_mod"
    torch.testing.assert_close(output, expected)


def test_flex_attention() -> None:
    flex = pytest.importorskip("torch.nn.attention.flex_attention")

    def look_back(b, h, q, k):
        return q >= k

    def alibi(score, b, h, q, k):
        return score - (q - k) * 0.1 * (h + 1)

    class Flexible(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q, self.k, self.v = (nn.Linear(D, D) for _ in range(3))
            self.mask = flex.create_block_mask(look_back, None, None, T, T, device="cpu")

        def forward(self, x: Tensor) -> Tensor:
            q, k, v = (p(x).view(B, T, 4, 4).transpose(1, 2) for p in (self.q, self.k, self.v))
            return flex.flex_attention(q, k, v, score_mod=alibi, block_mask=self.mask)

    module = Flexible()
    with torch.no_grad(), observe(module) as record:
        module(torch.randn(B, T, D))
    (call,) = record.attention
    assert call.path == "fused" and call.kernel == "flex_attention"
    assert torch.equal(call.keep, KEEP[:1])
    assert call.scale == 0.5
    distance = torch.arange(T)[:, None] - torch.arange(T)
    slopes = 0.1 * torch.arange(1, 5)[:, None, None]
    torch.testing.assert_close(call.bias, (-distance * slopes)[None])
    torch.testing.assert_close(call.weights @ call.value, call.output, atol=1e-6, rtol=1e-5)


def test_a_scripted_module_is_noted() -> None:
    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.jit.script(nn.Linear(D, D))

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(x)

    module = Outer()
    with torch.no_grad(), observe(module) as record:
        module(torch.randn(B, D))
    assert any("inner" in note for note in record.notes)


def test_what_cannot_be_followed_is_noted_and_does_not_stop_the_model() -> None:
    class Ragged(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            rows = torch.nested.nested_tensor([x[0, :2], x[1]], layout=torch.jagged)
            return torch.softmax((rows * 2).values(), -1)

    x = torch.randn(B, T, D)
    module = Ragged()
    expected = module(x)
    with observe(module) as record:
        output = module(x)
    assert torch.equal(output, expected)
    assert isinstance(record.notes, list)


def test_an_error_in_the_bookkeeping_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    from gnomon.probe.recognise import Recogniser

    def broken(*_: object, **__: object) -> None:
        raise ValueError("no such thing")

    monkeypatch.setattr(Recogniser, "softmax", broken)
    module, x = module_and_input()
    with observe(module) as record:
        output = module(x, KEEP)
    torch.testing.assert_close(output, module(x, KEEP))
    assert record.notes == ["softmax in '' was not followed: no such thing"]


def test_fused_kernel_and_owner() -> None:
    module = Fused().eval()
    with torch.no_grad(), observe(module) as record:
        module(torch.randn(B, T, D), KEEP)
    (call,) = record.attention
    assert [(kernel.module, kernel.name) for kernel in record.fused] == [("", call.kernel)]
    assert call.kernel.startswith("_scaled_dot_product")


def test_nothing_holds_module_and_record_when_it_is_over() -> None:
    module, x = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), torch.randn(2, 5, 8)
    gc.disable()
    try:
        with observe(module, keep_outputs=True) as record:
            module(x)
        refs = weakref.ref(module), weakref.ref(record)
        del module, record
        assert [ref() for ref in refs] == [None, None]
    finally:
        gc.enable()

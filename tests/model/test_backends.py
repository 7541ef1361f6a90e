"""Every way to compute attention gives the same, forward and backward, by the 2x rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from gnomon.model import blocked
from gnomon.model.attend import attend, choose_backend, use_backend, weights
from gnomon.model.blocked import blocks_pay, can_block
from gnomon.model.flex import can_flex
from gnomon.model.masks import Mask
from gnomon.model.patterns import BlockSparse, Pattern, SlidingWindow
from two_times_rule import assert_two_times

CPU = torch.device("cpu")
B, H, K = 2, 4, 8


def keep(num_keys: int) -> Tensor:
    """The second text ends halfway."""
    result = torch.ones((B, num_keys), dtype=torch.bool)
    result[1, num_keys // 2 :] = False
    return result


def chosen(num_keys: int) -> Tensor:
    """Two tokens of the first text, one of the second."""
    result = torch.zeros((B, num_keys), dtype=torch.bool)
    result[0, [3, num_keys - 1]] = result[1, 7] = True
    return result


def bias(T: int, S: int) -> Tensor:
    return torch.linspace(-2, 2, H * T * S, dtype=torch.float64).view(1, H, T, S)


# name: T, S, G and the mask
CASES: dict[str, tuple[int, int, int, Callable[[], Mask]]] = {
    "all": (7, 7, H, lambda: Mask(7, 7, CPU)),
    "causal": (7, 7, H, lambda: Mask(7, 7, CPU, causal=True)),
    "padding": (7, 7, H, lambda: Mask(7, 7, CPU, padding=keep(7))),
    "causal_padding": (7, 7, H, lambda: Mask(7, 7, CPU, causal=True, padding=keep(7))),
    "cross": (5, 9, H, lambda: Mask(5, 9, CPU, padding=keep(9))),
    "cached": (3, 9, H, lambda: Mask(3, 9, CPU, causal=True)),
    "cached_one": (1, 9, H, lambda: Mask(1, 9, CPU, causal=True)),
    "grouped": (7, 7, 2, lambda: Mask(7, 7, CPU, causal=True)),
    "grouped_padding": (5, 9, 2, lambda: Mask(5, 9, CPU, padding=keep(9))),
    "one_key_head": (7, 7, 1, lambda: Mask(7, 7, CPU, padding=keep(7))),
    "bias": (7, 7, H, lambda: Mask(7, 7, CPU, bias=bias(7, 7))),
    "bias_padding": (5, 9, 2, lambda: Mask(5, 9, CPU, bias=bias(5, 9), padding=keep(9))),
    "window": (20, 20, 2, lambda: Mask(20, 20, CPU, pattern=SlidingWindow(3))),
    "window_causal": (
        19,
        19,
        H,
        lambda: Mask(19, 19, CPU, pattern=SlidingWindow(3), causal=True, padding=keep(19)),
    ),
    "window_exact": (12, 12, H, lambda: Mask(12, 12, CPU, pattern=SlidingWindow(3))),
    "window_one": (6, 6, H, lambda: Mask(6, 6, CPU, pattern=SlidingWindow(1), causal=True)),
    "window_global": (20, 20, 2, lambda: Mask(20, 20, CPU, pattern=SlidingWindow(3, 1, 2))),
    "window_padded_in_front": (
        20,
        20,
        2,
        lambda: Mask(20, 20, CPU, pattern=SlidingWindow(3, 1, 2), padding=keep(20).flip(1)),
    ),
    "dilated": (23, 23, 2, lambda: Mask(23, 23, CPU, pattern=SlidingWindow(3, 4, 1))),
    "dilated_causal": (
        23,
        23,
        H,
        lambda: Mask(23, 23, CPU, pattern=SlidingWindow(2, 3), causal=True, padding=keep(23)),
    ),
    "block_sparse": (20, 20, H, lambda: Mask(20, 20, CPU, pattern=BlockSparse(3, 1))),
    "block_sparse_causal": (
        20,
        20,
        2,
        lambda: Mask(20, 20, CPU, pattern=BlockSparse(3, 2), causal=True, padding=keep(20)),
    ),
    "block_sparse_padded_in_front": (
        20,
        20,
        H,
        lambda: Mask(20, 20, CPU, pattern=BlockSparse(3, 1), causal=True, padding=keep(20).flip(1)),
    ),
    "chosen_global": (
        20,
        20,
        H,
        lambda: Mask(20, 20, CPU, pattern=BlockSparse(2, 1), global_tokens=chosen(20)),
    ),
}
SPARSE = {name: case for name, case in CASES.items() if case[3]().pattern is not None}
cases = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


def inputs(T: int, S: int, G: int, dtype: torch.dtype) -> list[Tensor]:
    torch.manual_seed(T * S)
    shapes = ((B, T, H, K), (B, S, G, K), (B, S, G, K))
    # As projections leave them: heads side by side, transposed.
    return [torch.randn(shape).to(dtype).transpose(1, 2) for shape in shapes]


def run(
    tensors: list[Tensor], mask: Mask, backend: Any, where: Tensor | float = 1.0
) -> list[Tensor]:
    """Output and the gradients of query, key and value, from the outputs that `where` says."""
    leaves = [tensor.detach().requires_grad_() for tensor in tensors]
    if backend is None:
        output = attend(*leaves, mask, scale=0.4)
    else:
        with use_backend(backend):
            output = attend(*leaves, mask, scale=0.4)
    torch.manual_seed(1)
    gradient = torch.randn(output.shape).to(output.device) * where
    output.backward(gradient.to(output.dtype))
    return [output.detach(), *(leaf.grad for leaf in leaves if leaf.grad is not None)]


@cases
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_fast_backends_err_no_more_than_twice_plain_pytorch(case: Any, dtype: torch.dtype) -> None:
    T, S, G, mask = case
    tensors = inputs(T, S, G, dtype)
    exact = run([tensor.double() for tensor in tensors], mask(), "reference")
    plain = run(tensors, mask(), "reference")
    for backend in ("sdpa", None):
        for what, *three in zip("oqkv", run(tensors, mask(), backend), plain, exact, strict=True):
            assert_two_times(*three, what=f"{backend} {what}", scale=1.0)


@cases
def test_reference_is_the_textbook_formula(case: Any) -> None:
    """softmax(Q K^T * scale) V, key by key, with nothing shared with the code under test."""
    T, S, G, make = case
    query, key, value = inputs(T, S, G, torch.float64)
    mask = make()
    output = attend(query, key, value, mask, scale=0.4)
    allowed = mask.combined
    for b in range(B):
        for h in range(H):
            shared = h // (H // G)
            for t in range(T):
                scores = key[b, shared] @ query[b, h, t] * 0.4
                if mask.bias is not None:
                    scores = scores + mask.bias[0, h, t]
                if allowed is not None:
                    row = allowed.expand(B, 1, T, S)[b, 0, t]
                    scores = scores.masked_fill(~row, -torch.inf)
                no_key = bool((scores == -torch.inf).all())
                expected = torch.zeros(K) if no_key else scores.softmax(0) @ value[b, shared]
                expected = expected.to(torch.float64)
                torch.testing.assert_close(output[b, h, t], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("backend", ["reference", "sdpa", None])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("window", [None, 3])
def test_queries_without_keys_bring_home_zeros(
    backend: Any, dtype: torch.dtype, window: int | None
) -> None:
    T = 12
    padding = torch.ones((B, T), dtype=torch.bool)
    padding[1] = False
    pattern = None if window is None else SlidingWindow(window)
    output, *gradients = run(
        inputs(T, T, H, dtype), Mask(T, T, CPU, padding=padding, pattern=pattern), backend
    )
    assert (output[1] == 0).all()
    assert output[0].all()
    for gradient in gradients:
        assert (gradient[1] == 0).all()
        assert torch.isfinite(gradient).all()


def test_weights_sum_to_one_or_to_nothing() -> None:
    query, key, _ = inputs(5, 9, H, torch.float32)
    padding = keep(9)
    padding[1] = False
    result = weights(query, key, Mask(5, 9, CPU, padding=padding), scale=0.4)
    torch.testing.assert_close(result[0].sum(-1), torch.ones(H, 5))
    assert (result[1] == 0).all()
    masked = weights(query, key, Mask(5, 9, CPU, padding=keep(9)), scale=0.4)
    assert (masked[1, :, :, 4:] == 0).all()


def test_variance_of_scores_is_the_head_size_and_scaling_takes_it_away() -> None:
    torch.manual_seed(0)
    for size in (16, 64):
        query, key = torch.randn(1, 1, 600, size), torch.randn(1, 1, 600, size)
        scores = query @ key.transpose(-2, -1)
        assert scores.var().item() == pytest.approx(size, rel=0.05)
        assert (scores * size**-0.5).var().item() == pytest.approx(1.0, rel=0.05)


def test_attention_dropout_keeps_the_mean() -> None:
    query, key, value = inputs(5, 6, H, torch.float64)
    mask = Mask(5, 6, CPU)
    torch.manual_seed(0)
    mean = sum(attend(query, key, value, mask, scale=0.4, dropout=0.3) for _ in range(3000)) / 3000
    torch.testing.assert_close(mean, attend(query, key, value, mask, scale=0.4), atol=0.06, rtol=0)


def test_policy() -> None:
    fp32, bf16 = (torch.zeros(1, 1, 8, 4, dtype=d) for d in (torch.float32, torch.bfloat16))
    training = [tensor.requires_grad_() for tensor in (fp32.clone(), bf16.clone())]
    short, long = Mask(8, 8, CPU), Mask(8, 2000, CPU)
    learned = Mask(8, 8, CPU, bias=torch.zeros(1, 1, 8, 8, requires_grad=True))
    assert choose_backend(fp32, short, 0.0) == choose_backend(bf16, short, 0.0) == "sdpa"
    assert choose_backend(training[0], short, 0.0) == "sdpa"
    assert choose_backend(training[1], short, 0.0) == "reference"
    assert choose_backend(training[1], long, 0.0) == "sdpa"
    assert choose_backend(training[0], short, 0.1) == "reference"
    assert choose_backend(training[0], learned, 0.0) == "reference"
    with use_backend("reference"):
        assert choose_backend(fp32, short, 0.0) == "reference"


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks as small as the pattern, so that short texts have several."""
    monkeypatch.setattr(blocked, "SMALLEST_BLOCK", 1)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("case", SPARSE.values(), ids=SPARSE.keys())
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_blocks_are_the_dense_mask_forward_and_backward(case: Any, dtype: torch.dtype) -> None:
    T, S, G, make = case
    assert can_block(make())
    tensors = inputs(T, S, G, dtype)
    real = make().real[:, None, :, None]

    def at_real_tokens(results: list[Tensor]) -> list[Tensor]:
        # What padding before a text brings home is nobody's business, and differs.
        return [result * real for result in results]

    exact = run([tensor.double() for tensor in tensors], make(), "reference", real)
    plain = run(tensors, make(), "reference", real)
    fast = run(tensors, make(), "blocked", real)
    for what, *three in zip("oqkv", *map(at_real_tokens, (fast, plain, exact)), strict=True):
        assert_two_times(*three, what=what, scale=1.0)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("case", SPARSE.values(), ids=SPARSE.keys())
def test_blocks_can_have_attention_dropout(case: Any) -> None:
    T, S, G, make = case
    query, key, value = inputs(T, S, G, torch.float64)
    mask, real = make(), make().real[:, None, :, None]
    torch.manual_seed(0)
    with use_backend("blocked"):
        mean = sum(attend(query, key, value, mask, scale=0.4, dropout=0.2) for _ in range(2000))
    expected = attend(query, key, value, make(), scale=0.4)
    torch.testing.assert_close(mean / 2000 * real, expected * real, atol=0.12, rtol=0)


@pytest.mark.parametrize("pattern", [SlidingWindow(8), SlidingWindow(8, 2, 1), BlockSparse(8, 2)])
@pytest.mark.parametrize("causal", [False, True])
def test_long_texts_are_computed_in_blocks_without_a_square_mask(
    pattern: Pattern, causal: bool
) -> None:
    L = 2000
    mask = Mask(L, L, CPU, pattern=pattern, causal=causal)
    assert can_block(mask) and blocks_pay(mask)
    query, key, value = (torch.randn(1, 2, L, 4, requires_grad=True) for _ in range(3))
    sizes: list[int] = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):  # type: ignore[no-untyped-def]
            result = func(*args, **(kwargs or {}))
            tensors = result if isinstance(result, tuple | list) else (result,)
            sizes.extend(x.numel() for x in tensors if isinstance(x, Tensor))
            return result

    with Watch():
        attend(query, key, value, mask, scale=0.5).sum().backward()
    assert "combined" not in mask.__dict__
    assert max(sizes) < L * L / 4  # no scores and no mask of T x S, forward or backward


@pytest.mark.parametrize("case", SPARSE.values(), ids=SPARSE.keys())
@torch.no_grad()
@pytest.mark.filterwarnings("ignore:flex_attention called without")
def test_flex_attention_is_given_the_same_rule(case: Any) -> None:
    """Not compiled, and forward alone, which is what CPUs have of it."""
    T, S, G, make = case
    query, key, value = inputs(T, S, G, torch.float32)
    assert can_flex(query, make(), 0.0)
    real = make().real[:, None, :, None]
    with use_backend("flex"):
        found = attend(query, key, value, make(), scale=0.4)
    expected = attend(query, key, value, make(), scale=0.4)
    torch.testing.assert_close(found * real, expected * real, rtol=0, atol=2e-6)


def test_flex_attention_is_left_alone_where_it_has_no_backward() -> None:
    leaf = torch.randn(1, 2, 20, 16, requires_grad=True)
    mask = Mask(20, 20, CPU, pattern=BlockSparse(3, 1))
    assert not can_flex(leaf, mask, 0.0)
    assert not can_flex(leaf.detach(), mask, 0.1)
    assert not can_flex(leaf.detach(), Mask(20, 20, CPU), 0.0)
    with use_backend("flex"):
        attend(leaf, leaf, leaf, mask, scale=0.4).sum().backward()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="FlexAttention's backward needs a GPU")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("pattern", [SlidingWindow(40, 2, 1), BlockSparse(32, 2)])
def test_flex_attention_on_a_gpu_forward_and_backward(
    pattern: Pattern, causal: bool, dtype: torch.dtype
) -> None:
    gpu, L = torch.device("cuda"), 300
    torch.manual_seed(0)
    tensors = [torch.randn(B, h, L, 32, device=gpu).to(dtype) for h in (H, 2, 2)]
    padding = keep(L).to(gpu)
    real = padding[:, None, :, None]

    def made() -> Mask:
        return Mask(L, L, gpu, pattern=pattern, causal=causal, padding=padding)

    exact = run([tensor.double() for tensor in tensors], made(), "reference", real)
    plain = run(tensors, made(), "reference", real)
    for backend in ("flex", "blocked"):
        fast = run(tensors, made(), backend, real)
        for what, *three in zip("oqkv", fast, plain, exact, strict=True):
            assert_two_times(*[x * real for x in three], what=f"{backend} {what}", scale=1.0)


def test_blocks_are_for_long_texts() -> None:
    pattern = BlockSparse(8, 1)
    assert not blocks_pay(Mask(100, 100, CPU, pattern=pattern))
    assert not can_block(Mask(2000, 2000, CPU))
    assert not can_block(Mask(1, 2000, CPU, pattern=pattern, causal=True))
    assert not can_block(Mask(9, 9, CPU, pattern=pattern, bias=bias(9, 9)))

"""A loss that makes its logits some rows at a time is the loss of the logits."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.overrides import TorchFunctionMode

from gnomon.model import Projection
from gnomon.training import projected_loss
from gnomon.training.objective import LossSums, Objective, ObjectiveConfig

PAD, BOS = 0, 2


def taken(
    objective: Objective, target: Tensor, projection: Projection, *, whole: bool
) -> tuple[LossSums, list[Tensor | None]]:
    """Sums and the gradients of hidden states, table and bias."""
    parts = [projection.hidden, projection.table, projection.bias]
    leaves = [None if part is None else part.clone().requires_grad_() for part in parts]
    leaf = Projection(*leaves)  # type: ignore[arg-type]
    outputs = leaf.logits() if whole else leaf
    sums = objective(target, lambda inputs, keep: outputs, count_correct=True)
    (sums.loss * 0.7).backward()  # type: ignore[no-untyped-call]
    return sums, [None if each is None else each.grad for each in leaves]


def problem(
    num_rows: int, vocab: int, width: int, passes: int, *, bias: bool, seed: int
) -> tuple[Tensor, Projection]:
    generator = torch.Generator().manual_seed(seed)
    target = torch.randint(3, vocab, (1, num_rows + 1), generator=generator)
    target[:, 0] = BOS

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    hidden, table = normal(passes * num_rows, width), normal(vocab, width)
    return target, Projection(hidden, table, normal(vocab) if bias else None)


@given(
    num_rows=st.integers(0, 9),
    vocab=st.integers(4, 12),
    chunk=st.integers(1, 60),  # half of them less than the whole
    r_drop=st.sampled_from([0.0, 2.0]),
    alpha=st.sampled_from([0.0, 0.1]),
    bias=st.booleans(),
    weighted=st.booleans(),
    seed=st.integers(0, 1000),
)
@settings(max_examples=80, deadline=None)
def test_equals_the_loss_of_the_logits(
    num_rows: int,
    vocab: int,
    chunk: int,
    r_drop: float,
    alpha: float,
    bias: bool,
    weighted: bool,
    seed: int,
) -> None:
    weights = torch.rand(vocab) + 0.5 if weighted and not r_drop else None
    config = ObjectiveConfig(label_smoothing=alpha, r_drop=r_drop)
    objective = Objective(config, pad_id=PAD, class_weights=weights)
    target, projection = problem(num_rows, vocab, 5, objective.num_passes, bias=bias, seed=seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(projected_loss, "CHUNK", chunk)
        expected, gradients = taken(objective, target, projection, whole=True)
        found, ours = taken(objective, target, projection, whole=False)
    torch.testing.assert_close(found.loss, expected.loss)
    torch.testing.assert_close(found.nll, expected.nll)
    assert not found.nll.requires_grad
    assert found.num_correct is not None
    assert expected.num_correct is not None
    assert int(found.num_correct) == int(expected.num_correct)
    for mine, theirs in zip(ours, gradients, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("r_drop", [0.0, 5.0])
def test_as_exact_as_the_loss_of_the_logits_in_bf16(r_drop: float) -> None:
    objective = Objective(ObjectiveConfig(r_drop=r_drop), pad_id=PAD)
    target, projection = problem(600, 2000, 64, objective.num_passes, bias=True, seed=0)
    projection = Projection(projection.hidden / 8, projection.table, projection.bias)
    _, exact = taken(objective, target, projection, whole=True)
    errors: dict[bool, list[float]] = {}
    for whole in (True, False):
        with torch.autocast("cpu", torch.bfloat16):
            sums, gradients = taken(objective, target, projection, whole=whole)
        assert sums.loss.dtype == torch.float32
        errors[whole] = [
            float((mine - theirs).norm() / theirs.norm())
            for mine, theirs in zip(gradients, exact, strict=True)
            if mine is not None and theirs is not None
        ]
        assert [g.dtype for g in gradients if g is not None] == [torch.float32] * 3
    for ours, theirs in zip(errors[False], errors[True], strict=True):
        assert ours <= 1.2 * theirs


def test_a_frozen_table_gets_no_gradient_and_a_factor_is_applied() -> None:
    objective = Objective(ObjectiveConfig(), pad_id=PAD)
    target, projection = problem(6, 9, 4, 1, bias=False, seed=3)
    hidden = projection.hidden.clone().requires_grad_()
    sums = objective(target, lambda *_: Projection(hidden, projection.table, None))
    (once,) = torch.autograd.grad(sums.loss, hidden, retain_graph=True)
    (half,) = torch.autograd.grad(sums.loss / 2, hidden)
    torch.testing.assert_close(half, once / 2)
    assert projection.table.grad is None


class Largest(TorchFunctionMode):
    """Remembers the largest result."""

    numel = 0

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        if isinstance(result, Tensor):
            self.numel = max(self.numel, result.numel())
        return result


@pytest.mark.parametrize("num_rows", [500, 2000])
def test_no_tensor_grows_with_rows_times_vocabulary(
    num_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projected_loss, "CHUNK", 100 * 3000)
    objective = Objective(ObjectiveConfig(), pad_id=PAD)
    target, projection = problem(num_rows, 3000, 16, 1, bias=True, seed=0)
    with Largest() as largest:
        taken(objective, target, projection, whole=False)
    assert largest.numel == 100 * 3000
    with Largest() as largest:
        taken(objective, target, projection, whole=True)
    assert largest.numel == num_rows * 3000

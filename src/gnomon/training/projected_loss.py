"""The loss of hidden states, whose logits are never there as a whole.

Logits [M, V] of a large vocabulary are the largest tensor of a training. Here the loss takes the
output projection with it: some rows are projected, their loss and its gradient taken, the products
of the backward pass made, and the rows forgotten. That is possible because the gradient of a sum is
known up to one factor as soon as the logits are. It costs what the whole would, up to 6 % more in
bf16.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from gnomon.model import Projection

# Elements of the logits that are there at once: 64 MB of fp32. With fewer the sum of the table's
# gradient passes through memory more often (2^22: 3 to 19 % slower, benchmarks/loss.py).
CHUNK = 2**24

# (logits of some rows, which) → their loss, and anything to be summed beside it, no gradients.
RowsLoss = Callable[[Tensor, slice], tuple[Tensor, Tensor]]


def projected_loss(
    projection: Projection, num_rows: int, rows_loss: RowsLoss, chunk: int | None = None
) -> tuple[Tensor, Tensor]:
    """Sums of a loss over rows of logits that are made some at a time.

    Args:
        projection: hidden states [P · M, D] of P passes over the same M rows, and the matrix.
        num_rows: M.
        rows_loss: is given logits [P · m, V] of m rows, pass after pass, and which rows they are.
        chunk: elements of the logits that may be there at once; None: `CHUNK`.

    Returns:
        (loss, beside), both summed over all rows; the first carries the gradient.
    """
    chunk = CHUNK if chunk is None else chunk
    if projection.hidden[..., 0].numel() * len(projection.table) <= chunk:
        return rows_loss(projection.logits(), slice(0, num_rows))
    sums: tuple[Tensor, Tensor] = _ProjectedLoss.apply(  # type: ignore[no-untyped-call]
        projection.hidden, projection.table, projection.bias, num_rows, rows_loss, chunk
    )
    return sums


class _ProjectedLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        table: Tensor,
        bias: Tensor | None,
        num_rows: int,
        rows_loss: RowsLoss,
        chunk: int,
    ) -> tuple[Tensor, Tensor]:
        device, wanted = hidden.device.type, ctx.needs_input_grad
        ctx.dtypes = hidden.dtype, table.dtype
        if torch.is_autocast_enabled(device):
            dtype = torch.get_autocast_dtype(device)
            hidden, table = hidden.to(dtype), table.to(dtype)
            bias = None if bias is None else bias.to(dtype)
        by_pass = hidden.view(-1 if num_rows else 1, num_rows, hidden.shape[-1])
        hidden_gradient = torch.empty_like(by_pass)
        # Summed over chunks, in the precision of the sum.
        table_gradient = table.new_zeros(table.shape, dtype=ctx.dtypes[1]) if wanted[1] else None
        bias_gradient = None if bias is None else bias.new_zeros(bias.shape, dtype=ctx.dtypes[1])
        loss, beside = torch.zeros((), device=device), None
        step = max(1, chunk // (len(by_pass) * table.shape[0]))
        for start in range(0, max(1, num_rows), step):
            rows = slice(start, min(start + step, num_rows))
            states = by_pass[:, rows].flatten(0, 1)
            logits = F.linear(states, table, bias)
            with torch.enable_grad():
                logits.requires_grad_()
                part, more = rows_loss(logits, rows)
                (gradient,) = torch.autograd.grad(part, logits)
            loss = loss + part.detach()
            beside = more.detach() if beside is None else beside + more.detach()
            if wanted[0]:
                hidden_gradient[:, rows] = (gradient @ table).view_as(hidden_gradient[:, rows])
            if table_gradient is not None:
                _add_product(table_gradient, gradient, states)
            if bias_gradient is not None:
                bias_gradient += gradient.sum(dim=0)
        assert beside is not None
        ctx.mark_non_differentiable(beside)
        ctx.save_for_backward(hidden_gradient.view_as(hidden), table_gradient, bias_gradient)
        return loss, beside

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, factor: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        dtypes = (*ctx.dtypes, ctx.dtypes[1])
        gradients = [
            None if gradient is None or not wanted else gradient.to(dtype) * factor
            for gradient, dtype, wanted in zip(
                ctx.saved_tensors, dtypes, ctx.needs_input_grad[:3], strict=True
            )
        ]
        return (*gradients, None, None, None)


def _add_product(total: Tensor, gradient: Tensor, states: Tensor) -> None:
    """total += gradientᵀ states."""
    if total.dtype == states.dtype:
        total.addmm_(gradient.t(), states)
    else:
        total += gradient.t() @ states

"""Label-smoothed cross-entropy, alone and with R-Drop's divergence, without a second [M, V] tensor.

PyTorch's own path writes log-probabilities, a smoothing term and their gradients as whole [M, V]
tensors; on a CPU the loss is then bound by memory traffic. Here rows pass through the cache a few
at a time, once: the gradient of a sum over rows is known as soon as their probabilities are, and
the forward pass leaves it in place of the logits. Figures: benchmarks/loss.py.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

# Elements of the logits worked on at once. On a CPU 2**19 fp32 numbers (2 MB) stay in the
# second-level cache; on an accelerator few launches matter more than the temporary's size.
_CHUNK_CPU = 2**19
_CHUNK_ACCELERATOR = 2**27
_BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}  # by bytes


def smoothed_cross_entropy(
    logits: Tensor, labels: Tensor, label_smoothing: float, row_weights: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Sums over rows of the cross-entropy against smoothed and against plain targets.

    The smoothed target is q = (1-α)·onehot(y) + α/V (Szegedy et al. 2016, §7; Vaswani et al.
    2017, §5.4), so a row costs (1-α)·(-log p_y) - α·mean_v(log p_v).

    Args:
        logits: [M, V], any floating dtype; the arithmetic is fp32 (fp64 for fp64 logits).
        labels: LongTensor [M].
        label_smoothing: α in [0, 1).
        row_weights: fp32 [M], by which each row counts in the loss; None: all alike.

    Returns:
        (loss, nll), both scalars: the smoothed loss, which carries the gradient, and the plain
        negative log-likelihood in nats, which does not, nor knows of weights.
    """
    sums: tuple[Tensor, Tensor] = _SmoothedCrossEntropy.apply(  # type: ignore[no-untyped-call]
        logits, labels, label_smoothing, row_weights
    )
    return sums


class _SmoothedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        logits: Tensor,
        labels: Tensor,
        label_smoothing: float,
        row_weights: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        dtype = _working_dtype(logits)
        num_rows, num_columns = logits.shape
        nll = logits.new_empty(num_rows, dtype=dtype)
        mean_log_prob = logits.new_empty(num_rows, dtype=dtype)
        gradient = None
        if ctx.needs_input_grad[0]:
            # fp16 would lose what is small before the loss scale has lifted it.
            is_fp16 = logits.dtype == torch.float16
            gradient = torch.empty_like(logits, dtype=dtype if is_fp16 else None)
        for rows in _row_slices(logits):
            chunk = logits[rows].to(dtype)
            label_columns = labels[rows, None]
            probs = torch.softmax(chunk, dim=-1)
            # log Z = z_v - log p_v of any column; that of the largest p does not underflow.
            log_normalizer = chunk.amax(dim=-1) - probs.amax(dim=-1).log_()
            nll[rows] = log_normalizer - chunk.gather(1, label_columns).squeeze(1)
            mean_log_prob[rows] = chunk.mean(dim=-1) - log_normalizer
            if gradient is not None:
                # ∂loss/∂z = softmax(z) - q, times the row's weight.
                probs -= label_smoothing / num_columns
                at_labels = probs.gather(1, label_columns) - (1 - label_smoothing)
                probs.scatter_(1, label_columns, at_labels)
                if row_weights is not None:
                    probs *= row_weights[rows, None]
                gradient[rows] = probs
        # As integers: unlike an activation it is not to be rounded by whoever saves memory.
        bits = None if gradient is None else gradient.view(_BITS[gradient.itemsize])
        ctx.save_for_backward(bits)
        ctx.dtypes = logits.dtype, logits.dtype if gradient is None else gradient.dtype
        losses = (1 - label_smoothing) * nll - label_smoothing * mean_log_prob
        loss = (losses if row_weights is None else losses * row_weights).sum()
        total_nll = nll.sum()
        ctx.mark_non_differentiable(total_nll)
        return loss, total_nll

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, loss_gradient: Tensor, _: Tensor) -> tuple[Tensor, None, None, None]:
        (saved,) = ctx.saved_tensors
        dtype, saved_dtype = ctx.dtypes
        gradient = saved.view(saved_dtype)
        # For some rows of logits `projected_loss` asks for it as it is.
        if loss_gradient.device.type != "cpu" or loss_gradient.item() != 1.0:
            gradient = gradient * loss_gradient
        return gradient.to(dtype), None, None, None


def paired_cross_entropy(
    logits: Tensor, labels: Tensor, label_smoothing: float, r_drop: float
) -> tuple[Tensor, Tensor]:
    """The loss of R-Drop (Liang et al. 2021, arXiv 2106.14448, equations 1 to 3), halved.

    The paper adds both passes' cross-entropies and α times the mean of KL(P₁‖P₂) and KL(P₂‖P₁).
    Half of that is the *mean* cross-entropy and α/4 · (KL(P₁‖P₂) + KL(P₂‖P₁)): α weighs what it
    weighs in the paper, and a loss per token is of the size it has without R-Drop.

    Args:
        logits: [2M, V] of two passes over the same tokens, row i + M the second of row i.
        labels: LongTensor [M].
        label_smoothing: of both cross-entropies, see `smoothed_cross_entropy`.
        r_drop: α from 0 up.

    Returns:
        (loss, nll), sums over the M tokens; the nll is the mean of both passes and carries no
        gradient.
    """
    sums: tuple[Tensor, Tensor] = _PairedCrossEntropy.apply(  # type: ignore[no-untyped-call]
        logits, labels, label_smoothing, r_drop
    )
    return sums


class _PairedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, labels: Tensor, label_smoothing: float, r_drop: float
    ) -> tuple[Tensor, Tensor]:
        dtype = _working_dtype(logits)
        first, second = logits[: len(labels)], logits[len(labels) :]
        shape = (2, len(labels))
        nll = logits.new_empty(shape, dtype=dtype)
        mean_log_prob = logits.new_empty(shape, dtype=dtype)
        log_normalizer = logits.new_empty(shape, dtype=dtype)
        divergence = logits.new_empty(shape, dtype=dtype)  # KL(P₁‖P₂), KL(P₂‖P₁)
        for rows in _row_slices(first):
            both = []
            for index, part in enumerate((first, second)):
                chunk = part[rows].to(dtype)
                log_probs = torch.log_softmax(chunk, dim=-1)
                label_log_probs = _at_labels(log_probs, labels[rows])
                nll[index, rows] = -label_log_probs
                mean_log_prob[index, rows] = log_probs.mean(dim=-1)
                log_normalizer[index, rows] = _at_labels(chunk, labels[rows]) - label_log_probs
                both.append(log_probs)
            difference = both[0] - both[1]
            divergence[0, rows] = torch.linalg.vecdot(both[0].exp_(), difference)
            divergence[1, rows] = -torch.linalg.vecdot(both[1].exp_(), difference)
        ctx.save_for_backward(logits, labels, log_normalizer, divergence)
        ctx.label_smoothing, ctx.r_drop = label_smoothing, r_drop
        loss = ((1 - label_smoothing) * nll - label_smoothing * mean_log_prob).sum() / 2
        loss = loss + r_drop / 4 * divergence.sum()
        mean_nll = nll.sum() / 2
        ctx.mark_non_differentiable(mean_nll)
        return loss, mean_nll

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, loss_gradient: Tensor, _: Tensor) -> tuple[Tensor, None, None, None]:
        """For the first pass, with d = log P₁ - log P₂ and c = α/4 (the second by symmetry).

        ∂/∂z₁ of KL(P₁‖P₂) is P₁·(d - KL(P₁‖P₂)) and of KL(P₂‖P₁) it is P₁ - P₂, so that the whole
        gradient is P₁·(½ + c + c·(d - KL(P₁‖P₂))) - c·P₂ - q/2.
        """
        logits, labels, log_normalizer, divergence = ctx.saved_tensors
        alpha, c = ctx.label_smoothing, ctx.r_drop / 4
        first, second = logits[: len(labels)], logits[len(labels) :]
        gradient = torch.empty_like(logits)
        gradients = gradient[: len(labels)], gradient[len(labels) :]
        for rows in _row_slices(first):
            probs = [
                torch.sub(part[rows].to(log_normalizer.dtype), normalizer[rows, None])
                for part, normalizer in zip((first, second), log_normalizer, strict=True)
            ]
            difference = probs[0] - probs[1]
            for prob in probs:
                prob.exp_()
            label_columns = labels[rows, None]
            for index, sign in enumerate((1, -1)):
                factor = 0.5 + c - c * divergence[index, rows, None]
                result = torch.add(factor, difference, alpha=sign * c).mul_(probs[index])
                result.sub_(probs[1 - index], alpha=c)
                result -= alpha / (2 * logits.shape[1])
                at_labels = result.gather(1, label_columns) - (1 - alpha) / 2
                result.scatter_(1, label_columns, at_labels)
                gradients[index][rows] = result.mul_(loss_gradient)
        return gradient, None, None, None


def _working_dtype(logits: Tensor) -> torch.dtype:
    return torch.float64 if logits.dtype == torch.float64 else torch.float32


def _row_slices(logits: Tensor) -> list[slice]:
    """Slices that cut [M, V] into blocks of rows of at most a chunk's elements each."""
    num_rows, num_columns = logits.shape
    elements = _CHUNK_CPU if logits.device.type == "cpu" else _CHUNK_ACCELERATOR
    step = max(1, elements // max(1, num_columns))
    return [slice(start, start + step) for start in range(0, num_rows, step)]


def _at_labels(values: Tensor, labels: Tensor) -> Tensor:
    return values.gather(1, labels[:, None]).squeeze(1)

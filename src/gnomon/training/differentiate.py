"""The gradients of one step, in a number format that is wide enough for them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from gnomon.training.distributed import Parallel, World
from gnomon.training.generators import restore_generator_states
from gnomon.training.loss_scale import LossScale
from gnomon.training.optimizers import Optimizer
from gnomon.training.passes import Passes
from gnomon.training.precision import Precision


@dataclass(frozen=True)
class Gradients:
    """What is known of a step whose gradients are made; per target token.

    Attributes:
        loss: what was minimised.
        nll: nats, without smoothing.
        norm: of all gradients, before clipping.
        num_correct: top-1 hits, where asked for.
    """

    loss: float
    nll: float
    norm: float
    num_correct: Tensor | None

    @property
    def are_finite(self) -> bool:
        """Whether the step may be taken."""
        return math.isfinite(self.loss) and math.isfinite(self.norm)


class Differentiate:
    """Makes the gradients of steps; goes over to a wider format when one overflows.

    A step that is not finite is made again from the same weights and the same random draws: in
    fp16 with half the loss scale as long as the loss itself is finite, else in bf16, then in fp32,
    and so are all steps after it.

    Args:
        passes: of a micro-batch.
        optimizer: knows the gradients.
        device: where the generators are.
        warn: is told when the format changes.
        parallel: joins the gradients of all ranks, whose figures are added up here, so that every
            rank decides alike.
    """

    def __init__(
        self,
        passes: Passes,
        optimizer: Optimizer,
        device: torch.device,
        warn: Callable[[str], None],
        *,
        parallel: Parallel,
        world: World,
    ) -> None:
        self.passes = passes
        self._optimizer = optimizer
        self._device = device
        self._warn = warn
        self._parallel = parallel
        self._world = world

    @property
    def precision(self) -> Precision:
        """The format of the next step."""
        return self.passes.precision

    def go_on_in(self, precision: Precision) -> None:
        """From the next step on."""
        self.passes = replace(self.passes, precision=precision)

    def __call__(
        self,
        batches: Sequence[Any],
        num_own: int,
        num_tokens: int,
        scale: LossScale,
        generators: Mapping[str, Tensor],
        *,
        step: int,
        count_correct: bool,
    ) -> Gradients:
        """The gradients of the mean loss over all micro-batches; not finite where nothing helped.

        Args:
            batches: on the device.
            num_own: those after so many stand in for batches that this rank does not have; they
                weigh nothing.
            num_tokens: of all of them, on all ranks.
            scale: of the loss in fp16; changes.
            generators: their states before the step.
            step: for warnings.
            count_correct: see `Objective`.
        """
        found = self._once(batches, num_own, num_tokens, scale, count_correct)
        while not found.are_finite and self._has_remedy(found, scale, step):
            restore_generator_states(generators, self._device)
            self._optimizer.drop_gradients()
            found = self._once(batches, num_own, num_tokens, scale, count_correct)
        if found.are_finite and self.precision.name == "fp16":
            scale.went_well()
        return found

    def _once(
        self,
        batches: Sequence[Any],
        num_own: int,
        num_tokens: int,
        scale: LossScale,
        count_correct: bool,
    ) -> Gradients:
        factor = scale.value if self.precision.name == "fp16" else 1.0
        sums = []
        for number, batch in enumerate(batches, start=1):
            weight = factor if number <= num_own else 0.0
            self._parallel.begin_pass(is_last=number == len(batches))
            found = self.passes(batch, num_tokens, count_correct=count_correct, scale=weight)
            if number <= num_own:
                sums.append(found)
        self._optimizer.unscale(factor)
        # The one wait for the device in a step: its figures decide whether the step is taken.
        loss, nll, norm = torch.stack(
            [
                self._sum([s.loss.detach() for s in sums]) / num_tokens,
                self._sum([s.nll for s in sums]) / num_tokens,
                self._optimizer.gradient_norm(),
            ]
        ).tolist()
        counts = [s.num_correct for s in sums if s.num_correct is not None]
        num_correct = self._sum(counts) if count_correct else None
        if self._world.size > 1:
            loss, nll = self._world.sums(loss, nll)
            if num_correct is not None:
                num_correct = torch.tensor(self._world.sums(float(num_correct))[0])
        return Gradients(loss, nll, norm, num_correct)

    def _sum(self, values: list[Tensor]) -> Tensor:
        """Of this rank's batches, of which it may have none."""
        return torch.stack(values).sum() if values else torch.zeros((), device=self._device)

    def _has_remedy(self, found: Gradients, scale: LossScale, step: int) -> bool:
        in_fp16, loss_is_finite = self.precision.name == "fp16", math.isfinite(found.loss)
        if in_fp16 and loss_is_finite and scale.overflowed():
            return True
        wider = self.precision.wider()
        if wider is None:
            return False
        what = "gradients are" if loss_is_finite else f"the loss is {found.loss},"
        self._warn(
            f"step {step}: {what} not finite in {self.precision.name}; it is made again from the "
            f"same weights in {wider.name}, and so are the steps after it"
        )
        self.go_on_in(wider)
        return True

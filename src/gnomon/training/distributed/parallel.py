"""How forward and backward passes on several ranks become one gradient."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from gnomon.errors import RecipeError
from gnomon.training.distributed.world import World
from gnomon.training.generators import generators_untouched
from gnomon.training.objective import LossSums, Objective
from gnomon.training.task import Task

# (micro-batch, whether to count correct predictions) → its sums.
Forward = Callable[[Any, bool], LossSums]


class Parallel:
    """One rank: the task's own model trains.

    Attributes:
        trained: the module whose parameters receive gradients and are moved; by the same names as
            those of the task's model.
        forward: the sums of a micro-batch, through `trained`.
    """

    trained: nn.Module
    forward: Forward

    def __init__(self, task: Task[Any], objective: Objective) -> None:
        self.task = task
        self.trained = task.model
        self.forward = direct_forward(task, objective)

    def begin_pass(self, *, is_last: bool) -> None:
        """Before each pass of a step: ranks exchange gradients in the last one only."""

    def whole(self) -> AbstractContextManager[None]:
        """Within the block, which all ranks enter, the task's model has the trained weights."""
        return nullcontext()

    def take_over(self) -> None:
        """Train on with the weights that the task's model has."""

    def gathered(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """States of parameters as whole tensors; all ranks call it."""
        return dict(tensors)

    def placed(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Whole states, by `key/parameter name`, as the trained parameters are held."""
        return dict(tensors)


def direct_forward(task: Task[Any], objective: Objective) -> Forward:
    """The sums of a micro-batch through the task's model as it is."""

    def forward(batch: Any, count_correct: bool) -> LossSums:
        repeated = batch.repeated(objective.num_passes)
        return objective(
            task.target(batch),
            lambda inputs, keep: task.outputs(repeated, inputs, keep),
            count_correct=count_correct,
        )

    return forward


class ForwardPass(nn.Module):
    """`direct_forward` as a module, for wrappers that hook into modules."""

    def __init__(self, task: Task[Any], objective: Objective) -> None:
        super().__init__()
        self.model = task.model
        self._direct = direct_forward(task, objective)

    def forward(self, batch: Any, count_correct: bool) -> tuple[Tensor, Tensor, int, Tensor | None]:
        """The fields of `LossSums`: wrappers look for tensors in tuples."""
        sums = self._direct(batch, count_correct)
        return sums.loss, sums.nll, sums.num_tokens, sums.num_correct


def through(wrapped: nn.Module) -> Forward:
    """The sums of a micro-batch through a `ForwardPass` in its wrapper."""
    return lambda batch, count_correct: LossSums(*wrapped(batch, count_correct))


class Replicated(Parallel):
    """DistributedDataParallel: the whole model on every rank, gradients summed."""

    def __init__(self, task: Task[Any], objective: Objective, world: World) -> None:
        super().__init__(task, objective)
        refuse_sparse_gradients(task.model)
        self._objective = objective
        self._world = world
        self._direct = self.forward
        self._wrapped: Forward | None = None
        self._is_last = True
        self.forward = self._forward

    def begin_pass(self, *, is_last: bool) -> None:
        """See `Parallel`."""
        self._is_last = is_last

    def _forward(self, batch: Any, count_correct: bool) -> LossSums:
        if not self._is_last:
            return self._direct(batch, count_correct)
        if self._wrapped is None:
            self._wrapped = self._wrap(batch)
        return self._wrapped(batch, count_correct)

    def _wrap(self, batch: Any) -> Forward:
        drops = any(getattr(module, "layer_drop", 0.0) for module in self.task.model.modules())
        module = ForwardPass(self.task, self._objective)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # torch 2.13 renames broadcast_buffers
            wrapped = nn.parallel.DistributedDataParallel(
                module,
                broadcast_buffers=False,
                find_unused_parameters=drops or self._world.any(self._leaves_out(batch)),
            )
        # The objective has divided by the tokens of all ranks, so that nothing is left but to add.
        wrapped.register_comm_hook(None, lambda state, bucket: _sum(bucket))
        return through(wrapped)

    def _leaves_out(self, batch: Any) -> bool:
        """Whether there are parameters that a pass does not use: to look for them takes time."""
        parameters = [p for p in self.task.model.parameters() if p.requires_grad]
        with generators_untouched(parameters[0].device):
            loss = self._direct(batch, False).loss
        return any(g is None for g in torch.autograd.grad(loss, parameters, allow_unused=True))


def _sum(bucket: Any) -> torch.futures.Future[Any]:
    work = dist.all_reduce(bucket.buffer(), async_op=True)
    future: torch.futures.Future[Any] = work.get_future()
    return future.then(lambda done: done.value()[0])


def refuse_sparse_gradients(model: nn.Module) -> None:
    """Raise `RecipeError` for an embedding whose gradient holds some rows only."""
    embedding = getattr(getattr(model, "config", None), "embedding", None)
    if getattr(embedding, "sparse_gradient", False):
        raise RecipeError(
            "ranks add up whole gradients",
            seen="model.embedding.sparse_gradient = true with several ranks",
            mend="--set model.embedding.sparse_gradient=false",
        )

"""Weights, gradients and optimizer state divided among the ranks (FSDP2)."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from gnomon.model.stack import Stack
from gnomon.training.distributed.parallel import (
    ForwardPass,
    Parallel,
    refuse_sparse_gradients,
    through,
)
from gnomon.training.distributed.world import World
from gnomon.training.objective import Objective
from gnomon.training.task import Task


class Sharded(Parallel):
    """`fully_shard`: each layer of a stack is a unit, and what is left (tables, head) another.

    The shards are those of a copy. The task's own model stays whole, in the computer's memory
    while training goes on, so that whoever validates, saves or examines it need not know of any
    of this.
    """

    def __init__(
        self, task: Task[Any], objective: Objective, world: World, device: torch.device
    ) -> None:
        super().__init__(task, objective)
        refuse_sparse_gradients(task.model)
        self._device = device
        self.trained = copy.deepcopy(task.model)
        module = ForwardPass(_with_model(task, self.trained), objective)
        mesh = init_device_mesh(device.type, (world.size,))
        for stack in self.trained.modules():
            if isinstance(stack, Stack):
                for layer in stack.layers:
                    fully_shard(layer, mesh=mesh)
        fully_shard(module, mesh=mesh)
        self._module = module
        for part in module.modules():
            if isinstance(part, FSDPModule):
                part.set_gradient_divide_factor(1.0)  # the objective has divided already
                part.set_force_sum_reduction_for_comms(True)  # gloo knows no other
        self.forward = through(module)
        task.model.to("cpu")

    def begin_pass(self, *, is_last: bool) -> None:
        """See `Parallel`."""
        assert isinstance(self._module, FSDPModule)
        self._module.set_requires_gradient_sync(is_last)

    @contextmanager
    def whole(self) -> Iterator[None]:
        """See `Parallel`."""
        model = self.task.model.to(self._device)
        own = dict(model.named_parameters())
        with torch.no_grad():
            for name, shard in self.trained.named_parameters():
                own[name].copy_(_whole(shard))
        yield
        model.to("cpu")

    @torch.no_grad()
    def take_over(self) -> None:
        """See `Parallel`."""
        own = dict(self.task.model.named_parameters())
        for name, shard in self.trained.named_parameters():
            shard.copy_(_part(own[name].detach(), shard))

    def gathered(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """See `Parallel`."""
        return {name: _whole(tensor) for name, tensor in tensors.items()}

    def placed(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """See `Parallel`."""
        shards = dict(self.trained.named_parameters())
        placed = dict(tensors)
        for name, tensor in tensors.items():
            shard = shards.get(name.partition("/")[2])
            if shard is not None and tensor.shape == shard.shape:
                placed[name] = _part(tensor, shard)
        return placed


def _whole(tensor: Tensor) -> Tensor:
    """A tensor put together from all ranks, or as it is."""
    return tensor.full_tensor().detach() if isinstance(tensor, DTensor) else tensor


def _part(tensor: Tensor, like: Tensor) -> Tensor:
    """This rank's part of a tensor that every rank has whole."""
    if not isinstance(like, DTensor) or isinstance(tensor, DTensor):
        return tensor
    return distribute_tensor(
        tensor.to(like.device), like.device_mesh, like.placements, src_data_rank=None
    )


def _with_model(task: Task[Any], model: nn.Module) -> Task[Any]:
    """The task, computing with a copy of its model."""
    twin = copy.copy(task)
    copies = dict(zip(task.model.modules(), model.modules(), strict=True))
    for name, value in vars(task).items():
        if isinstance(value, nn.Module) and value in copies:
            setattr(twin, name, copies[value])
    return twin

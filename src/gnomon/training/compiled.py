"""Layers compiled one by one (`torch.compile`), for batches of any size and length."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from gnomon.errors import RecipeError
from gnomon.model.attend import forced_backend
from gnomon.model.layer import Layer
from gnomon.model.masks import Mask
from gnomon.model.stack import Stack
from gnomon.training.audience import Audience
from gnomon.training.memory import MemoryConfig

# Encoder's and decoder's layers, each with and without padding, in two number formats.
MOST_FORMS = 8


def compile_layers(model: nn.Module, memory: MemoryConfig, audience: Audience) -> None:
    """Have the layers of `model` compiled when training first runs them.

    Parameters and their names stay as they are, so checkpoints are those of a model that is not
    compiled; outside of training passes layers run as they are, too.

    Args:
        audience: is told of each compilation.

    Raises:
        RecipeError: there is nothing to compile, or it does not go with what else is asked for.
    """
    stacks = [module for module in model.modules() if isinstance(module, Stack)]
    reason = None
    if not stacks:
        reason = "the model has no layers of gnomon's"
    elif memory != MemoryConfig():
        reason = "the [memory] table is at work, and compiled layers decide what they keep"
    elif torch.distributed.is_initialized() and torch.distributed.get_world_size() > 1:
        reason = "there are several ranks"
    elif any(stack.patterns for stack in stacks):
        reason = "the model has sparse attention"
    if reason is not None:
        raise RecipeError(
            "training.compile goes with dense layers, without [memory], on one rank",
            seen=reason,
            mend="leave training.compile out",
        )
    compiled = CompiledLayers(audience)
    for stack in stacks:
        stack.call = compiled


class CompiledLayers:
    """Calls layers in compiled form; all layers of a kind share it.

    Attributes:
        num_forms: how many there are: for each kind of layer, kind of mask and number format.
    """

    def __init__(self, audience: Audience) -> None:
        self._audience = audience
        self._compiled: Callable[..., Tensor] | None = None
        self.num_forms = 0

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledLayers:
        return self  # it belongs to no one model

    def __call__(self, layer: Layer, x: Tensor, mask: Mask, *rest: Any) -> Tensor:
        """What `layer(x, mask, *rest)` gives."""
        output: Tensor
        if not self._suits(layer, mask):
            output = layer(x, mask, *rest)
            return output
        if self._compiled is None:
            self._compiled = torch.compile(
                nn.Module.__call__, backend=self._backend, fullgraph=True, dynamic=True
            )
        tensors = [x]
        for each in (mask, *rest):
            if isinstance(each, Mask):
                tensors += each.build(_scores_dtype(x))
            elif isinstance(each, Tensor):  # the encoder's output
                tensors.append(each)
        _mark_dynamic(tensors)
        before = self.num_forms
        output = self._compiled(layer, x, mask, *rest)
        if self.num_forms > before:
            self._tell()
        return output

    def _suits(self, layer: Layer, mask: Mask) -> bool:
        """Whether this is a plain training pass, which nobody watches."""
        if mask.documents is not None:
            raise RecipeError(
                "training.compile goes with one text a row",
                seen="rows of several documents",
                mend="leave training.compile out",
            )
        watched = torch._C._len_torch_function_stack() or torch._C._len_torch_dispatch_stack()
        return (
            layer.training
            and torch.is_grad_enabled()
            and not watched
            and forced_backend.get() is None
            and self.num_forms < MOST_FORMS
        )

    def _backend(self, graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        from torch._dynamo import lookup_backend

        self.num_forms += 1
        return lookup_backend("inductor")(graph, inputs)

    def _tell(self) -> None:
        reason = _reason()
        self._audience.inform(f"layers were compiled, form {self.num_forms}{reason}")
        if self.num_forms == MOST_FORMS:
            self._audience.warn(
                f"layers were compiled {MOST_FORMS} times{reason}; from now on they run as they are"
            )


def _scores_dtype(x: Tensor) -> torch.dtype:
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype


def _mark_dynamic(tensors: Iterable[Tensor]) -> None:
    """Every size but the last of a hidden state may be another in the next batch; 1 stays 1."""
    for tensor in tensors:
        is_hidden = tensor.dim() == 3  # [B, T, D]; masks and biases are [B, H, T, S]
        sizes = tensor.shape[:2] if is_hidden else tensor.shape
        for dim, size in enumerate(sizes):
            if size > 1 and (is_hidden or dim != 1):
                torch._dynamo.mark_dynamic(tensor, dim)


def _reason() -> str:
    """Why the compiler was asked again for what it compiled last, where it says so."""
    from torch._dynamo.utils import get_compilation_metrics

    metrics = get_compilation_metrics()
    reason = metrics[-1].recompile_reason if metrics else None
    return f" ({reason})" if reason else ""

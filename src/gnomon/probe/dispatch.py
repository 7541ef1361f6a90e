"""What only the dispatcher shows: concrete kernels, and every draw of random numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from gnomon.probe.record import FusedKernel, RandomOp, Record

KERNELS = (
    "_scaled_dot_product",
    "_transformer_encoder_layer_fwd",
    "_native_multi_head_attention",
    "_efficient_attention_forward",
    "_flash_attention_forward",
    "_triton_multi_head_attention",
    "_triton_scaled_dot_attention",
)


class DispatchWatch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes fused kernels and random draws of the forward pass; changes nothing."""

    # lets flex_attention and the like through; they are no operators of their own
    supports_higher_order_operators = True

    def __init__(self, record: Record, owner: Callable[[], str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._record = record
        self._owner = owner
        # the kernel that ran last, for whoever called it
        self.last_kernel: str | None = None

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Compiled code runs plainly here, so the compiler need not be told to keep out.

        Telling it would import it, which takes seconds.
        """
        return False

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Let the operator run, and note it."""
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if not isinstance(func, torch._ops.OpOverload):
            return result
        if torch._C._current_graph_task_id() != -1:  # the backward pass
            return result
        name = func._schema.name.removeprefix("aten::")
        if name.startswith(KERNELS):
            if "backward" not in name:
                self.last_kernel = name
                self._record.fused.append(FusedKernel(self._owner(), name))
            random = _argument(func, args, kwargs, "dropout_p") > 0
        else:
            random = torch.Tag.nondeterministic_seeded in func.tags
            if name == "native_dropout":
                random = bool(args[2])
        if random:
            first = result[0] if isinstance(result, tuple) else result
            shape = tuple(first.shape) if isinstance(first, Tensor) else ()
            self._record.random_ops.append(RandomOp(self._owner(), name, shape))
        return result


def _argument(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], wanted: str) -> float:
    """A number among an operator's arguments; 0 if it has none of that name."""
    if wanted in kwargs:
        return float(kwargs[wanted])
    for place, argument in enumerate(func._schema.arguments):
        if argument.name == wanted and place < len(args):
            return float(args[place])
    return 0.0

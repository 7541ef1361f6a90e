"""`observe(module)`: watch everything a module computes while the block runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from torch import nn

from gnomon.errors import ModelError
from gnomon.probe.compiled import uncompiled
from gnomon.probe.dispatch import DispatchWatch
from gnomon.probe.kept import Keeper
from gnomon.probe.norms import handwritten_norm
from gnomon.probe.owners import Frame, Owners, floats
from gnomon.probe.record import Record
from gnomon.probe.trails import Trail, Trails
from gnomon.probe.watch import FunctionWatch


@contextlib.contextmanager
def observe(
    module: nn.Module, *, keep_outputs: bool = False, keep_graph: bool = False
) -> Iterator[Record]:
    """See all attention, norms, embeddings, dropouts and more of any PyTorch module.

    Works by a function mode, a dispatch mode and forward hooks, so it needs no knowledge of the
    model. Any number of forward calls may run in the block, with or without gradients; backward
    passes run unobserved. Nothing that is computed changes, except that `nn.TransformerEncoder` and
    `nn.MultiheadAttention` do not take their fast path while they are watched
    (`compare_unobserved` tells what that means for a model). Code under `torch.compile` runs
    uncompiled in the block.

    Args:
        module: any module; submodules are named as in `named_modules()`.
        keep_outputs: keep the output tensors of every submodule (else only their statistics), and
            what went into and came out of products with bare parameters.
        keep_graph: keep attention weights with their graph, for gradients, where there are any.

    Yields:
        the record; it holds references to tensors, not copies, and is complete when the block
        ends.

    Raises:
        ModelError: `module` is no module.
    """
    if not isinstance(module, nn.Module):
        raise ModelError(
            "Only a torch.nn.Module can be observed.",
            seen=type(module).__name__,
            mend="Give the module itself, not a function or its state dict.",
        )
    record, keeper, trails = Record(), Keeper(), Trails()
    dispatch = DispatchWatch(record, lambda: owners.name)

    def enter(frame: Frame) -> None:
        for tensor in frame.inputs:
            if not trails[tensor].origins:
                trails[tensor] = Trail(watch.new_origin())

    def leave(frame: Frame, output: Any) -> None:
        found = handwritten_norm(frame, output, keeper)
        if found is not None:
            record.norms.append(found)
        # What came out of code that cannot be seen still derives from what went in.
        origins = frozenset().union(*(trails[tensor].origins for tensor in frame.inputs))
        for tensor in floats(output):
            if not trails[tensor].origins:
                trails[tensor] = Trail(origins)

    owners = Owners(module, record, keeper, keep_outputs=keep_outputs, on_root=enter, on_exit=leave)
    watch = FunctionWatch(
        record,
        module,
        owners,
        dispatch,
        keeper,
        trails,
        keep_outputs=keep_outputs,
        keep_graph=keep_graph,
    )
    owners.attach()
    try:
        with uncompiled(), dispatch, watch:
            yield record
    finally:
        owners.detach()
        trails.clear()
        # They refer to one another: module and record would live until the collector comes by.
        vars(watch).clear()
        vars(owners).clear()

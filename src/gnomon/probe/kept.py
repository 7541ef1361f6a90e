"""Tensors of the model that a record refers to, safe from what the model later writes into them."""

from __future__ import annotations

import weakref

from torch import Tensor

from gnomon.probe.quiet import quiet


class Kept:
    """A reference to a tensor; becomes a copy at the moment the model overwrites the original."""

    __slots__ = ("__weakref__", "tensor")

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


class Keeper:
    """Hands out `Kept` references and copies what is about to be overwritten.

    A record holds references, not copies: most models never write into a tensor again. Those that
    do (a static cache, `weights *= mask`, dropout in place) would change what was recorded.
    """

    def __init__(self) -> None:
        self._by_storage: dict[int, weakref.WeakSet[Kept]] = {}

    def keep(self, tensor: Tensor) -> Kept:
        """A detached reference. Call inside `quiet`."""
        kept = Kept(tensor.detach())
        self._by_storage.setdefault(storage(tensor), weakref.WeakSet()).add(kept)
        return kept

    def before_write(self, tensor: Tensor) -> None:
        """Copy all kept references into `tensor`'s memory, as it is about to change."""
        kept_here = self._by_storage.pop(storage(tensor), None)
        if kept_here is None:
            return
        with quiet():
            for kept in kept_here:
                kept.tensor = kept.tensor.clone()


def storage(tensor: Tensor) -> int:
    """What tells whether two tensors share memory."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):  # sparse, opaque or functorch-wrapped tensors
        return id(tensor)

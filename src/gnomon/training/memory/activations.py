"""Stands between autograd and the tensors that it saves for the backward pass."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from gnomon.model.recompute import Function, recording
from gnomon.training.memory.count import Storages, WeakStorage
from gnomon.training.memory.eight_bit import EightBit, eight_bit

# A tensor whose 8-bit form is further off than this (root mean square) is kept as it is. A normal
# distribution is 0.7 % off.
_WORST_ERROR = 0.02
# What is this much smaller than the largest tensor seen costs little to keep, and often counts
# more: the normalisers of attention, means and deviations of norms.
_SMALL = 8


class Activations:
    """Keeps the tensors of a forward pass, or less than them.

    Args:
        model: its parameters are kept as they are.
        recompute: whether matrix products that are marked as recomputable are made again; what is
            cheaper always is.
        to_int8: whether the others are kept in 8 bits.

    Attributes:
        kept_bytes: what the last forward pass left behind, casts of weights included.
    """

    def __init__(self, model: nn.Module, *, recompute: bool, to_int8: bool) -> None:
        self._recompute = recompute
        self._to_int8 = to_int8
        self._model = model
        self._held: dict[int, _Held] = {}  # by address, where whose storage is gone may be left
        self._all: list[_Held] = []
        self._undecided: _Held | None = None
        self._largest = 0
        self.kept_bytes = 0

    @contextmanager
    def forward(self) -> Iterator[None]:
        """The block is one forward pass; its backward pass may come at any time after."""
        parameters = list(self._model.parameters())
        shapes = {tuple(parameter.shape) for parameter in parameters}
        # Casts of weights that autocast made: of a weight's shape, not of its dtype.
        self._shapes = shapes | {shape[::-1] for shape in shapes}
        self._dtypes = {parameter.dtype for parameter in parameters}
        self._largest = 0
        self._as_they_are = Storages(self._model)
        try:
            with torch.autograd.graph.saved_tensors_hooks(self._pack, _unpack), recording(self):
                yield
        finally:
            self._decide()
            held_bytes = sum(held.nbytes for held in self._all)
            self.kept_bytes = held_bytes + self._as_they_are.nbytes
            self._held.clear()
            self._all.clear()

    # -- what autograd saves ------------------------------------------------------------------

    def _pack(self, tensor: Tensor) -> Any:
        self._decide()
        held = self._find(tensor)
        if held is None and self._may_change(tensor):
            held = self._undecided = self._hold(tensor)
        if held is None:
            self._as_they_are.add(tensor)
            return tensor
        held.use()
        return _View(held, tensor)

    def _hold(self, tensor: Tensor) -> _Held:
        held = self._held[tensor.untyped_storage().data_ptr()] = _Held(tensor)
        self._all.append(held)
        return held

    def _find(self, tensor: Tensor) -> _Held | None:
        """Who holds this tensor's storage already."""
        held = self._held.get(tensor.untyped_storage().data_ptr())
        # An address is used again once its storage is gone.
        return None if held is None or held.storage.is_gone else held

    def _may_change(self, tensor: Tensor) -> bool:
        if not tensor.is_floating_point() or type(tensor) is not Tensor:
            return False
        if self._as_they_are.of_a_parameter(tensor):
            return False
        if tuple(tensor.shape) in self._shapes and tensor.dtype not in self._dtypes:
            return False
        # A view of something much larger would keep the whole; queries are a third of theirs.
        return tensor.untyped_storage().nbytes() <= 4 * tensor.nbytes

    def _decide(self) -> None:
        """Bring the tensor that was saved last to its final form.

        Not at once: an operation saves its result before it can be said what it was made of.
        """
        held, self._undecided = self._undecided, None
        if held is None or held.flat is None or not self._to_int8:
            return
        self._largest = max(self._largest, held.flat.numel())
        if held.flat.numel() * _SMALL >= self._largest:
            held.compress()

    # -- what the model says can be made again ------------------------------------------------

    def note(
        self, result: Tensor, function: Function, inputs: tuple[Tensor, ...], *, costly: bool
    ) -> None:
        """See `gnomon.model.recompute.Recorder`."""
        if costly and not self._recompute:
            return
        sources = []
        for each in inputs:
            held = self._find(each)
            if held is None or held is self._find(result):
                return  # to keep what nobody else keeps would gain nothing
            sources.append(_View(held, each))
        recipe = _Recipe(function, sources, result)
        held = self._find(result)
        if held is not None and self._to_int8:
            # The operation saved its own result, as ReLU does, whose backward pass asks what is
            # zero: made again from what 8 bits left, some would change sides.
            return
        if held is None:
            held = self._hold(result)
        if held is self._undecided:
            self._undecided = None
        held.make_again(recipe)


class _Held:
    """One storage that the backward pass may ask for, in one of three forms."""

    def __init__(self, tensor: Tensor) -> None:
        self.storage = WeakStorage(tensor.untyped_storage())
        self.flat: Tensor | None = _whole(tensor)
        self._small: EightBit | None = None
        self._recipe: _Recipe | None = None
        self._uses = 0
        self._left = 0
        self._value: Tensor | None = None

    @property
    def nbytes(self) -> int:
        """Memory held."""
        if self.flat is not None:
            return self.flat.nbytes
        return 0 if self._small is None else self._small.nbytes

    def compress(self) -> None:
        """Into 8 bits, unless too much would be lost."""
        assert self.flat is not None
        small = eight_bit(self.flat)
        if small.error <= _WORST_ERROR:
            self._small, self.flat = small, None

    def make_again(self, recipe: _Recipe) -> None:
        """Not kept at all."""
        self.flat, self._recipe = None, recipe
        if self._uses:
            recipe.use()

    def use(self) -> None:
        """The backward pass will ask for it once more."""
        self._uses += 1
        if self._uses == 1 and self._recipe is not None:
            self._recipe.use()

    def take(self) -> Tensor:
        """The whole storage, flat. What was made for the first use is there until the last."""
        if self.flat is not None:
            return self.flat
        if self._left == 0:
            self._left = self._uses
        value = self._value
        if value is None:
            value = self._recipe() if self._recipe is not None else self._restored()
        self._left -= 1
        self._value = value if self._left else None
        return value

    def _restored(self) -> Tensor:
        assert self._small is not None
        return self._small.restored()


class _View:
    """A tensor on a storage that is held."""

    def __init__(self, held: _Held, tensor: Tensor) -> None:
        self.held = held
        self._layout = tensor.size(), tensor.stride(), tensor.storage_offset()

    def tensor(self) -> Tensor:
        """The tensor again."""
        return self.held.take().as_strided(*self._layout)


class _Recipe:
    """How a tensor is made again, under the autocast that made it."""

    def __init__(self, function: Function, inputs: list[_View], result: Tensor) -> None:
        # Without the hooks of a module: they are for the forward pass.
        self._function = function.forward if isinstance(function, nn.Module) else function
        self._inputs = inputs
        device = result.device.type
        self._autocast = partial(
            torch.autocast,
            device,
            dtype=torch.get_autocast_dtype(device),
            enabled=torch.is_autocast_enabled(device),
            cache_enabled=False,
        )

    def use(self) -> None:
        """It will be made once a backward pass."""
        for each in self._inputs:
            each.held.use()

    def __call__(self) -> Tensor:
        """The result, flat."""
        inputs = [each.tensor() for each in self._inputs]
        with torch.no_grad(), self._autocast():
            return _whole(self._function(*inputs))


def _unpack(packed: Any) -> Tensor:
    tensor: Tensor = packed.tensor() if isinstance(packed, _View) else packed
    return tensor


def _whole(tensor: Tensor) -> Tensor:
    """All numbers of a tensor's storage, flat."""
    flat = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    return flat.set_(tensor.untyped_storage())

"""How many bytes autograd keeps of a forward pass."""

from __future__ import annotations

from torch import Tensor, UntypedStorage, nn
from torch.multiprocessing.reductions import StorageWeakRef


class WeakStorage:
    """Tells when a storage is gone and its address may be another's."""

    def __init__(self, storage: UntypedStorage) -> None:
        self._weak = StorageWeakRef(storage)  # type: ignore[no-untyped-call]

    @property
    def is_gone(self) -> bool:
        """Whether nobody holds it any more."""
        return bool(self._weak.expired())  # type: ignore[no-untyped-call]


class Storages:
    """Storages that are kept, each counted once however many tensors lie on it.

    Args:
        model: its parameters are there anyway.
    """

    def __init__(self, model: nn.Module) -> None:
        self._of_parameters = {p.untyped_storage().data_ptr() for p in model.parameters()}
        self._seen: dict[int, WeakStorage] = {}
        self.nbytes = 0

    def of_a_parameter(self, tensor: Tensor) -> bool:
        """Whether `tensor` lies where a parameter does."""
        return tensor.untyped_storage().data_ptr() in self._of_parameters

    def add(self, tensor: Tensor) -> None:
        """`tensor` is kept."""
        storage = tensor.untyped_storage()
        key = storage.data_ptr()
        seen = self._seen.get(key)
        if self.of_a_parameter(tensor) or (seen is not None and not seen.is_gone):
            return
        self._seen[key] = WeakStorage(storage)
        self.nbytes += storage.nbytes()

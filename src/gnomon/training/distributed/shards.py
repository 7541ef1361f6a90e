"""States of parameters written by all ranks together (torch.distributed.checkpoint)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


class ShardWriter:
    """Writes checkpoints of one training, one at a time.

    Args:
        group: of all ranks, for CPU tensors, used by nobody else.
        later: copy each rank's part at once and write it from a thread, while training goes on.
    """

    def __init__(self, group: ProcessGroup | None, *, later: bool) -> None:
        self._group = group
        self._later = later
        self._thread = ThreadPoolExecutor(1)

    def write(
        self, tensors: Mapping[str, Tensor], folder: Path, then: Callable[[], None]
    ) -> Future[None]:
        """Write each rank's part; what every rank has is written once. All ranks call it.

        Args:
            then: done when all parts are there.

        Returns:
            Done when all parts are there and `then` is done on this rank.
        """
        # Half a second.
        from torch.distributed.checkpoint.state_dict_saver import async_save, save

        if not self._later:
            with _failing_plainly():
                save(dict(tensors), checkpoint_id=folder, process_group=self._group)
            then()
            done: Future[None] = Future()
            done.set_result(None)
            return done
        written = async_save(dict(tensors), checkpoint_id=folder, process_group=self._group)
        assert isinstance(written, Future)

        def finish() -> None:
            with _failing_plainly():
                written.result()
            then()

        return self._thread.submit(finish)


@contextmanager
def _failing_plainly() -> Iterator[None]:
    """A full disk is told as such, and not as torch's BaseException around it."""
    from torch.distributed.checkpoint.api import CheckpointException

    try:
        yield
    except CheckpointException as error:
        causes = [cause for cause, _ in error.failures.values()]
        raise next((c for c in causes if isinstance(c, OSError)), OSError(str(error))) from error


def read_shards(folder: Path, trained: nn.Module) -> dict[str, Tensor]:
    """The states as `trained` is held now, by however many ranks they were written.

    Args:
        trained: a state `key/name` that has the shape of parameter `name` is divided as it is;
            others are whole on every rank.
    """
    from torch.distributed.checkpoint.filesystem import FileSystemReader
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata
    from torch.distributed.checkpoint.state_dict_loader import load

    parameters = dict(trained.named_parameters())
    states: dict[str, Tensor] = {}
    for key, entry in FileSystemReader(folder).read_metadata().state_dict_metadata.items():
        assert isinstance(entry, TensorStorageMetadata), "only tensors are written"
        parameter = parameters.get(key.partition("/")[2])
        dtype = entry.properties.dtype
        if parameter is not None and parameter.shape == entry.size:
            states[key] = torch.zeros_like(parameter.detach(), dtype=dtype)
        else:
            states[key] = torch.zeros(entry.size, dtype=dtype)
    alone = not torch.distributed.is_initialized()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")  # as it may be
        load(states, checkpoint_id=folder, no_dist=alone)
    return states

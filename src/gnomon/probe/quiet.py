"""The probe's own arithmetic, hidden from the modes that watch the model."""

from __future__ import annotations

import torch


class quiet:  # noqa: N801 (read as a statement: `with quiet():`)
    """Within it no function mode, dispatch mode or graph sees what is computed.

    A class and not a generator, as it is entered for every call of a PyTorch function.
    """

    __slots__ = ("_dispatch", "_function", "_gradients")

    def __enter__(self) -> None:
        self._function = torch._C.DisableTorchFunction()
        self._function.__enter__()
        self._dispatch = torch._C._DisableTorchDispatch()
        self._dispatch.__enter__()  # type: ignore[no-untyped-call]
        self._gradients = torch.is_grad_enabled()
        torch._C._set_grad_enabled(False)

    def __exit__(self, *_: object) -> None:
        torch._C._set_grad_enabled(self._gradients)
        self._dispatch.__exit__(None, None, None)
        self._function.__exit__(None, None, None)

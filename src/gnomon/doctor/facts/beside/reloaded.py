"""The model built again from what was saved, and what its loading code did on the way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from gnomon.doctor.case import Case
from gnomon.doctor.finding import Skip
from gnomon.doctor.remembering import remembered


@dataclass(frozen=True)
class Load:
    """One call of `load_state_dict` while the model was built again.

    Attributes:
        missing: names of the module that the given weights do not have.
        unexpected: names among the given weights that the module does not have.
    """

    module: str
    missing: tuple[str, ...]
    unexpected: tuple[str, ...]


@dataclass
class Reloaded:
    """How the second model was loaded, and once itself.

    Attributes:
        ties: names of its parameters that share one storage, see `tied`.
    """

    loads: tuple[Load, ...]
    ties: list[tuple[str, ...]]
    module: nn.Module | None

    def taken(self) -> nn.Module:
        """The model, in evaluation mode, which is kept no longer: it takes the memory of a second.

        Raises:
            Skip: it was taken before.
        """
        module, self.module = self.module, None
        if module is None:
            raise Skip("what was saved was loaded and compared already")
        return module


@remembered
def reloaded(case: Case) -> Reloaded:
    """What `Patient.reload` gives.

    Raises:
        Skip: it was not handed over, or it fails.
    """
    reload = case.patient.reload
    if reload is None:
        raise Skip("nothing was handed over that builds the model again from what was saved")
    try:
        with _watched() as loads:
            module = reload()
    except Exception as error:  # the user's code may raise anything
        raise Skip(f"building it again fails: {type(error).__name__}: {error}"[:300]) from None
    if not isinstance(module, nn.Module):
        raise Skip(f"reload gives a {type(module).__name__}, not a module")
    return Reloaded(tuple(loads), tied(module), module.eval())


@contextmanager
def _watched() -> Iterator[list[Load]]:
    """Notes every `load_state_dict` of any module while the block runs."""
    own = nn.Module.load_state_dict
    loads: list[Load] = []

    def load(module: nn.Module, state_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        names, given = set(module.state_dict()), set(state_dict)
        loads.append(
            Load(
                type(module).__name__,
                tuple(sorted(names - given)),
                tuple(sorted(given - names)),
            )
        )
        return own(module, state_dict, *args, **kwargs)

    nn.Module.load_state_dict = load  # type: ignore[assignment,method-assign]
    try:
        yield loads
    finally:
        nn.Module.load_state_dict = own  # type: ignore[method-assign]


def tied(module: nn.Module) -> list[tuple[str, ...]]:
    """Names of parameters that share one storage, group by group."""
    groups: dict[tuple[int, int], list[str]] = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        if parameter.numel() and not parameter.is_meta:
            storage = parameter.untyped_storage().data_ptr(), int(parameter.storage_offset())
            groups.setdefault(storage, []).append(name)
    return [tuple(names) for names in groups.values() if len(names) > 1]


def same_values(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors hold the same bits, NaN being itself."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return bool(torch.equal(one.isnan(), other.isnan().to(one.device))) and bool(
        torch.equal(one.nan_to_num(), other.to(one.device).nan_to_num())
    )

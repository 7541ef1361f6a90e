"""Look-ups in tables, guarded: an id out of range is told before it can harm (a GPU's context)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from gnomon.doctor.call import Call
from gnomon.doctor.case import Case
from gnomon.doctor.remembering import remembered


class OutOfRange(Exception):
    """Ids beyond a table were about to be looked up."""


@dataclass(frozen=True)
class Lookup:
    """The ids of one look-up in a table.

    Attributes:
        count: how many ids.
        is_text: these are the ids of a text of the call, not positions or segments.
    """

    module: str  # or the parameter, where no module has it as its weight
    rows: int
    lowest: int
    highest: int
    count: int
    is_text: bool

    @property
    def out_of_range(self) -> bool:
        """An id has no row."""
        return self.lowest < 0 or self.highest >= self.rows


@dataclass
class Lookups:
    """What one guarded run showed.

    Attributes:
        error: what the model raised, if it did (and it was not the guard).
    """

    made: list[Lookup] = field(default_factory=list)
    error: Exception | None = None
    length: int | None = None

    @property
    def wrong(self) -> Lookup | None:
        """The one that would have failed."""
        return next((each for each in self.made if each.out_of_range), None)


def lookups(case: Case, call: Call) -> Lookups:
    """Run the call up to the first look-up that is out of range."""
    seen = Lookups()
    with _Guard(case.module, call, seen):
        try:
            tensors = case.run(call).tensors.values()
            seen.length = max((t.size(1) for t in tensors if t.dim() == 3), default=None)
        except OutOfRange:
            pass
        except Exception as error:
            seen.error = error
    return seen


@remembered
def lookups_of_batch(case: Case) -> Lookups:
    """Of the batch as it was handed over."""
    return lookups(case, case.call)


class _Guard(TorchFunctionMode):
    """Looks at the ids of every look-up before it is made."""

    def __init__(self, module: nn.Module, call: Call, seen: Lookups) -> None:
        super().__init__()
        self.names = {id(table): name for name, table in module.named_parameters()}
        self.texts = [call.text(name) for name in call.streams]
        self.seen = seen

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is F.embedding:
            ids = args[0] if args else kwargs["input"]
            self._look(ids, args[1] if len(args) > 1 else kwargs["weight"])
        return func(*args, **kwargs)

    def _look(self, ids: Tensor, table: Tensor) -> None:
        if not ids.numel():
            return
        low, high = (int(each) for each in torch.aminmax(ids))
        is_text = any(each.shape == ids.shape and torch.equal(each, ids) for each in self.texts)
        name = self.names.get(id(table), "a table").removesuffix(".weight")
        found = Lookup(name, table.size(0), low, high, ids.numel(), is_text)
        self.seen.made.append(found)
        if found.out_of_range:
            raise OutOfRange(name)

"""The matrices of a model, those that play one part in several layers taken together."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from torch import Tensor, nn

if TYPE_CHECKING:
    from gnomon.doctor.case import Case


def kind(name: str) -> str:
    """A parameter's name without the numbers of layers: "layers.*.attention.out.weight"."""
    return re.sub(r"(?<![^.])\d+(?![^.])", "*", name)


def by_kind(names: Iterable[str]) -> dict[str, list[str]]:
    """Names that differ in numbers alone, together."""
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(kind(name), []).append(name)
    return found


def matrices(case: Case) -> dict[str, Tensor]:
    """Every projection's weight by its name: 2-D, floating point, and no table that is looked up.

    A table that is the output projection too is a table.
    """
    tables = {id(m.weight) for m in case.module.modules() if isinstance(m, nn.Embedding)}
    return {
        name: parameter.detach()
        for name, parameter in case.module.named_parameters()
        if parameter.dim() == 2 and parameter.is_floating_point() and id(parameter) not in tables
    }

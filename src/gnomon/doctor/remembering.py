"""Facts of a case: computed at the first question and kept, also that one is not to be had."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar

if TYPE_CHECKING:
    from gnomon.doctor.case import Case

T = TypeVar("T")
P = ParamSpec("P")
_REMEMBERED: set[object] = set()


class Remembering:
    """Whoever has facts: by name, what was computed or what that raised."""

    def __init__(self) -> None:
        self.facts: dict[str, Any] = {}

    def once(self, name: str, compute: Callable[[], T]) -> T:
        """What `compute` gave the first time, or what it raised: a model that fails fails once."""
        if name not in self.facts:
            try:
                self.facts[name] = compute()
            except (Exception, SystemExit) as error:  # the model's code may raise anything
                self.facts[name] = error
        found = self.facts[name]
        if isinstance(found, BaseException):
            raise found.with_traceback(None)  # which would keep all that the run had made
        return found  # type: ignore[no-any-return]


class fact(Generic[T]):  # noqa: N801 - used as a decorator, like `property`
    """A property computed once; that it is not to be had is kept as well."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self.compute, self.__doc__ = compute, compute.__doc__

    def __get__(self, case: Remembering, owner: type[Remembering]) -> T:
        return case.once(self.compute.__name__, lambda: self.compute(case))


def remembered(
    compute: Callable[Concatenate[Case, P], T],
) -> Callable[Concatenate[Case, P], T]:
    """A fact that stands beside the case, in a file of its own: a function of it (and more)."""

    @functools.wraps(compute)
    def get(case: Case, /, *args: P.args, **kwargs: P.kwargs) -> T:
        key = f"{compute.__module__}.{compute.__qualname__}{args}{kwargs or ''}"
        return case.once(key, lambda: compute(case, *args, **kwargs))

    _REMEMBERED.add(get)
    return get


def is_remembered(function: object) -> bool:
    """Whether it is such a fact."""
    return function in _REMEMBERED

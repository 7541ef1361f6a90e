"""Where a model writes its logits: a module, or a product with a parameter outside of any."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakIdKeyDictionary

from gnomon.doctor.run import tensors
from gnomon.probe.kept import storage

if TYPE_CHECKING:
    from gnomon.doctor.case import Case

Note = Callable[[Tensor], object]


@dataclass(frozen=True)
class Product:
    """A function of parameters, and what is done to its result: `x @ self.table.weight.T * scale`.

    Attributes:
        parameters: their storages.
        path: the functions' names, in order.
    """

    parameters: frozenset[int]
    path: tuple[str, ...]


def logit_writers(case: Case) -> list[str]:
    """Modules that give the model's output (the root among them, last)."""
    tokens, record = case.seen.tokens, case.seen.record
    return sorted(
        (
            name
            for name, calls in record.modules.items()
            for call in calls[-1:]
            if any(
                each.shape == tokens.shape and torch.equal(each, tokens) for each in call.tensors
            )
        ),
        key=len,
        reverse=True,
    )


def logit_product(case: Case) -> Product | None:
    """The product that gives the model's output, looked for once.

    A loop that calls parts of a model (an encoder's, a decoder's method) runs no module that does.
    """
    return case.once("logit product", lambda: _find_product(case))


def _find_product(case: Case) -> Product | None:
    made: list[tuple[Product, Tensor]] = []
    with _Watch(case, lambda product, result: made.append((product, result))):
        tokens = case.run(case.small).tokens  # of this very run: the mode may choose other kernels
    same = (
        product
        for product, result in made
        if result.shape == tokens.shape and torch.equal(result, tokens)
    )
    return next(same, None)


@contextmanager
def noting(case: Case, writer: str | Product, note: Note) -> Iterator[None]:
    """Hand all logits `[B, T, V]` to `note`, which may write into them."""
    if isinstance(writer, Product):

        def look(product: Product, result: Tensor) -> None:
            if product == writer and result.dim() in (2, 3):
                note(_rows(result))

        with _Watch(case, look):
            yield
        return
    size = case.base.tokens.size(-1)

    def hook(_: nn.Module, __: Any, output: Any) -> None:
        for each in tensors(output).values():
            if each.dim() in (2, 3) and each.size(-1) == size:
                note(_rows(each))
                return

    handle = case.module.get_submodule(writer).register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


def _rows(logits: Tensor) -> Tensor:
    """`[B, V]` of one position as `[B, 1, V]`."""
    return logits if logits.dim() == 3 else logits[:, None]


class _Watch(TorchFunctionMode):
    """Shows all that ends in V and comes of a parameter, with how it was made."""

    def __init__(self, case: Case, look: Callable[[Product, Tensor], None]) -> None:
        super().__init__()
        self.size, self.look = case.base.tokens.size(-1), look
        self.parameters = frozenset(storage(p) for p in case.module.parameters())
        self.made: WeakIdKeyDictionary = WeakIdKeyDictionary()

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if (
            isinstance(result, Tensor)
            and result.dim() > 1
            and result.size(-1) == self.size
            and result.is_floating_point()
            and storage(result) not in self.parameters
        ):
            given = [*args, *(kwargs or {}).values()]
            given += [x for each in given if isinstance(each, list | tuple) for x in each]
            product = self._product(func, [each for each in given if isinstance(each, Tensor)])
            if product.parameters and result not in self.made:  # not what is done in place
                self.made[result] = product
                self.look(product, result)
        return result

    def _product(self, func: Any, given: list[Tensor]) -> Product:
        before = [self.made[each] for each in given if each in self.made]
        own = {storage(each) for each in given} & self.parameters
        own = own.union(*(each.parameters for each in before))
        path = before[0].path if before else ()
        return Product(frozenset(own), (*path, getattr(func, "__name__", "")))

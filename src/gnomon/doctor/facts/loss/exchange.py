"""The loss, computed from logits of our own choosing in the place of the model's.

So what a loss asks of the model can be read off its value and gradient, however the user wrote it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from gnomon.doctor.call import Call
from gnomon.doctor.facts.loss.logits import Product, logit_product, noting
from gnomon.doctor.finding import Skip
from gnomon.doctor.run import Run, tensors

if TYPE_CHECKING:
    from gnomon.doctor.case import Case


class Answered(NamedTuple):
    """Logits that were chosen, as the model's output has them, and what the loss said of them.

    Attributes:
        gradient: of the loss on the logits.
    """

    logits: Tensor
    gradient: Tensor
    loss: float


def answered(case: Case, call: Call, seed: int = 0, draw: int = 0) -> Answered:
    """Run the loss on `call` with logits drawn from N(0, 1).

    Args:
        seed: of the generators while the loss is computed, which may draw from them.
        draw: another number, other logits.

    Raises:
        Skip: there is no loss, or it does not take the logits from the model's output.
    """
    if case.patient.loss is None:
        call = case.labelled(call)
    output = case.run(call).main
    form = _form(output)
    place = _place(case, call)
    used: list[Tensor] = []
    own: list[Tensor] = []

    def another(real: Tensor) -> Tensor:
        own.append(real.detach().clone())
        generator = torch.Generator().manual_seed(draw + len(used))
        leaf = torch.randn(real.shape, generator=generator).to(real.device).requires_grad_()
        used.append(leaf)
        shown: Tensor = form(leaf)
        return shown.to(real.dtype)

    case.module.eval()
    with _exchanged(case, place, call, another), torch.enable_grad():
        torch.manual_seed(seed)
        loss = case.loss(call)
    if len(used) != 1:
        raise Skip(f"the loss takes the model's output {len(used)} times, not once")
    leaf = used[0]
    if not loss.requires_grad:
        raise Skip("the loss does not depend on the model's output by a gradient")
    gradient = torch.autograd.grad(loss, leaf, allow_unused=True)[0]
    if gradient is None:
        raise Skip("the loss is not computed from the model's output")
    shape = output.shape if _is_flat(own[0], output) else leaf.shape
    return Answered(leaf.detach().view(shape), gradient.view(shape), float(loss.detach()))


def _is_flat(written: Tensor, output: Tensor) -> bool:
    """Whether the rows that a model writes, token after token, are those of its output."""
    if written.shape == output.shape or written.numel() != output.numel():
        return False
    one, other = written.flatten().double(), output.flatten().double()
    return bool(torch.allclose(one, other, rtol=1e-3, atol=1e-3 * float(other.abs().max())))


def _form(output: Tensor) -> Any:
    """How the model's output relates to logits: they themselves, log-probabilities or these."""
    wide = output.double()
    if bool((wide.exp().sum(-1) - 1).abs().max() < 1e-3):
        return lambda logits: logits.log_softmax(-1)
    if bool((wide >= 0).all()) and bool((wide.sum(-1) - 1).abs().max() < 1e-3):
        return lambda logits: logits.softmax(-1)
    return lambda logits: logits


@contextmanager
def _exchanged(
    case: Case, place: nn.Module | Product, call: Call, another: Callable[[Tensor], Tensor]
) -> Iterator[None]:
    """Put other logits in the place of the model's own, wherever it writes them."""
    if isinstance(place, Product):
        with noting(case, place, lambda logits: logits.copy_(another(logits))):
            yield
        return

    def exchange(_: nn.Module, __: Any, output: Any) -> Any:
        real = _logits_in(output, call)
        return _replaced(output, real, another(real))

    handle = place.register_forward_hook(exchange)
    try:
        yield
    finally:
        handle.remove()


def _place(case: Case, call: Call) -> nn.Module | Product:
    """The innermost module whose output the logits are: a model may compute its loss inside.

    Where it does something to the output of its last module (a soft cap), that.
    """
    seen = case.observed(call)
    logits, record = seen.main, seen.record  # of one run: observed, it takes no fast path
    for name, calls in reversed(record.modules.items()):
        tensors = calls[-1].tensors if name else ()
        if tensors and tensors[0].shape == logits.shape and torch.equal(tensors[0], logits):
            return case.module.get_submodule(name)
    if (product := logit_product(case)) is not None:
        return product
    if case.patient.loss is None:
        raise Skip("nothing was seen to write the logits from which the model computes its loss")
    return case.module


def _logits_in(output: Any, call: Call) -> Tensor:
    """The tensor itself, as it stands in the output, that `Run.main` shows."""
    found = tensors(output)
    shown = Run(call, output, found).main
    for tensor in found.values():
        if tensor.data_ptr() == shown.data_ptr() and tensor.numel() == shown.numel():
            return tensor
    raise Skip("the logits are no tensor of the module's output")


def _replaced(output: Any, old: Tensor, new: Tensor) -> Any:
    if output is old:
        return new
    if isinstance(output, tuple) and hasattr(output, "_fields"):
        return type(output)(*(_replaced(each, old, new) for each in output))
    if isinstance(output, tuple | list):
        return type(output)(_replaced(each, old, new) for each in output)
    if is_dataclass(output) and not isinstance(output, type):  # Hugging Face's are mappings, too
        for each in fields(output):
            if getattr(output, each.name, None) is old:
                setattr(output, each.name, new)
        return output
    if isinstance(output, Mapping):
        return type(output)((key, _replaced(each, old, new)) for key, each in output.items())  # type: ignore[call-arg]
    return output

"""What a loss asks for, read off its gradient on the logits.

For a cross-entropy with label l, smoothing α and weight w, the gradient on the logit of v is
w · (softmax_v - (1 - α)[v = l] - α/V). So one backward pass from the loss to logits of our own
choosing tells, for every position, whether it counts, how much, and which token it is to predict,
without knowing how the user wrote the loss.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from gnomon.doctor.call import Call
from gnomon.doctor.finding import Skip
from gnomon.doctor.logits import Product, logit_product, noting
from gnomon.doctor.run import Run, tensors_of

if TYPE_CHECKING:
    from gnomon.doctor.case import Case


@dataclass(frozen=True)
class Objective:
    """What the loss asks of each position of the text that the output runs along, `[B, T]`.

    Attributes:
        call: the batch it was read from; `text` are its ids, `keep` its real tokens.
        weight: how much the position counts (the sum is 1 for a mean over positions).
        target: the token asked for.
        mass: the target's share of what is asked for: 1 - α with smoothing; about 1 / V where
            only smoothing reaches the position.
    """

    call: Call
    text: Tensor
    keep: Tensor
    weight: Tensor
    target: Tensor
    mass: Tensor
    vocab_size: int

    @property
    def counts(self) -> Tensor:
        """Bool `[B, T]`: positions that the loss depends on."""
        return self.weight > 1e-4 * self.weight.max()


def read_objective(case: Case, call: Call, seed: int = 0) -> Objective:
    """Run the loss on `call` with logits of our choosing.

    Args:
        seed: of the generators while the loss is computed, which may draw from them.

    Raises:
        Skip: there is no loss, it does not take the logits from the model's output, or it is no
            cross-entropy.
    """
    if case.patient.loss is None:
        call = case.labelled(call)
    run = case.run(call)
    logits = run.tokens
    if logits.size(-1) < 3:
        raise Skip(f"the output has {logits.size(-1)} values at a position: no logits of tokens")
    form = _form(logits)
    place = _place(case, call)
    used: list[Tensor] = []

    def another(real: Tensor) -> Tensor:
        generator = torch.Generator().manual_seed(len(used))
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
    gradient = Run(call, gradient, {"logits": gradient}).tokens.double()
    values = Run(call, leaf, {"logits": leaf.detach()}).tokens.double()
    return _solved(case, call, gradient, values.softmax(-1))


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
    logits, record = seen.tokens, seen.record  # of one run: observed, it takes no fast path
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
    """The tensor itself, as it stands in the output, that `Run.tokens` shows."""
    tensors = tensors_of(output)
    shown = Run(call, output, tensors).tokens
    for tensor in tensors.values():
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


def _solved(case: Case, call: Call, gradient: Tensor, p: Tensor) -> Objective:
    """Weight, label and smoothing of every position from its gradient."""
    label = gradient.argmin(-1)
    pad_id = call.streams[call.read].pad_id
    others = torch.ones_like(p, dtype=torch.bool).scatter_(-1, label[..., None], False)
    if pad_id is not None and pad_id < p.size(-1):
        others[..., pad_id] = False  # some smooth over all tokens but padding
    n = others.sum(-1)
    mean_p = (p * others).sum(-1) / n
    mean_g = (gradient * others).sum(-1) / n
    off = (p - mean_p[..., None]) * others
    weight = (off * gradient).sum(-1) / off.square().sum(-1)
    residual = (gradient - mean_g[..., None] - weight[..., None] * (p - mean_p[..., None])) * others
    size = gradient.abs().amax(-1)
    counted = size > 1e-4 * size.max()
    if not bool(counted.any()):
        raise Skip("the loss does not depend on the model's output")
    if bool((residual.abs().amax(-1) > 0.02 * size)[counted].float().mean() > 0.05):
        raise Skip("the loss is no cross-entropy of the model's output")
    asked = p - gradient / weight.clamp_min(1e-300)[..., None]
    return Objective(
        call=call,
        text=call.text(call.read),
        keep=call.keep(call.read),
        weight=weight.masked_fill(~counted, 0.0),
        target=label,
        mass=asked.gather(-1, label[..., None])[..., 0],
        vocab_size=p.size(-1),
    )

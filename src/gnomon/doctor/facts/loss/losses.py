"""The loss of a case: as its user computes it, as the model does, or any that has gradients."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from gnomon.doctor.call import IGNORED_LABEL, Call, Entry
from gnomon.doctor.facts.loss.loss_alone import only_computes
from gnomon.doctor.finding import Skip
from gnomon.doctor.restore import untouched
from gnomon.doctor.run import run

if TYPE_CHECKING:
    from gnomon.doctor.case import Case


def loss(case: Case, call: Call) -> Tensor:
    """The training loss on a call, a scalar, as the user computes it or the model itself does.

    Raises:
        Skip: neither is known.
        DoctorError: the function steps an optimizer.
    """
    patient = case.patient
    if patient.loss is not None:
        with only_computes():
            return _one_number(patient.loss(case.module, call.as_batch(patient.batch)))
    found = run(case.module, labelled(case, call)).tensors.get("loss")
    if found is None:
        raise Skip("no loss function was handed over, and the model computes none")
    return _one_number(found)


def labelled(case: Case, call: Call) -> Call:
    """The call with labels, for a model that computes its loss itcase.

    Raises:
        Skip: the model takes no labels.
    """
    if "labels" in call.values or any(entry.role == "labels" for entry in call.entries):
        return call
    if (
        case.kind != "huggingface"
        or "labels" not in inspect.signature(case.module.forward).parameters
    ):
        raise Skip("no loss function was handed over, and the model takes no labels")
    logits = case.base.tensors.get("logits")
    text = call.text(call.read)
    if logits is None or text.dim() != 2:
        raise Skip("no loss function was handed over, and the batch has no labels")
    if logits.dim() == 2 and logits.size(0) == case.base.call.num_rows():
        if logits.size(1) < 2:
            raise Skip("the model gives one value for each text, and the batch has no labels")
        labels = torch.arange(text.size(0), device=text.device) % logits.size(1)
        return _with_labels(call, labels)
    keep = call.keep(call.read)
    # Where it is no token that is asked for, a word has the same label everywhere.
    labels = (text % logits.size(-1)).masked_fill(~keep, IGNORED_LABEL)
    if call.read == "target":  # a decoder's inputs are its labels, shifted already
        labels = labels.roll(-1, 1)
        labels[:, -1] = IGNORED_LABEL
    return _with_labels(call, labels)


def any_loss(case: Case, call: Call) -> Tensor:
    """For gradients, a scalar: the training loss, else the next token's, else a projection."""
    try:
        return loss(case, call)
    except Skip:
        pass
    output = run(case.module, call)
    tokens, text = output.main, call.text(call.read)
    if text.dim() == 2 and tokens.dim() == 3 and tokens.size(-1) > int(text.max()):
        keep = call.keep(call.read)[:, 1:]
        logits, goal = tokens[:, :-1][keep], text[:, 1:][keep]
        if goal.numel():
            return F.cross_entropy(logits.float(), goal)
    # Not the mean square, which a norm at the end keeps at 1.
    generator = torch.Generator().manual_seed(0)
    direction = torch.randn(tokens.shape, generator=generator).to(tokens.device)
    return (tokens.float() * direction).mean()


def gradients(case: Case) -> dict[str, Tensor | None]:
    """Each parameter's gradient of `any_loss` on `call`, of its own shape, without dropout.

    Raises:
        Skip: no gradient comes out of the model.
    """
    case.must_take_gradients()
    case.module.eval()
    with untouched(case.module), torch.enable_grad():
        value = any_loss(case, case.call)
        if not value.requires_grad:
            raise Skip(
                "no gradient comes out of the model: its forward runs under no_grad or "
                "inference_mode, or nothing in it asks for one"
            )
        value.backward()  # type: ignore[no-untyped-call]
        return {
            name: None if p.grad is None else p.grad.detach()  # its own are put back
            for name, p in case.module.named_parameters()
        }


def labels_are_invented(case: Case) -> bool:
    """Whether the loss asks for labels that nobody handed over and that are not the text."""
    call = case.call
    if case.patient.loss is not None or any(each.role == "labels" for each in call.entries):
        return False
    logits = case.base.tensors.get("logits")
    return logits is None or logits.size(-1) < call.streams[call.read].vocab_size


def _one_number(loss: Any) -> Tensor:
    """The loss, if it is one.

    Raises:
        Skip: it is no tensor, or holds several numbers.
    """
    if not isinstance(loss, Tensor):
        raise Skip(f"the loss is a {type(loss).__name__}, not a tensor: it has no gradient")
    if loss.numel() != 1:
        raise Skip(f"the loss has the shape {tuple(loss.shape)}: reduce it to one number")
    return loss.reshape(())


def _with_labels(call: Call, labels: Tensor) -> Call:
    """The call with labels of its texts, or of each position."""
    entry = Entry("labels", "labels", call.read, 0, (1,) if labels.dim() > 1 else ())
    return replace(call.with_values(labels=labels), entries=(*call.entries, entry))

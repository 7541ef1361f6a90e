"""The module at which a step of generation parts from a full pass over the same text, or breaks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gnomon.doctor.call import Call
from gnomon.doctor.case import Case
from gnomon.doctor.facts.beside.trace import at_fault, first_inner
from gnomon.doctor.facts.decoding.generation import Generated
from gnomon.doctor.facts.decoding.loops import loop
from gnomon.doctor.facts.loss.logits import logit_writers
from gnomon.doctor.run import difference, tensors

# What each module gave in one step, call after call, in the order in which they finished.
_Outputs = dict[str, list[Tensor]]


def parted_at(case: Case, made: Generated, full: Call, step: int, row: int) -> str:
    """The first module whose output in a step is not that of the full pass; "": it is not known.

    Args:
        made: what was generated, and how the loop goes through its rows.
        full: the prompts and what was generated, see `generation.with_tokens`.
    """
    call, num_tokens = made.call, made.tokens.size(1)
    writer = logit_writers(case)[0]
    steps = _in_steps(case.module, writer, lambda: loop(case)(call, num_tokens))
    rows = call.num_rows()
    if len(steps) == rows * num_tokens:  # one row after another
        at, own_row = steps[row * num_tokens + step if made.by_row else step * rows + row], 0
    elif len(steps) in (num_tokens, num_tokens + 1):
        at, own_row = steps[step], row
    else:
        return ""
    whole = _in_steps(case.module, writer, lambda: case.run(full))[0]
    position = call.length(call.read) - 1 + step
    shape = (rows, full.length(full.read))
    moved = {}
    for order, (name, outputs) in enumerate(at.items()):
        expected = whole.get(name, [])
        if len(outputs) == len(expected) and any(
            _moved(one, own_row, two, shape, row, position) > case.tolerance
            for one, two in zip(outputs, expected, strict=True)
        ):
            moved[name] = order
    first = first_inner(moved)
    return "" if first is None else at_fault(case.module, first) or first


def _moved(
    one: Tensor, own_row: int, whole: Tensor, shape: tuple[int, int], row: int, position: int
) -> float:
    """How far the last position of a step's row is from the same one of the full pass."""
    rows, length = shape
    if whole.dim() != 3 or one.dim() != 3 or one.size(-1) != whole.size(-1):
        return 0.0
    if whole.size(1) != length and whole.size(0) == length:  # positions first
        one, whole = one.transpose(0, 1), whole.transpose(0, 1)
    if whole.size(1) != length or whole.size(0) not in (1, rows):
        return 0.0
    ours = one[min(own_row, one.size(0) - 1), -1]
    return difference(ours[None], whole[min(row, whole.size(0) - 1), position][None])


def _in_steps(module: nn.Module, writer: str, run: Callable[[], object]) -> list[_Outputs]:
    """What each module gave until the logits were written, step by step."""
    steps: list[_Outputs] = [{}]

    def note(name: str) -> Any:
        def hook(_: nn.Module, __: Any, output: Any) -> None:
            for each in tensors(output).values():
                steps[-1].setdefault(name, []).append(each.detach().clone())
                break
            if name == writer:
                steps.append({})

        return hook

    hooks = [each.register_forward_hook(note(name)) for name, each in module.named_modules()]
    try:
        module.eval()
        with torch.no_grad():
            torch.manual_seed(0)
            run()
    finally:
        for hook in hooks:
            hook.remove()
    return steps[:-1]


@dataclass(frozen=True)
class Broken:
    """An error inside the model in a step after the first.

    Attributes:
        module: the innermost one that was being called.
    """

    step: int
    module: str
    error: Exception


def broken_at(case: Case, call: Call, num_tokens: int) -> Broken | None:
    """Generate again, and see where it raises; None: outside the model, or at its first step.

    There the inputs may be at fault. Later ones are of the loop's and the model's own making.
    """
    writer = logit_writers(case)[0]
    with _open_calls(case.module, writer) as (inside, written):
        try:
            case.module.eval()
            with torch.no_grad():
                torch.manual_seed(0)
                loop(case)(call, num_tokens)
        except Exception as error:  # whatever the model raises
            alone = written and all(size == 1 for size in written)
            step = len(written) // (call.num_rows() if alone else 1)
            return Broken(step, inside[-1], error) if inside and step else None
    return None


@contextmanager
def _open_calls(module: nn.Module, writer: str) -> Iterator[tuple[list[str], list[int]]]:
    """Names of the modules that are being called, the innermost last; rows of logits written."""
    inside: list[str] = []
    written: list[int] = []

    def begin(name: str) -> Any:
        return lambda _, __: inside.append(name)

    def end(name: str) -> Any:
        def hook(_: nn.Module, __: Any, output: Any) -> None:
            while inside and inside.pop() != name:
                pass  # one that raised, and its caller went on
            if name == writer:
                written.extend(each.size(0) for each in list(tensors(output).values())[:1])

        return hook

    hooks = []
    for name, each in module.named_modules():
        hooks.append(each.register_forward_pre_hook(begin(name)))
        hooks.append(each.register_forward_hook(end(name)))
    try:
        yield inside, written
    finally:
        for hook in hooks:
            hook.remove()

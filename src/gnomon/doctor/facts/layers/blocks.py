"""The layers of a model, found by what they do, with the graph between them.

A block is a module that holds attention, maps `[B, T, D]` to the same shape, and is one of several
of its kind (or the only one). Its *stream* is what a residual connection would carry: the block's
input, the inputs and outputs of its norms, its output.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from gnomon.doctor.facts.layers.linear_path import linear_share
from gnomon.doctor.finding import Skip
from gnomon.doctor.restore import untouched

if TYPE_CHECKING:
    from gnomon.doctor.case import Case
    from gnomon.probe import ModuleCall


@dataclass
class Block:
    """One call of a block.

    Attributes:
        stack: what its siblings have in common: the name of their parent.
        coefficients: for each place of the stream (a norm's name within the block with ".in", or
            "out") how much of an earlier place it holds: about 1 behind a residual connection.
        through: the same from the block's input to its output.
        ends_with_norm: whether its output is a norm's (post-norm).
    """

    name: str
    stack: str
    through: float = 1.0
    ends_with_norm: bool = False
    coefficients: dict[str, float] = field(default_factory=dict)


def block_names(case: Case) -> list[str]:
    """Dotted names of the blocks, in the order of their calls.

    Raises:
        Skip: none was found.
    """
    record = case.record
    modules = dict(case.module.named_modules())
    found: dict[str, None] = {}
    for call in record.attention:
        ancestors = _ancestors(call.module)
        candidates = [name for name in ancestors if _keeps_shape(record.modules.get(name, []))]
        listed = [name for name in candidates if _is_listed(name, modules)] or [
            name for name in candidates if _has_siblings(name, modules)
        ]
        chosen = listed or [
            n for n in candidates if modules[n].__class__ is not nn.MultiheadAttention
        ]
        # The outermost member of a list; where there is no list, the innermost that has a norm.
        if listed:
            found.setdefault(chosen[0])
        elif chosen:
            with_norm = [n for n in chosen if any(_within(each.module, n) for each in record.norms)]
            if with_norm:
                found.setdefault(with_norm[-1])
    if not found:
        raise Skip("no layer was found that maps [B, T, D] to the same shape and holds attention")
    order = {name: calls[0].order for name, calls in record.modules.items() if calls}
    return sorted(found, key=lambda name: order.get(name, 0))


def stack_of(name: str) -> str:
    """The name of what holds a block and its siblings."""
    return name.rpartition(".")[0]


def blocks(case: Case) -> list[Block]:
    """Every block, with what its stream carries, on `small`.

    Raises:
        Skip: none was found, or gradients cannot be taken through them.
    """
    names = block_names(case)
    norms = _norm_modules(case, names)
    with untouched(case.module), torch.enable_grad():
        case.module.eval()
        with _watched(case.module, names, norms) as seen:
            try:
                case.module(*case.small.args, **case.small.kwargs)
                if not any(
                    each.left.requires_grad for each in seen.values() if each.left is not None
                ):
                    raise Skip("no gradient goes through the blocks: they run without a graph")
                return [_judged(name, seen[name]) for name in names if seen[name].complete]
            except RuntimeError as error:
                raise Skip(f"gradients cannot be taken through the blocks: {error}") from None


def _ancestors(name: str) -> list[str]:
    """From the root inwards."""
    parts = name.split(".") if name else []
    return [".".join(parts[:k]) for k in range(len(parts) + 1)]


def _within(name: str, outer: str) -> bool:
    return name == outer or not outer or name.startswith(f"{outer}.")


def _keeps_shape(calls: list[ModuleCall]) -> bool:
    if not calls or not calls[0].inputs or not calls[0].outputs:
        return False
    shape = calls[0].inputs[0].shape
    return len(shape) == 3 and calls[0].outputs[0].shape == shape


def _is_listed(name: str, modules: dict[str, nn.Module]) -> bool:
    return bool(name) and isinstance(modules[stack_of(name)], nn.ModuleList | nn.Sequential)


def _has_siblings(name: str, modules: dict[str, nn.Module]) -> bool:
    siblings = modules[stack_of(name)].children() if name else ()
    return sum(each.__class__ is modules[name].__class__ for each in siblings) > 1


def _norm_modules(case: Case, names: list[str]) -> dict[str, str]:
    """The norm modules on the stream of each block: their name → the block's."""
    record = case.record
    found = {}
    for norm in record.norms:
        for block in names:
            calls = record.modules.get(block, [])
            inside = _within(norm.module, block) and norm.module != block
            if inside and calls and tuple(norm.input.shape) == calls[0].inputs[0].shape:
                found[norm.module] = block
    return found


@dataclass
class _Seen:
    """The live tensors of one block."""

    entered: Tensor | None = None
    left: Tensor | None = None
    norms: dict[str, tuple[Tensor, Tensor]] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        return self.entered is not None and self.left is not None


@contextmanager
def _watched(
    module: nn.Module, names: list[str], norms: dict[str, str]
) -> Iterator[dict[str, _Seen]]:
    seen = {name: _Seen() for name in names}
    handles = []

    def enter(name: str) -> Any:
        def hook(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if seen[name].entered is not None:
                return None  # a layer that is called again (shared): its first call stands for it
            place, value = _first_float(args, kwargs)
            if value is None:
                return None
            if value.requires_grad:
                seen[name].entered = value
                return None
            live = value.detach().requires_grad_()
            seen[name].entered = live
            if isinstance(place, int):
                return (*args[:place], live, *args[place + 1 :]), kwargs
            return args, {**kwargs, place: live}

        return hook

    def leave(name: str) -> Any:
        def hook(_: nn.Module, __: Any, output: Any) -> None:
            value = output if isinstance(output, Tensor) else next(iter(_floats(output)), None)
            if seen[name].left is None and value is not None:
                seen[name].left = value

        return hook

    def norm(name: str) -> Any:
        def hook(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
            _, value = _first_float(args, kwargs)
            kept = seen[norms[name]].norms
            if value is not None and isinstance(output, Tensor) and name not in kept:
                kept[name] = (value, output)

        return hook

    try:
        for name in names:
            each = module.get_submodule(name)
            handles.append(each.register_forward_pre_hook(enter(name), with_kwargs=True))
            handles.append(each.register_forward_hook(leave(name)))
        for name in norms:
            each = module.get_submodule(name)
            handles.append(each.register_forward_hook(norm(name), with_kwargs=True))
        yield seen
    finally:
        for handle in handles:
            handle.remove()


def _first_float(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Tensor | None]:
    for place, value in (*enumerate(args), *kwargs.items()):
        if isinstance(value, Tensor) and value.is_floating_point():
            return place, value
    return None, None


def _floats(output: Any) -> list[Tensor]:
    values = output.values() if isinstance(output, dict) else output
    found = values if isinstance(values, tuple | list) else []
    return [each for each in found if isinstance(each, Tensor) and each.is_floating_point()]


def _judged(name: str, seen: _Seen) -> Block:
    assert seen.entered is not None and seen.left is not None
    block = Block(name, stack_of(name))
    anchors = [seen.entered, *(t for pair in seen.norms.values() for t in pair)]
    out = seen.left
    block.through = held(out, [seen.entered])[0]
    block.ends_with_norm = any(_same(out, after) for _, after in seen.norms.values())
    for norm, (before, _) in seen.norms.items():
        if not _same(before, seen.entered):
            own = norm.removeprefix(f"{name}.")
            block.coefficients[f"{own}.in"] = _most(before, anchors)
    if not block.ends_with_norm:
        block.coefficients["out"] = _most(out, anchors)
    return block


def _same(a: Tensor, b: Tensor) -> bool:
    return a is b or (a.shape == b.shape and a.data_ptr() == b.data_ptr())


def _most(target: Tensor, anchors: list[Tensor]) -> float:
    others = [each for each in anchors if not _same(each, target) and each.requires_grad]
    # Exactly, where the graph is one of sums; else by how the target moves.
    values = [share for each in others if (share := linear_share(target, each))]
    values = values or held(target, others)
    return min(values, key=lambda value: abs(value - 1)) if values else 0.0


def held(target: Tensor, anchors: list[Tensor], probes: int = 2) -> list[float]:
    """How much of each anchor the target holds: the mean of the Jacobian's diagonal.

    Hutchinson's estimate vᵀJv / vᵀv with random signs v: exactly a for a · x + F(x) but for the
    trace of F's own Jacobian.
    """
    sums = [0.0] * len(anchors)
    generator = torch.Generator().manual_seed(0)
    if not target.requires_grad or not anchors:
        return sums
    for _ in range(probes):
        signs = torch.randint(0, 2, target.shape, generator=generator) * 2 - 1
        v = signs.to(target)
        found = torch.autograd.grad(target, anchors, v, retain_graph=True, allow_unused=True)
        for place, gradient in enumerate(found):
            if gradient is not None and gradient.shape == v.shape:
                sums[place] += float((gradient * v).mean()) / probes
    return sums

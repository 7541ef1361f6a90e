"""What a model does, in every way that a fault could show: the tensors to compare with its twin's.

Everything is computed under fixed seeds, so that two runs of one healthy model are bitwise equal
and whatever differs is the fault's doing.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping

import torch
from benchmarks.deform.subjects import Subject, cached_logits
from benchmarks.patients.text import Text
from benchmarks.patients.training import fields_of, greedy, loss_of, seeded
from torch import Tensor, nn

NUM_NEW_TOKENS = 12

Behaviour = Mapping[str, "list[Tensor | None] | Exception"]


def behaviour(subject: Subject, module: nn.Module, text: Text) -> Behaviour:
    """Each view of the module as tensors, or the exception it raised. Weights are kept."""
    batch = subject.batch(text)
    measure: dict[str, Callable[[], list[Tensor | None]]] = {
        "forward, eval": lambda: [_logits(module.eval(), batch)],
        "forward, train": lambda: [_logits(module.train(), batch)],
        "loss": lambda: [loss_of(module.train(), batch).detach()],
        "gradients": lambda: _gradients(module, batch),
        "update": lambda: _update(subject, module, text),
    }
    if subject.scope == "decoder":
        measure["generation"] = lambda: _generation(subject, module, text)
        measure["cached loop"] = lambda: _cached_loop(subject, module, text)
    seen: dict[str, list[Tensor | None] | Exception] = {}
    for view, run in measure.items():
        try:
            with seeded(3):
                seen[view] = run()
        except Exception as error:  # a fault may break anything; that it did is what is recorded
            seen[view] = error
        finally:
            module.eval()
            module.zero_grad(set_to_none=True)
    return seen


def _logits(module: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    with torch.no_grad():
        logits: Tensor = module(**batch).logits
    return logits


def _gradients(module: nn.Module, batch: dict[str, Tensor]) -> list[Tensor | None]:
    module.train()
    module.zero_grad(set_to_none=True)
    loss_of(module, batch).backward()  # type: ignore[no-untyped-call]
    return [None if p.grad is None else p.grad.clone() for p in module.parameters()]


def _update(subject: Subject, module: nn.Module, text: Text) -> list[Tensor | None]:
    """Change of the weights by two optimizer steps, each over two micro-batches."""
    kept = copy.deepcopy(module.state_dict())
    before = [p.detach().clone() for p in module.parameters()]
    try:
        step = fields_of(module.train(), subject.task, text)["step"]
        for seed in (10, 20):
            step([subject.batch(text, seed), subject.batch(text, seed + 1)])
        return [p.detach() - b for p, b in zip(module.parameters(), before, strict=True)]
    finally:
        module.load_state_dict(kept)


def _requests(subject: Subject, text: Text) -> Iterator[dict[str, Tensor]]:
    for seed in (1, 2):  # one after the other: what is kept of the first may reach the second
        yield subject.batch(text, seed)


def _generation(subject: Subject, module: nn.Module, text: Text) -> list[Tensor | None]:
    """Greedy tokens of two requests by `generate`."""
    generate = greedy("causal")
    return [generate(module, batch, NUM_NEW_TOKENS) for batch in _requests(subject, text)]


def _cached_loop(subject: Subject, module: nn.Module, text: Text) -> list[Tensor | None]:
    """Logits of two requests by the loop that the subject decodes with."""
    return [
        logits
        for batch in _requests(subject, text)
        for logits in cached_logits(module, batch, NUM_NEW_TOKENS)
    ]


ROUNDING = 1e-6  # below this a change is counted as none


def acts(found: Mapping[str, float | str]) -> bool:
    """Whether `difference` found one."""
    return any(isinstance(d, str) or d > ROUNDING for d in found.values())


def difference(clean: Behaviour, faulty: Behaviour) -> dict[str, float | str]:
    """Per view, the largest difference relative to the clean twin's largest value, or the error.

    inf where a tensor is missing on one side, has another shape, or stopped being finite.
    """
    found: dict[str, float | str] = {}
    for view, ours in clean.items():
        theirs = faulty[view]
        if isinstance(ours, Exception):
            raise AssertionError(f"the healthy model failed: {view}") from ours
        if isinstance(theirs, Exception):
            found[view] = f"{type(theirs).__name__}: {str(theirs).splitlines()[0][:80]}"
        else:
            pairs = list(zip(ours, theirs, strict=True))
            scale = max(float(a.double().abs().max()) for a in ours if a is not None)
            found[view] = max(_absolute(a, b) for a, b in pairs) / scale
    return found


def _absolute(ours: Tensor | None, theirs: Tensor | None) -> float:
    if ours is None and theirs is None:
        return 0.0
    if ours is None or theirs is None or ours.shape != theirs.shape:
        return float("inf")
    if not theirs.isfinite().all():
        return float("inf")
    return float((ours.double() - theirs.double()).abs().max())

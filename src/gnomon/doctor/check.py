"""What a check is, and how the house finds all of them."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from gnomon.doctor.finding import Outcome

if TYPE_CHECKING:
    from gnomon.doctor.case import Case

# What it takes: nothing run; a few forward and backward passes; optimizer steps, rolled back; a
# training or a corpus read through.
Cost = Literal["static", "probe", "step", "run"]
COSTS: tuple[Cost, ...] = ("static", "probe", "step", "run")
# In the order in which a reader should see them: what explains the rest comes first.
GROUPS = {
    "corpus": "the text before any model: pairs, splits, vocabulary",
    "files": "what was saved is what is loaded: ties, prefixes, tokenizer and vocabulary",
    "weights": "the parameters as they lie there: empty, rescaled, exchanged, never trained",
    "masks": "who may see whom: the future, padding, other documents, other rows",
    "scores": "from queries and keys to attention weights: scale, softmax, heads",
    "positions": "what enters the first layer: embeddings, positions, their ranges",
    "blocks": "norms, residuals and feed-forward networks, noise, gradient by depth",
    "loss": "labels, shift, smoothing, accumulation; whether a batch can be learned",
    "optimizer": "which parameters move and how: decay, eps, schedule, clipping",
    "precision": "what breaks in fp16 or bf16",
    "decoding": "generation with a cache beside a full pass; beams, rows, endings",
    "training": "a recipe's rules, and what monitors saw of a run",
    "conformance": "a known architecture computes what its own stock code does",
}
SYMPTOMS = {
    "nan": "the loss or the output becomes NaN or infinite",
    "stuck": "the loss does not fall, or hangs high from the start",
    "too-good": "the loss is suspiciously low, the output useless",
    "gibberish": "the output is wrong, repeated or the same for every input",
    "long-input": "quality falls off past some length",
    "padding": "results depend on batch size, neighbours or padding",
    "slow": "training or inference is slower than it should be",
    "deployed": "the saved, loaded, converted or cached model differs",
}


@dataclass(frozen=True)
class Check:
    """One idea of what can be wrong, and how it is seen.

    Attributes:
        code: its name: lower case, words joined by hyphens.
        title, fault: what holds where it passes, and what is so where it fails or warns.
        protects: what goes wrong unnoticed where it fails (the function's docstring).
        cause, mend: the usual ones; an outcome can tell this case's.
        reference: paper section, thread or page where it is explained.
        symptoms: keys of `SYMPTOMS` that it explains.
        example: source that defines `patient()` with the fault, as small as can be.
        mended: the same without it.
    """

    code: str
    title: str
    fault: str
    group: str
    cost: Cost
    protects: str
    cause: str
    mend: str
    reference: str
    symptoms: tuple[str, ...]
    example: str
    mended: str
    examine: Callable[[Case], Outcome]


_CHECKS: dict[str, Check] = {}


def check(
    *,
    code: str,
    title: str,
    fault: str,
    cost: Cost,
    cause: str,
    mend: str,
    reference: str,
    symptoms: tuple[str, ...] = (),
    example: str = "",
    mended: str = "",
) -> Callable[[Callable[[Case], Outcome]], Callable[[Case], Outcome]]:
    """Make a check of a function that examines a case; its docstring says what it protects.

    The group is the folder that the file lies in (`doctor/checks/GROUP/`).
    """

    def register(examine: Callable[[Case], Outcome]) -> Callable[[Case], Outcome]:
        group = examine.__module__.split(".")[-2]
        assert code not in _CHECKS, f"two checks are called {code}"
        assert set(symptoms) <= set(SYMPTOMS), symptoms
        _CHECKS[code] = Check(
            code=code,
            title=title,
            fault=fault,
            group=group if group in GROUPS else "",
            cost=cost,
            protects=inspect.cleandoc(examine.__doc__ or ""),
            cause=cause,
            mend=mend,
            reference=reference,
            symptoms=symptoms,
            example=inspect.cleandoc(example),
            mended=inspect.cleandoc(mended),
            examine=examine,
        )
        return examine

    return register


def all_checks() -> dict[str, Check]:
    """Every check under `doctor/checks/` by its code, in the order of the report."""
    from gnomon.doctor import checks

    for module in pkgutil.walk_packages(checks.__path__, f"{checks.__name__}."):
        importlib.import_module(module.name)
    order = {group: number for number, group in enumerate(("", *GROUPS))}
    costs = {cost: number for number, cost in enumerate(COSTS)}
    known = sorted(_CHECKS.values(), key=lambda c: (order[c.group], costs[c.cost], c.code))
    return {each.code: each for each in known}

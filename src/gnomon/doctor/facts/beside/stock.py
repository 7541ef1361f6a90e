"""The stock model of the patient's own configuration: what its class says it should compute."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

from gnomon.doctor.call import Call
from gnomon.doctor.case import Case
from gnomon.doctor.finding import NotApplicable, Skip
from gnomon.doctor.remembering import remembered
from gnomon.doctor.run import Run, run

LARGEST = 300_000_000  # parameters; beyond it the second model costs too much memory


def stock(case: Case) -> nn.Module:
    """The same class built anew from the same configuration, with fresh weights, in eval mode.

    It is kept as long as somebody holds it: it takes the memory of a second model.

    Raises:
        Skip: the class is the user's own, or the model is too large to be built twice.
    """
    held = case.facts.get("stock model")
    module = held() if isinstance(held, weakref.ref) else None
    if module is None:
        module = build_stock(case)
        case.facts["stock model"] = weakref.ref(module)
    return module


def build_stock(case: Case) -> nn.Module:
    """As `stock`, another one each time."""
    if case.kind == "torch":
        raise NotApplicable("its class is no stock one")
    if sum(p.numel() for p in case.module.parameters()) > LARGEST:
        raise Skip("the model is too large to be built a second time")
    if case.kind == "gnomon" and hasattr(case.module, "stock"):
        return _ready(case, case.module.stock)  # type: ignore[arg-type]
    package = "gnomon" if case.kind == "gnomon" else "transformers"
    for base in type(case.module).__mro__:
        if base.__module__.split(".")[0] == package:
            return _ready(case, partial(base, copy.deepcopy(case.config)))
    raise NotApplicable("its class is no stock one")


def _ready(case: Case, build: Callable[[], Any]) -> nn.Module:
    first = next(case.module.parameters(), None)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        try:
            module: nn.Module = build()
        except Exception as error:
            name = type(case.module).__name__
            raise Skip(f"{name} cannot be built from its configuration: {error}") from None
    return module.to(first.device if first is not None else "cpu").eval()


def on_stock(case: Case, call: Call) -> Run:
    """The stock model on a call, observed; positions are its own.

    Raises:
        Skip: there is none, or it does not run.
    """
    module = stock(case)
    try:
        with torch.no_grad():
            plain = call.without_any("positions")  # a model then counts as its class does
            seen = run(module, plain, record=True, keep_outputs=True)
    except Exception as error:
        raise Skip(f"the stock model does not run on this batch: {error}") from None
    seen.record.projections.clear()  # they hold its weights
    return seen


@remembered
def stock_run(case: Case) -> Run:
    """The stock model on `case.small`; see `on_stock`."""
    return on_stock(case, case.small)

"""Each checker behind one question: which alarms does it raise on this patient?

A tool gets what it can use of the patient, by its own documentation and with its own defaults. An
alarm is a word; a fault is detected where a tool raises one that it does not raise on the twin.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from benchmarks.doctor_peers.pairs import Pair
from benchmarks.patients.examination import examine
from torch import Tensor, nn

from gnomon.doctor.patient import Patient


class NotFor(Exception):
    """The tool has nothing to say of such a patient; the text says why."""


@dataclass(frozen=True)
class Tool:
    name: str
    alarms: Callable[[Patient, Pair], set[str]]


def gnomon(patient: Patient, pair: Pair) -> set[str]:
    fields = {k: getattr(patient, k) for k in Patient.__dataclass_fields__}
    module, batch = fields.pop("module"), fields.pop("batch")
    seen = examine(module, batch, **fields)
    if seen.error:
        raise RuntimeError(seen.error)
    return {f"{f.code} {f.verdict}" for f in seen.of("fail", "warn")}


def torchtest2(patient: Patient, pair: Pair) -> set[str]:
    """All checks, on the batch, with the user's loss and optimizer."""
    from torchtest2 import check_model

    module, batch = _with_batch(patient)
    common: dict[str, Any] = {"optimizer": patient.optimizer}
    if "labels" in batch:
        inputs = {k: v for k, v in batch.items() if k != "labels"}
        report = check_model(module, inputs, batch["labels"], plugin="huggingface", **common)
    elif patient.loss is not None:
        loss = patient.loss
        report = check_model(
            module,
            dict(batch),
            forward_fn=lambda m, inputs, targets: loss(m, inputs),
            loss_fn=lambda value: value,
            eval_forward_fn=lambda m, inputs: m(**inputs),
            **common,
        )
    else:
        report = check_model(module, dict(batch), **common)
    return {f"{r.name} {r.status.value}" for r in report.results if r.status.value in _ALARMING}


_ALARMING = ("FAIL", "WARN", "fail", "warn")


def causal_certificate(patient: Patient, pair: Pair) -> set[str]:
    """Its one property, at the output of the token table: it wants float inputs."""
    from causal_certificate import certify

    if not pair.decoder:
        raise NotFor("no decoder")
    module, batch = _with_batch(patient)
    table = next((m for m in module.modules() if isinstance(m, nn.Embedding)), None)
    if table is None:
        raise NotFor("no nn.Embedding to start from")
    found: list[Tensor] = []
    handle = table.register_forward_hook(lambda m, i, out: found.append(out.detach()))
    module.eval()
    try:
        with torch.no_grad():
            module(**batch)
    finally:
        handle.remove()
    if not found or found[0].dim() != 3:
        raise NotFor("the table does not give [B, T, D]")

    def from_embeddings(x: Tensor) -> Tensor:
        calls = 0

        def replaced(m: nn.Module, inputs: Any, out: Tensor) -> Tensor:
            nonlocal calls
            calls += 1
            return x if calls == 1 else out

        hook = table.register_forward_hook(replaced)
        try:
            return _logits(module(**batch))
        finally:
            hook.remove()

    report = certify(from_embeddings, found[0])
    alarms = set()
    if not report.is_strictly_causal:
        alarms.add("temporal leak")
    if not report.is_batch_independent:
        alarms.add("cross-batch leak")
    return alarms


def underflow_overflow(patient: Patient, pair: Pair) -> set[str]:
    """transformers' `DebugUnderflowOverflow` around one training step."""
    from transformers.debug_utils import DebugUnderflowOverflow

    module, _ = _with_batch(patient)
    with contextlib.redirect_stdout(io.StringIO()):
        DebugUnderflowOverflow(module)
        try:
            _backward(patient, module)
        except ValueError as error:
            if "inf/nan" in str(error):
                return {"inf or nan"}
            raise
    return set()


def detect_anomaly(patient: Patient, pair: Pair) -> set[str]:
    """`torch.autograd.set_detect_anomaly` around one training step."""
    module, _ = _with_batch(patient)
    with torch.autograd.set_detect_anomaly(True):
        try:
            _backward(patient, module)
        except RuntimeError as error:
            if "nan" in str(error):
                return {"nan in backward"}
            raise
    return set()


def default_plus_plus(patient: Patient, pair: Pair) -> set[str]:
    """The shipped predictor, on the features of a short fine-tuning run with the fault in."""
    from benchmarks.doctor_peers.default_plus_plus import diagnosis

    module, batch = _with_batch(patient)
    if "labels" not in batch or patient.optimizer is None:
        raise NotFor("wants a Hugging Face model with labels")
    return diagnosis(module, dict(batch), patient.optimizer, pair.decoder)


def _with_batch(patient: Patient) -> tuple[nn.Module, Mapping[str, Any]]:
    if patient.module is None or not isinstance(patient.batch, Mapping):
        raise NotFor("no module with a batch of keyword inputs")
    return patient.module, patient.batch


def _backward(patient: Patient, module: nn.Module) -> None:
    if patient.loss is None:
        raise NotFor("no loss")
    module.train()
    patient.loss(module, patient.batch).backward()  # type: ignore[no-untyped-call]


def _logits(output: Any) -> Tensor:
    found = getattr(output, "logits", output)
    while isinstance(found, tuple | list):
        found = found[0]
    if not isinstance(found, Tensor):
        raise NotFor("no tensor comes out first")
    return found


TOOLS = (
    Tool("gnomon", gnomon),
    Tool("torchtest2", torchtest2),
    Tool("causal-certificate", causal_certificate),
    Tool("DEFault++", default_plus_plus),
    Tool("DebugUnderflowOverflow", underflow_overflow),
    Tool("set_detect_anomaly", detect_anomaly),
)


def asked(tool: Tool, patient: Patient, pair: Pair) -> set[str]:
    """Its alarms; an exception of the faulty model is an alarm: the tool stopped at the fault."""
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return tool.alarms(patient, pair)
        except (NotFor, ImportError):
            raise
        except Exception as error:
            return {f"raised {type(error).__name__}"}

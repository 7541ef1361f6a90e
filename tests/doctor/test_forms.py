"""Compiled, scripted, exported and quantised modules: judged as far as can be, never falsely."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import gnomon

_CODES = [
    "batch-leak", "future-leak", "padding-leak", "score-scale", "overfit-batch", "noise-in-eval",
    "parameter-frozen", "gradient-depth", "positions-missing", "decay-on-norms", "non-finite",
]  # fmt: skip


class Decoder(nn.Module):
    """A small causal model, sound."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.places = nn.Embedding(40, 32), nn.Embedding(16, 32)
        self.norm, self.out = nn.LayerNorm(32), nn.Linear(32, 32)
        self.qkv, self.head = nn.Linear(32, 96), nn.Linear(32, 40)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.table(ids) + self.places(torch.arange(ids.size(1), device=ids.device))
        q, k, v = self.qkv(self.norm(x)).reshape(ids.size(0), ids.size(1), 6, 16).chunk(3, 2)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(x.shape))
        logits: Tensor = self.head(x)
        return logits


def loss(module: nn.Module, batch: Any) -> Tensor:
    logits = module(batch["ids"])
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), batch["ids"][:, 1:].flatten())


@pytest.fixture
def model() -> nn.Module:
    torch.manual_seed(0)
    return Decoder().eval()


@pytest.fixture
def batch() -> dict[str, Tensor]:
    return {"ids": torch.arange(1, 37).view(3, 12)}


@pytest.fixture(autouse=True)
def nothing_is_kept() -> Iterator[None]:
    yield
    torch._dynamo.reset()


def examined(module: nn.Module, batch: Any, **fields: Any) -> gnomon.Report:
    return gnomon.diagnose(module, batch, only=_CODES, loss=loss, **fields)


def verdicts(report: gnomon.Report) -> dict[str, str]:
    return {each.code: each.verdict for each in report}


def test_a_compiled_module_is_examined_as_it_is_written(model: nn.Module, batch: Any) -> None:
    plain = examined(model, batch)
    counted: list[int] = []

    def backend(graph: Any, example: Any) -> Any:
        counted.append(1)
        return graph.forward

    compiled = torch.compile(model, backend=backend)
    report = examined(compiled, batch)  # type: ignore[arg-type]
    assert verdicts(report) == verdicts(plain)
    assert [each.where for each in report] == [each.where for each in plain]
    assert not counted, "nothing is compiled for an examination"
    assert report.target == "Decoder" and "torch.compile" in str(report)
    compiled(**batch)
    assert counted, "and afterwards it is compiled as before"


def test_compiled_parts_are_seen_through(model: nn.Module, batch: Any) -> None:
    plain = examined(model, batch)
    counted: list[int] = []

    def backend(graph: Any, example: Any) -> Any:
        counted.append(1)
        return graph.forward

    model.head.compile(backend=backend)
    model(**batch)
    before = len(counted)
    report = examined(model, batch)
    assert verdicts(report) == verdicts(plain)
    assert len(counted) == before and "compiled parts" in report.facts["form"]


def test_what_cannot_be_seen_is_skipped_with_the_reason(model: nn.Module, batch: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced: Any = torch.jit.trace(model, batch["ids"])
    report = examined(traced, batch)
    assert not report.of("fail", "warn")
    assert not any("could not be made" in each.evidence for each in report)
    assert report["batch-leak"].verdict == report["noise-in-eval"].verdict == "pass"
    assert "TorchScript" in report["score-scale"].evidence


def test_int8_layers_are_no_leak_and_nothing_frozen(model: nn.Module, batch: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        int8 = torch.ao.quantization.quantize_dynamic(
            copy.deepcopy(model), {nn.Linear}, dtype=torch.qint8
        )
    first = int8(batch["ids"])[0]
    others = {"ids": torch.cat([batch["ids"][:1], batch["ids"][1:].flip(1)])}
    assert not torch.allclose(first, int8(others["ids"])[0], atol=1e-4), "the rows do touch"
    report = examined(int8, batch)
    assert not report.of("fail"), str(report)
    assert report["score-scale"].verdict == "pass", "what rounding does not hide is judged"
    assert "whole batch" in report["batch-leak"].evidence
    assert report["overfit-batch"].verdict == report["parameter-frozen"].verdict == "n/a"
    assert "int8" in report.facts["form"]


class Leaky(Decoder):
    """The same with a mask forgotten."""

    def forward(self, ids: Tensor) -> Tensor:
        return super().forward(ids) + super().forward(ids).mean(1, keepdim=True)


def test_a_fault_in_a_compiled_module_is_found(batch: Any) -> None:
    torch.manual_seed(0)
    compiled = torch.compile(Leaky().eval(), backend="eager")
    report = gnomon.diagnose(compiled, batch, only=["future-leak"], causal=True)  # type: ignore[arg-type]
    assert report["future-leak"].verdict == "fail"

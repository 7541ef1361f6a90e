"""Loops that call a model's parts: no module writes the logits, and what is kept may be stale."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gnomon.doctor import Finding, diagnose
from gnomon.doctor.case import Case
from gnomon.doctor.facts.decoding.generation import first
from gnomon.doctor.patient import Patient

D, V = 16, 50
Project = Callable[[Tensor, Tensor], Tensor]
PROJECTIONS: dict[str, Project] = {
    "linear": lambda x, table: F.linear(x, table),
    "scaled": lambda x, table: x @ table.T * D**-0.5,
    "log-probabilities": lambda x, table: torch.einsum("btd,vd->btv", x, table).log_softmax(-1),
}


class Translator(nn.Module):
    """An encoder and a decoder of one attention each, and the table as the output projection."""

    def __init__(self, project: Project) -> None:
        super().__init__()
        self.table = nn.Embedding(V, D)
        self.own, self.over = (nn.MultiheadAttention(D, 2, batch_first=True) for _ in range(2))
        self.project = project

    def encode(self, source: Tensor) -> Tensor:
        x = self.table(source)
        return x + 3 * self.over(x, x, x, need_weights=False)[0]

    def decode(self, target: Tensor, memory: Tensor) -> Tensor:
        x, T = self.table(target), target.size(1)
        ahead = torch.ones(T, T, dtype=torch.bool).triu(1)
        x = x + 3 * self.own(x, x, x, attn_mask=ahead, need_weights=False)[0]
        x = x + 3 * self.over(x, memory, memory, need_weights=False)[0]
        return self.project(x, self.table.weight)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        return self.decode(target, self.encode(source))


class Loop:
    """Greedy; `key` tells under what the encoder's output is kept, if anything."""

    def __init__(self, key: Callable[[Tensor], Any] | None = None) -> None:
        self.key, self.kept = key, dict[Any, Tensor]()

    def memory(self, module: Translator, source: Tensor) -> Tensor:
        if self.key is None:
            return module.encode(source)
        key = self.key(source)
        if key not in self.kept:
            self.kept[key] = module.encode(source)
        return self.kept[key]

    def __call__(self, module: Translator, batch: Any, num_tokens: int) -> Tensor:
        memory, target = self.memory(module, batch["source"]), batch["target"][:, :1]
        for _ in range(num_tokens):
            token = module.decode(target, memory)[:, -1].argmax(-1, keepdim=True)
            target = torch.cat((target, token), 1)
        return target[:, 1:]


def beam_search(tile: Callable[[Tensor, int], Tensor]) -> Callable[..., Tensor]:
    def search(module: Translator, batch: Any, num_tokens: int, k: int) -> Tensor:
        B = len(batch["source"])
        memory = tile(module.encode(batch["source"]), k)
        target = batch["target"][:, :1].repeat_interleave(k, 0)
        scores = torch.tensor([[0.0] + [-1e9] * (k - 1)] * B)
        for _ in range(num_tokens):
            gain = module.decode(target, memory)[:, -1].log_softmax(-1).view(B, k, V)
            scores, best = (scores[..., None] + gain).flatten(1).topk(k)
            parents = (best // V + torch.arange(B)[:, None] * k).flatten()
            target = torch.cat((target[parents], (best % V).view(-1, 1)), 1)
        return target.view(B, k, -1)[:, 0, 1:]

    return search


def patient(project: str = "linear", **fields: Any) -> dict[str, Any]:
    torch.manual_seed(0)
    module = Translator(PROJECTIONS[project])
    batch = {"source": torch.randint(2, V, (3, 9)), "target": torch.randint(2, V, (3, 8))}
    batch["target"][:, 0] = 1
    return {"module": module, "batch": batch, "family": "encoder_decoder", **fields}


def examined(code: str, **fields: Any) -> Finding:
    (found,) = diagnose(only=[code], **fields).findings
    return found


@pytest.mark.parametrize("project", PROJECTIONS)
def test_logits_are_seen_where_no_module_writes_them(project: str) -> None:
    made = first(Case(Patient(**patient(project, generate=Loop()))))
    assert len(made.steps) == made.tokens.size(1)
    assert torch.equal(made.steps[0][:, -1].argmax(-1), made.tokens[:, 0])


@pytest.mark.parametrize(
    "key",
    [
        pytest.param(lambda source: source.shape, id="shape"),
        pytest.param(lambda source: None, id="never again"),
        pytest.param(lambda source: int(source.numel()), id="number of tokens"),
    ],
)
@pytest.mark.parametrize("project", PROJECTIONS)
def test_what_was_encoded_for_another_request_is_a_leak(project: str, key: Any) -> None:
    found = examined("cache-leak", **patient(project, generate=Loop(key)))
    assert found.verdict == "fail"
    assert "second request" in found.evidence


@pytest.mark.parametrize("key", [None, lambda source: tuple(source.flatten().tolist())])
def test_nothing_kept_or_kept_under_the_whole_text_is_none(key: Any) -> None:
    assert examined("cache-leak", **patient(generate=Loop(key))).verdict == "pass"


@pytest.mark.parametrize("project", PROJECTIONS)
def test_sources_tiled_for_beams_are_found(project: str) -> None:
    apart = beam_search(lambda memory, k: memory.repeat_interleave(k, 0))
    assert examined("beam-reorder", **patient(project, beam_generate=apart)).verdict == "pass"
    tiled = beam_search(lambda memory, k: memory.repeat(k, 1, 1))
    assert examined("beam-reorder", **patient(project, beam_generate=tiled)).verdict == "fail"

"""Heads are followed to what reads them, whatever the projection and the loop are written with."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gnomon.doctor import Finding, diagnose
from gnomon.doctor.case import Case
from gnomon.doctor.facts.attention.joined import joined
from gnomon.doctor.patient import Patient

D, H, K, V = 32, 4, 8, 50


class Functional(nn.Module):
    """All of it functions of bare parameters; `merge` tells how heads are put together."""

    def __init__(self, out: str = "linear", merge: str = "transpose") -> None:
        super().__init__()
        self.out, self.merge = out, merge
        self.table = nn.Parameter(torch.randn(V, D))
        self.w = nn.ParameterDict({n: nn.Parameter(torch.randn(D, D) * 0.2) for n in "qkvo"})

    def forward(self, ids: Tensor) -> Tensor:
        x = F.embedding(ids, self.table)
        q, k, v = (F.linear(x, self.w[n]).unflatten(-1, (H, K)).transpose(1, 2) for n in "qkv")
        heads = (q @ k.mT * K**-0.5).softmax(-1) @ v  # [B, H, T, K]
        if self.out == "einsum":
            return x + torch.einsum("bhtk,dhk->btd", heads, self.w["o"].view(D, H, K))
        flat = heads.transpose(1, 2).flatten(2) if self.merge == "transpose" else heads
        flat = flat.reshape(x.shape)
        return x + (F.linear(flat, self.w["o"]) if self.out == "linear" else flat @ self.w["o"].T)


class OneByOne(nn.Module):
    """A turn of a loop, or a module, for each head; the outputs are concatenated."""

    class Head(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q, self.k, self.v = (nn.Linear(D, K, bias=False) for _ in range(3))

        def forward(self, x: Tensor) -> Tensor:
            return F.scaled_dot_product_attention(self.q(x), self.k(x), self.v(x))

    def __init__(self, modules: bool) -> None:
        super().__init__()
        self.embed = nn.Embedding(V, D)
        self.heads = nn.ModuleList(self.Head() for _ in range(H)) if modules else None
        self.qkv = nn.Linear(D, 3 * D, bias=False)
        self.out = nn.Linear(D, D, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        if self.heads is not None:
            return x + self.out(torch.cat([head(x) for head in self.heads], dim=-1))
        found = []
        for head in range(H):
            q, k, v = (part[..., head * K : head * K + K] for part in self.qkv(x).chunk(3, -1))
            found.append((q @ k.mT * K**-0.5).softmax(-1) @ v)
        return x + self.out(torch.cat(found, dim=-1))


def examined(module: nn.Module, code: str) -> Finding:
    torch.manual_seed(1)
    batch = {"ids": torch.randint(1, V, (2, 9))}
    (found,) = diagnose(module, batch, only=[code]).findings
    return found


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("out", ["linear", "einsum", "matmul"])
def test_a_head_that_a_bare_projection_does_not_read_is_dead(out: str) -> None:
    module = Functional(out)
    assert examined(module, "dead-heads").verdict == "pass"
    with torch.no_grad():
        module.w["o"][:, K : 2 * K] = 0.0
    found = examined(module, "dead-heads")
    assert found.verdict == "fail"
    assert found.where == ("head 1 of the module",)


@pytest.mark.parametrize("out", ["linear", "matmul"])
def test_heads_viewed_as_rows_before_a_bare_projection_are_mixed_up(out: str) -> None:
    assert examined(Functional(out), "head-split").verdict == "pass"
    found = examined(Functional(out, merge="view"), "head-split")
    assert found.verdict == "fail"
    assert "put together" in found.evidence


@pytest.mark.parametrize("modules", [True, False])
def test_a_dead_head_among_heads_computed_one_by_one(modules: bool) -> None:
    module = OneByOne(modules)
    assert examined(module, "dead-heads").verdict == "pass"
    with torch.no_grad():
        module.out.weight[:, 2 * K : 3 * K] = 0.0
    found = examined(module, "dead-heads")
    assert found.verdict == "fail"
    assert found.where == (f"head 2 of {'heads' if modules else 'the module'}",)


@pytest.mark.parametrize("modules", [True, False])
def test_duplicates_among_heads_computed_one_by_one(modules: bool) -> None:
    module = OneByOne(modules)
    assert examined(module, "duplicate-heads").verdict == "pass"
    if module.heads is not None:
        module.heads[3].load_state_dict(module.heads[0].state_dict())
    else:
        rows = module.qkv.weight.data.view(3, H, K, D)
        rows[:, 3] = rows[:, 0]
    found = examined(module, "duplicate-heads")
    assert found.verdict == "fail"
    assert "heads 0 and 3" in found.evidence


def test_layers_of_one_head_are_no_heads_of_one_layer() -> None:
    layers = [nn.TransformerEncoderLayer(D, 1, D, batch_first=True) for _ in range(3)]
    module = nn.Sequential(nn.Embedding(V, D), *layers)
    case = Case(Patient(module=module, batch=(torch.randint(1, V, (2, 9)),)))
    assert [call.num_heads for call in joined(case)] == [1, 1, 1]

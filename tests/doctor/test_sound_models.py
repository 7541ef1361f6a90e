"""Sound models near the border: what they learned, or start with, is no fault."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from gnomon.doctor import Finding, diagnose
from gnomon.doctor.case import Case
from gnomon.doctor.made_up import _candidates
from gnomon.doctor.patient import Patient
from gnomon.model import Transformer
from model_configs import BASE


class Reader(nn.Module):
    """One attention of two heads, which may have a learned bias for the next token."""

    def __init__(self, next_token: tuple[float, float] = (0.0, 0.0)) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.norm = nn.Embedding(50, 32), nn.LayerNorm(32)
        self.query, self.key, self.value, self.out = (nn.Linear(32, 32) for _ in range(4))
        self.by_distance = nn.Parameter(torch.zeros(2, 79))
        self.by_distance.data[:, 40] = torch.tensor(next_token)

    def forward(self, ids: Tensor) -> Tensor:
        x, T = self.embed(ids), ids.size(1)
        q, k, v = (
            f(x).view(-1, T, 2, 16).transpose(1, 2) for f in (self.query, self.key, self.value)
        )
        distance = torch.arange(T)[None] - torch.arange(T)[:, None] + 39
        scores = q @ k.transpose(-1, -2) / 4 + self.by_distance[:, distance]
        context = (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
        read: Tensor = self.norm(x + self.out(context))
        return read


def ids(rows: int = 3) -> Tensor:
    return torch.randint(1, 50, (rows, 12), generator=torch.Generator().manual_seed(0))


def found(code: str, module: nn.Module, batch: Tensor | None = None, **fields: object) -> Finding:
    given = {"ids": ids() if batch is None else batch}
    return diagnose(module, given, only=[code], **fields)[code]


@pytest.mark.parametrize("next_token", [(20.0, 0.0), (20.0, 20.0), (40.0, 0.0)])
def test_heads_that_learned_to_look_ahead_are_no_mask_the_wrong_way_round(
    next_token: tuple[float, float],
) -> None:
    seen = found("mask-polarity", Reader(next_token), family="encoder")
    assert seen.verdict == "pass", seen.evidence


@pytest.mark.parametrize("part", ["query", "key"])
def test_a_fresh_model_may_start_with_queries_of_zero(part: str) -> None:
    module = Reader()
    for parameter in module.get_submodule(part).parameters():
        nn.init.zeros_(parameter)
    assert found("dead-heads", module).verdict == "pass"
    module.norm.weight.data += 0.1 * torch.randn(32)  # trained, and they never moved
    assert found("dead-heads", module).verdict == "fail"


def test_a_model_that_takes_no_single_text_is_not_called_short_of_positions() -> None:
    class Pairs(Reader):
        def forward(self, ids: Tensor) -> Tensor:
            if ids.size(0) < 2:
                raise ValueError("two texts at least")
            return super().forward(ids)

    seen = found("position-range", Pairs(), max_length=30)
    assert seen.verdict == "skip" and "one text alone" in seen.evidence


def test_a_bare_attention_is_torch_s() -> None:
    attention = nn.MultiheadAttention(16, 2, batch_first=True)
    assert Case(Patient(module=attention, batch=(torch.randn(2, 6, 16),))).kind == "torch"
    assert Case(Patient(module=Transformer(BASE))).kind == "gnomon"


@pytest.mark.parametrize("kind", ["gnomon", "encoder", "transformer"])
def test_a_batch_is_made_up_where_the_model_is(kind: str) -> None:
    module: nn.Module = {
        "gnomon": lambda: Transformer(BASE),
        "encoder": lambda: nn.TransformerEncoderLayer(16, 2, 32),
        "transformer": lambda: nn.Transformer(16, 2, 1, 1, 32),
    }[kind]()
    module = module.to("meta")  # stands for a device that is not the processor
    tensors = [each for values in _candidates(Patient(module=module)) for each in values.values()]
    assert tensors and {each.device.type for each in tensors} == {"meta"}


def test_a_model_that_fails_fails_once() -> None:
    calls = []

    class Broken(Reader):
        def forward(self, ids: Tensor) -> Tensor:
            calls.append(1)
            raise ValueError("not this batch")

    report = diagnose(Broken(), {"ids": ids()}, cost="probe")
    told = [each for each in report if "not this batch" in each.evidence]
    assert len(told) > 20 and not report.of("fail", "warn")
    assert len(calls) < len(told)


class InHalf(nn.Module):
    """Weights in fp32, attention in bf16, its sum over the keys taken four at a time."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.position = nn.Embedding(50, 32), nn.Embedding(64, 32)
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, ids: Tensor, keep: Tensor) -> Tensor:
        x = self.embed(ids) + self.position((keep.cumsum(1) - 1).clamp(min=0))
        q, k, v = self.qkv(x)[:, None].bfloat16().chunk(3, dim=-1)
        T = ids.size(1)
        may = torch.ones(T, T, dtype=torch.bool).tril() & keep[:, None, None]
        scores = (q @ k.transpose(-1, -2) / 32**0.5).masked_fill(~may, -1e30)
        weights = scores.float().softmax(-1).masked_fill(~may, 0.0).bfloat16()
        parts = [weights[..., n : n + 4] @ v[:, :, n : n + 4] for n in range(0, T, 4)]
        read: Tensor = self.out(torch.stack(parts).sum(0)[:, 0].float())
        return read


def test_rounding_is_that_of_what_attention_computes_in() -> None:
    keep = torch.arange(12) >= torch.tensor([[0], [3], [5]])
    batch = {"ids": ids() * keep, "keep": keep}
    report = diagnose(
        InHalf(), batch, causal=True, padding_side="left", only=["left-padding", "padding-leak"]
    )
    assert not report.of("fail", "warn"), report


def test_the_scores_of_a_trained_model_are_larger_than_at_its_start() -> None:
    module = Reader()
    with torch.no_grad():  # no 1/√d_k, which its weights make up for as in T5; then it was trained
        module.query.weight *= 3.0
        module.norm.weight += 0.1 * torch.randn(32)
    module.by_distance.data.zero_()
    seen = found("score-scale", Unscaled(module))
    assert seen.verdict == "warn" and "trained weights" in seen.evidence, seen
    module.query.weight.data *= 8.0
    assert found("score-scale", Unscaled(module)).verdict == "fail"


class Unscaled(nn.Module):
    """The same attention without its scale."""

    def __init__(self, reader: Reader) -> None:
        super().__init__()
        self.reader = reader

    def forward(self, ids: Tensor) -> Tensor:
        r, T = self.reader, ids.size(1)
        x = r.embed(ids)
        q, k, v = (f(x).view(-1, T, 2, 16).transpose(1, 2) for f in (r.query, r.key, r.value))
        context = ((q @ k.transpose(-1, -2)).softmax(-1) @ v).transpose(1, 2).flatten(2)
        read: Tensor = r.norm(x + r.out(context))
        return read

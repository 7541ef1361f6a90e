"""A mask behind softmax, or of a number that hides nothing: the cause is told as it is."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gnomon.doctor import Patient, all_checks
from gnomon.doctor.examine import examine
from gnomon.doctor.finding import Finding

How = Callable[[Tensor, Tensor], Tensor]  # scores, keep → what the values are multiplied with


def before(scores: Tensor, keep: Tensor) -> Tensor:
    return scores.masked_fill(~keep, -torch.inf).softmax(-1)


def filled_behind(scores: Tensor, keep: Tensor) -> Tensor:
    return scores.softmax(-1).masked_fill(~keep, 0.0)


def multiplied_behind(scores: Tensor, keep: Tensor) -> Tensor:
    return scores.softmax(-1) * keep


def divided_again(scores: Tensor, keep: Tensor) -> Tensor:
    weights = scores.softmax(-1) * keep
    return weights / weights.sum(-1, keepdim=True)


def multiplied_before(scores: Tensor, keep: Tensor) -> Tensor:
    return (scores * keep).softmax(-1)


def filled_with_little(scores: Tensor, keep: Tensor) -> Tensor:
    return scores.masked_fill(~keep, -2.0).softmax(-1)


class Model(nn.Module):
    """Two layers of attention; `how` hides keys, `mix` reads all positions beside attention."""

    def __init__(self, how: How, *, causal: bool, mix: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.place = nn.Embedding(50, 16), nn.Embedding(32, 16)
        self.layers = nn.ModuleList(Layer(how) for _ in range(2))
        self.head = nn.Linear(16, 50)
        self.causal, self.mix = causal, mix

    def forward(self, ids: Tensor, documents: Tensor | None = None) -> Tensor:
        T = ids.size(1)
        keep = (
            torch.ones(T, T, dtype=torch.bool).tril()[None] if self.causal else (ids != 0)[:, None]
        )
        if documents is not None:
            keep = keep & (documents[:, :, None] == documents[:, None, :])
        x = self.embed(ids) + self.place(torch.arange(T))
        for layer in self.layers:
            x = layer(x, keep)
            if self.mix:
                x = x - x.mean(1, keepdim=True)
        logits: Tensor = self.head(x)
        return logits


class Layer(nn.Module):
    def __init__(self, how: How) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(16, 16) for _ in range(3))
        self.how = how

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        q, k, v = (
            f(x).view(*x.shape[:2], 2, 8).transpose(1, 2)
            for f in (self.query, self.key, self.value)
        )
        weights = self.how(q @ k.transpose(-1, -2) / 8**0.5, keep[:, None])
        return x + (weights @ v).transpose(1, 2).flatten(2)


def padded_ids() -> Tensor:
    ids = torch.randint(1, 50, (3, 9), generator=torch.Generator().manual_seed(0))
    ids[1, 5:] = 0
    return ids


def found(code: str, how: How, *, mix: bool = False, **more: Any) -> Finding:
    causal = code != "padding-leak"
    batch = {"ids": padded_ids(), **more.pop("batch", {})}
    patient = Patient(
        module=Model(how, causal=causal, mix=mix), batch=batch, causal=causal, pad_id=0, **more
    )
    return examine(patient, [all_checks()[code]]).findings[0]


@pytest.mark.parametrize("code", ["future-leak", "padding-leak"])
@pytest.mark.parametrize("how", [filled_behind, multiplied_behind])
def test_a_mask_behind_softmax(code: str, how: How) -> None:
    finding = found(code, how)
    assert finding.verdict == "fail"
    assert finding.where == ("layers.0", "layers.1")
    assert "applied after softmax" in finding.cause and "4 of 4 heads" in finding.cause
    assert "beside attention" not in finding.cause
    assert "before softmax" in finding.mend


@pytest.mark.parametrize("code", ["future-leak", "padding-leak"])
@pytest.mark.parametrize("how", [before, divided_again])
def test_weights_that_sum_to_one_are_no_such_mask(code: str, how: How) -> None:
    assert found(code, how).verdict == "pass"


@pytest.mark.parametrize("code", ["future-leak", "padding-leak"])
@pytest.mark.parametrize(
    ("how", "number"), [(multiplied_before, "to 0, not"), (filled_with_little, "to -2, not")]
)
def test_a_number_that_hides_nothing(code: str, how: How, number: str) -> None:
    finding = found(code, how)
    assert finding.verdict == "fail" and finding.where == ("layers.0", "layers.1")
    assert number in finding.cause
    assert "−inf" in finding.mend


@pytest.mark.parametrize("code", ["future-leak", "padding-leak"])
def test_what_mixes_beside_attention_is_still_told(code: str) -> None:
    finding = found(code, before, mix=True)
    assert finding.verdict == "fail"
    assert "beside attention" in finding.cause
    assert "were seen hide" in finding.cause


def test_documents_hidden_behind_softmax() -> None:
    documents = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 2, 2]] * 3)
    finding = found(
        "packed-documents", filled_behind, document_key="documents", batch={"documents": documents}
    )
    assert finding.verdict == "fail"
    assert "applied after softmax" in finding.cause

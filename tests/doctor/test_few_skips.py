"""Checks that once passed a model over: classifiers, capped logits, texts that are not packed."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gnomon.doctor import Finding, diagnose

V, D = 50, 32


class Layers(nn.Module):
    """A causal or two-way stack on learned positions that count padding, with what stands on it."""

    def __init__(self, classes: int = 0, cap: bool = False, causal: bool = False) -> None:
        super().__init__()
        self.embed, self.place = nn.Embedding(V, D, padding_idx=0), nn.Embedding(64, D)
        layer = nn.TransformerEncoderLayer(D, 4, D, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(D, classes or V)
        self.classes, self.cap, self.causal = classes, cap, causal

    def forward(self, ids: Tensor, keep: Tensor) -> Tensor:
        T = ids.size(1)
        ahead = torch.ones(T, T, dtype=torch.bool).triu(1) if self.causal else None
        x = self.embed(ids) + self.place(torch.arange(T))
        x = self.layers(x, ahead, ~keep)
        if self.classes:
            pooled: Tensor = (x * keep[..., None]).sum(1) / keep.sum(1, keepdim=True)
            return self.head(pooled)
        logits: Tensor = self.head(x)
        return 30 * torch.tanh(logits / 30) if self.cap else logits


def batch(**more: Tensor) -> dict[str, Tensor]:
    torch.manual_seed(1)
    keep = torch.arange(12) < torch.tensor([[12], [9], [7]])
    return {"ids": torch.randint(3, V, (3, 12)) * keep, "keep": keep, **more}


def examined(code: str, module: nn.Module, **fields: Any) -> Finding:
    (found,) = diagnose(module, fields.pop("batch", batch()), only=[code], **fields).findings
    return found


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("code", ["padding-in-loss", "padding-in-smoothing", "logits-spread"])
def test_what_is_asked_of_positions_does_not_apply_to_a_classifier(code: str) -> None:
    def loss(module: nn.Module, inputs: Any) -> Tensor:
        return F.cross_entropy(module(**inputs), torch.tensor([0, 1, 2]))

    assert examined(code, Layers(classes=3), loss=loss).verdict == "n/a"


def test_a_classifier_that_counts_padding_at_the_left() -> None:
    found = examined("left-padding", Layers(classes=3), padding_side="left")
    assert found.verdict == "fail"
    assert "place" in found.where


def capped_loss(inside: bool) -> Any:
    def loss(module: nn.Module, inputs: Any) -> Tensor:
        logits, goal = module(**inputs)[:, :-1], inputs["ids"][:, 1:]
        return F.cross_entropy(
            logits.flatten(0, 1), goal.flatten(), ignore_index=-100 if inside else 0
        )

    return loss


@pytest.mark.parametrize(("inside", "verdict"), [(False, "pass"), (True, "fail")])
def test_a_loss_of_capped_logits_is_read(inside: bool, verdict: str) -> None:
    module = Layers(cap=True, causal=True)
    assert examined("padding-in-loss", module, loss=capped_loss(inside)).verdict == verdict


class Tokenizer:
    """Nothing but the id that ends a text."""

    eos_token_id, pad_token_id = 2, 0


def test_rows_without_an_end_within_are_not_packed() -> None:
    module, own = Layers(causal=True), batch()
    fields: dict[str, Any] = {"tokenizer": Tokenizer(), "causal": True}
    own["ids"][0, -1], own["ids"][1, 8] = 2, 2
    assert examined("packed-documents", module, batch=own, **fields).verdict == "n/a"
    own["ids"][0, 5] = 2
    found = examined("packed-documents", module, batch=own, **fields)
    assert found.verdict == "skip"
    assert "document_key" in found.evidence


def test_parameters_that_all_get_a_gradient_are_told_without_a_recipe() -> None:
    def loss(module: nn.Module, inputs: Any) -> Tensor:
        out: Tensor = module(**inputs)
        return out.square().mean()

    module = Layers()
    assert examined("parameter-unused", module, loss=loss).verdict == "pass"
    module.pooler = nn.Linear(D, D)
    found = examined("parameter-unused", module, loss=loss)
    assert found.verdict == "skip"
    assert "pooler" in found.evidence

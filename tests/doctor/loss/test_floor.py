"""A loss that cannot reach 0 is judged by how far it can fall."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gnomon.doctor import diagnose
from gnomon.doctor.case import Case
from gnomon.doctor.facts.loss.floor import bounds
from gnomon.doctor.patient import Patient

V, ALPHA = 30, 0.3
Loss = Callable[[nn.Module, Any], Tensor]


class Model(nn.Module):
    """Names the token at each position; `mixed`: from the mean of all, so that it cannot."""

    def __init__(self, mixed: bool = False, pooled: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(V, 32)
        self.layer = nn.TransformerEncoderLayer(32, 2, 64, dropout=0.0, batch_first=True)
        self.head = nn.Linear(32, V)
        self.mixed, self.pooled = mixed, pooled

    def forward(self, ids: Tensor) -> Tensor:
        hidden = self.layer(self.embed(ids))
        if self.mixed:
            hidden = hidden.mean(1, keepdim=True).expand_as(hidden)
        logits: Tensor = self.head(hidden[:, 0] if self.pooled else hidden)
        return logits


IDS = torch.randint(1, V, (2, 8), generator=torch.Generator().manual_seed(0))


def even(goal: Tensor) -> Tensor:
    """The smoothed targets."""
    return (1 - ALPHA) * F.one_hot(goal, V).float() + ALPHA / V


def cross_entropy(module: nn.Module, batch: Any) -> Tensor:
    goal = batch["ids"] if not getattr(module, "pooled", False) else batch["ids"][:, 0]
    logits = module(**batch)
    return F.cross_entropy(logits.reshape(-1, V), goal.reshape(-1), label_smoothing=ALPHA)


def divergence(module: nn.Module, batch: Any) -> Tensor:
    logs = module(**batch).log_softmax(-1).flatten(0, 1)
    return F.kl_div(logs, even(batch["ids"].flatten()), reduction="batchmean")


def distilled(module: nn.Module, batch: Any) -> Tensor:
    teacher = torch.randn(V, V, generator=torch.Generator().manual_seed(1)).softmax(-1)
    return F.cross_entropy(module(**batch).flatten(0, 1), teacher[batch["ids"].flatten()])


def softmax_twice(module: nn.Module, batch: Any) -> Tensor:
    return F.cross_entropy(module(**batch).softmax(-1).flatten(0, 1), batch["ids"].flatten())


def entropy(loss: Loss) -> float:
    """Of the targets, by hand."""
    if loss is distilled:
        teacher = torch.randn(V, V, generator=torch.Generator().manual_seed(1)).softmax(-1)
        return float(torch.distributions.Categorical(teacher[IDS.flatten()]).entropy().mean())
    top = 1 - ALPHA + ALPHA / V
    return -(top * math.log(top) + (V - 1) * ALPHA / V * math.log(ALPHA / V))


@pytest.mark.parametrize("loss", [cross_entropy, distilled])
@pytest.mark.parametrize("pooled", [False, True])
def test_the_floor_is_the_entropy_of_what_is_asked(loss: Loss, pooled: bool) -> None:
    if pooled and loss is distilled:
        pytest.skip("its teacher speaks of each position")
    case = Case(Patient(module=Model(pooled=pooled), batch={"ids": IDS}, loss=loss))
    floor, guess = bounds(case, case.call)
    assert floor == pytest.approx(entropy(loss), abs=1e-3)
    assert guess == pytest.approx(math.log(V), abs=1e-3)


def test_a_divergence_can_fall_to_nothing() -> None:
    case = Case(Patient(module=Model(), batch={"ids": IDS}, loss=divergence))
    floor, guess = bounds(case, case.call)
    assert floor == pytest.approx(0.0, abs=1e-3)
    assert guess == pytest.approx(math.log(V) - entropy(cross_entropy), abs=1e-3)


def test_a_fault_in_the_loss_is_no_floor() -> None:
    case = Case(Patient(module=Model(), batch={"ids": IDS}, loss=softmax_twice))
    assert bounds(case, case.call) == (0.0, math.inf)


@pytest.fixture(autouse=True)
def patient_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many steps as it takes, on a busy machine as well."""
    monkeypatch.setattr("gnomon.doctor.facts.loss.by_heart.SECONDS", 600.0)
    monkeypatch.setattr("gnomon.doctor.facts.loss.by_heart._PATIENCE", 600.0)


def verdict(module: nn.Module, loss: Loss) -> Any:
    return diagnose(module, {"ids": IDS}, loss=loss, only=["overfit-batch"])["overfit-batch"]


@pytest.mark.parametrize("pooled", [False, True])
def test_what_reaches_its_floor_is_learned(pooled: bool) -> None:
    finding = verdict(Model(pooled=pooled), cross_entropy)
    assert finding.verdict == "pass", finding.evidence
    assert "cannot fall below" in finding.evidence


def test_a_trained_model_need_not_fall_further() -> None:
    module = Model()
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-3)
    for _ in range(150):
        optimizer.zero_grad()
        cross_entropy(module, {"ids": IDS}).backward()
        optimizer.step()
    finding = verdict(module, cross_entropy)
    assert finding.verdict == "pass" and "is known" in finding.evidence, finding.evidence


@pytest.mark.parametrize("loss", [cross_entropy, distilled])
def test_what_stays_above_its_floor_is_found(loss: Loss) -> None:
    finding = verdict(Model(mixed=True), loss)
    assert finding.verdict in ("fail", "warn"), finding.evidence
    assert finding.numbers["floor"] == pytest.approx(entropy(loss), abs=1e-3)

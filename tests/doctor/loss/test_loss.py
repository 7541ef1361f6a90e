"""What a loss asks for, read exactly; causes of a wrong accumulation told apart."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gnomon.doctor import diagnose
from gnomon.doctor.case import Case
from gnomon.doctor.patient import Patient


class Decoder(nn.Module):
    def __init__(self, log_probabilities: bool = False) -> None:
        super().__init__()
        self.embed = nn.Embedding(40, 16, padding_idx=0)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
        self.head = nn.Linear(16, 40)
        self.log_probabilities = log_probabilities

    def forward(self, ids: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(ids.size(1))
        logits: Tensor = self.head(self.layer(self.embed(ids), src_mask=mask, is_causal=True))
        return logits.log_softmax(-1) if self.log_probabilities else logits


def batch() -> dict[str, Tensor]:
    ids = torch.randint(1, 40, (4, 12), generator=torch.Generator().manual_seed(0))
    ids[1, 7:], ids[2, 3:] = 0, 0
    return {"ids": ids}


def next_token(shift: int = 1, alpha: float = 0.0) -> Callable[[nn.Module, Any], Tensor]:
    def loss(module: nn.Module, batch: Any) -> Tensor:
        ids = batch["ids"]
        logits, goal = module(**batch)[:, : ids.size(1) - shift], ids[:, shift:]
        return F.cross_entropy(
            logits.flatten(0, 1), goal.flatten(), ignore_index=0, label_smoothing=alpha
        )

    return loss


def patient(**fields: Any) -> Patient:
    torch.manual_seed(0)
    known = {"module": Decoder(), "batch": batch(), "pad_id": 0, "causal": True}
    return Patient(**{**known, "loss": next_token(), **fields})


def verdict(code: str, **fields: Any) -> Any:
    known = patient(**fields)
    values = {k: getattr(known, k) for k in known.__dataclass_fields__}
    return diagnose(values.pop("module"), values.pop("batch"), only=[code], **values)[code]


@pytest.mark.parametrize("log_probabilities", [False, True])
@pytest.mark.parametrize("alpha", [0.0, 0.1])
def test_the_objective_is_read_exactly(alpha: float, log_probabilities: bool) -> None:
    objective = Case(
        patient(module=Decoder(log_probabilities), loss=next_token(alpha=alpha))
    ).objective
    ids = batch()["ids"]
    real = F.pad(ids[:, 1:] != 0, (0, 1))
    assert torch.equal(objective.counts, real)
    assert torch.equal(objective.target[real], F.pad(ids[:, 1:], (0, 1))[real])
    expected = torch.full_like(objective.weight[real], 1 / int(real.sum()))
    torch.testing.assert_close(objective.weight[real], expected, rtol=1e-4, atol=0)
    mass = 1 - alpha + alpha / 40
    assert float((objective.mass[real] - mass).abs().max()) < 1e-3


def test_a_loss_that_is_no_cross_entropy_is_skipped() -> None:
    def loss(module: nn.Module, batch: Any) -> Tensor:
        return module(**batch).square().mean()  # type: ignore[no-any-return]

    found = verdict("label-shift", loss=loss)
    assert found.verdict == "skip" and "no cross-entropy" in found.evidence


@pytest.mark.parametrize("shift", [0, 1, 2])
def test_the_shift_is_named(shift: int) -> None:
    found = verdict("label-shift", loss=next_token(shift))
    assert found.verdict == ("pass" if shift == 1 else "fail")
    assert found.numbers["shift"] == shift
    assert ("twice" in found.cause) is (shift == 2)


def test_padding_in_the_denominator_is_told_from_padding_that_counts() -> None:
    def denominator(module: nn.Module, batch: Any) -> Tensor:
        logits, goal = module(**batch)[:, :-1], batch["ids"][:, 1:]
        each = F.cross_entropy(
            logits.flatten(0, 1), goal.flatten(), ignore_index=0, reduction="none"
        )
        return each.mean()

    found = verdict("padding-in-loss", loss=denominator)
    assert found.verdict == "fail" and "counted in the mean" in found.cause
    assert verdict("padding-in-loss").verdict == "pass"

    def by_inputs(module: nn.Module, batch: Any) -> Tensor:
        ids = batch["ids"]
        logits, goal, real = module(**batch)[:, :-1], ids[:, 1:], ids[:, :-1] != 0
        return F.cross_entropy(logits[real], goal[real])

    found = verdict("padding-in-loss", loss=by_inputs)
    assert found.verdict == "warn" and "targets" in found.mend


def stepping(kind: str) -> dict[str, Any]:
    torch.manual_seed(0)
    module = Decoder()
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)
    mean = next_token()

    def step(batches: Any) -> None:
        if kind != "kept":
            optimizer.zero_grad()
        total = sum(int((b["ids"][:, 1:] != 0).sum()) for b in batches)
        for each in batches:
            if kind == "last":
                optimizer.zero_grad()
            count = int((each["ids"][:, 1:] != 0).sum())
            share = {"mean": 1 / len(batches), "sum": 1.0}.get(kind, count / total)
            module.train()
            (mean(module, each) * share).backward()
            if kind == "every":
                optimizer.step()
        if kind != "every":
            optimizer.step()

    return {"module": module, "optimizer": optimizer, "step": step, "loss": mean}


@pytest.mark.parametrize(
    ("kind", "cause"),
    [
        ("right", ""),
        ("mean", "averaged"),
        ("sum", "summed"),
        ("last", "in between"),
        ("kept", "not set to zero"),
        ("every", "every micro-batch"),
    ],
)
def test_causes_of_a_wrong_accumulation(kind: str, cause: str) -> None:
    found = verdict("accumulation", **stepping(kind))
    assert found.verdict == ("pass" if kind == "right" else "fail"), found.evidence
    assert cause in found.cause


def test_a_summed_loss_is_named() -> None:
    def summed(module: nn.Module, batch: Any) -> Tensor:
        return next_token()(module, batch) * int((batch["ids"] != 0).sum())

    found = verdict("initial-loss", loss=summed)
    assert found.verdict == "warn" and "summed over tokens" in found.cause


def test_overfitting_leaves_everything_as_it_was() -> None:
    known = patient()
    assert known.module is not None
    before = {name: value.clone() for name, value in known.module.state_dict().items()}
    known.module.train()
    draws = torch.random.get_rng_state()
    found = diagnose(known.module, known.batch, loss=known.loss, only=["overfit-batch"])
    assert found["overfit-batch"].verdict == "pass", found["overfit-batch"].evidence
    assert all(torch.equal(v, before[n]) for n, v in known.module.state_dict().items())
    assert known.module.training and known.module.layer.training
    assert all(p.grad is None for p in known.module.parameters())
    assert torch.equal(draws, torch.random.get_rng_state())


class Few:
    """A loss on three tokens of each row, whose labels may be shuffled among the rows."""

    def __init__(self, how: str) -> None:
        self.how = how

    def __call__(self, module: nn.Module, batch: Any) -> Tensor:
        ids = batch["ids"]
        logits, goal = module(ids)[:, :3], ids[:, 1:4] % 4 + 1
        if self.how == "drawn":
            goal = goal.flatten()[torch.randperm(goal.numel())].view_as(goal)
        elif self.how == "masked anew":
            places = torch.rand(ids.shape) < 0.3
            logits, goal = module(ids.masked_fill(places, 39))[:, :3], (ids[:, :3] + places[:, :3])
        return F.cross_entropy(logits.flatten(0, 1), goal.flatten() % 40)


@pytest.mark.parametrize(("how", "drawn"), [("drawn", True), ("", False), ("masked anew", False)])
def test_labels_drawn_apart_from_the_inputs(how: str, drawn: bool) -> None:
    found = verdict("overfit-batch", loss=Few(how))
    assert ("asked for another token" in found.evidence) == drawn, found.evidence
    assert (found.verdict == "fail") == drawn


class Tagger(nn.Module):
    """Five values at each position of a text."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(40, 16, padding_idx=0)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.head = nn.Linear(16, 5)

    def forward(self, ids: Tensor) -> Tensor:
        hidden = self.layer(self.embed(ids), src_key_padding_mask=ids == 0)
        logits: Tensor = self.head(hidden)
        return logits


LABELS = torch.tensor([0, 1, 2, 3])


def of_the_last(module: nn.Module, batch: Any) -> Tensor:
    logits = module(**batch)[:, -1]
    return F.cross_entropy(logits, LABELS[: len(logits)])


def of_all(module: nn.Module, batch: Any) -> Tensor:
    logits = module(**batch)
    return F.cross_entropy(
        logits.flatten(0, 1), LABELS[: len(logits)].repeat_interleave(logits.size(1))
    )


@pytest.mark.parametrize(
    ("loss", "cause", "mend"),
    [
        (of_the_last, "reads one position of each text, position 11, and in 2 of 4", "last real"),
        (of_all, "the text's one label", "mean over real positions"),
    ],
)
def test_one_label_a_text_is_told_as_that(loss: Any, cause: str, mend: str) -> None:
    found = verdict("padding-in-loss", module=Tagger(), loss=loss, causal=False)
    assert found.verdict == "fail"
    assert cause in found.cause and mend in found.mend
    assert "averages over all positions" not in found.cause


def test_a_mean_over_all_positions_is_told_as_that() -> None:
    def loss(module: nn.Module, batch: Any) -> Tensor:
        ids = batch["ids"]
        return F.cross_entropy(module(**batch).flatten(0, 1), ids.flatten())

    assert "averages over all positions" in verdict("padding-in-loss", loss=loss).cause

    def some(module: nn.Module, batch: Any) -> Tensor:
        ids = batch["ids"]
        logits, goal = module(**batch)[:, :-1], ids[:, 1:].clone()
        goal[:, -2:] = -100
        return F.cross_entropy(logits.flatten(0, 1), goal.flatten())

    found = verdict("padding-in-loss", loss=some)
    assert found.verdict == "fail" and "averages over all positions" not in found.cause

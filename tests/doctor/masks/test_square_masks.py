"""Masks `[B, T, T]` that say of each text who sees whom, padding included, in any convention."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from gnomon.doctor import diagnose
from gnomon.doctor.case import Case
from gnomon.doctor.patient import Patient

CODES = ["padding-leak", "attends-padding", "mask-polarity", "mask-heads", "left-padding"]


class Decoder(nn.Module):
    """Two layers that hide what the mask says; positions are counted over real tokens."""

    def __init__(self, convention: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.convention = convention
        self.embed, self.position = nn.Embedding(50, 16), nn.Embedding(40, 16)
        self.layers = nn.ModuleList(nn.Linear(16, 48) for _ in range(2))
        self.head = nn.Linear(16, 50)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        places = ((ids != 0).cumsum(1) - 1).clamp(min=0)
        x = self.embed(ids) + self.position(places)
        for layer in self.layers:
            q, k, v = layer(x)[:, None].chunk(3, dim=-1)
            scores = q @ k.transpose(-1, -2) / 4
            if self.convention == "added":
                scores = scores + mask[:, None]
            else:
                keep = mask if self.convention == "keep" else ~mask
                scores = scores.masked_fill(~keep[:, None], -torch.inf)
            x = x + (scores.softmax(-1) @ v)[:, 0]
        logits: Tensor = self.head(x)
        return logits


def batch(convention: str, side: str, lengths: list[int]) -> dict[str, Tensor]:
    place = torch.arange(9)
    place = place if side == "right" else place.flip(0)
    real = place < torch.tensor(lengths)[:, None]
    keep = torch.ones(9, 9, dtype=torch.bool).tril() & real[:, None, :]
    keep = keep | torch.eye(9, dtype=torch.bool)  # padding sees itself
    ids = torch.randint(1, 50, (3, 9), generator=torch.Generator().manual_seed(0)) * real
    masks = {
        "keep": keep,
        "hidden": ~keep,
        "added": torch.zeros(3, 9, 9).masked_fill(~keep, torch.finfo(torch.float32).min),
    }
    return {"ids": ids, "mask": masks[convention]}


@pytest.mark.parametrize("convention", ["keep", "hidden", "added"])
@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("lengths", [[9, 6, 8], [9, 9, 9]])
def test_padding_that_such_a_mask_hides_is_hidden(
    convention: str, side: str, lengths: list[int]
) -> None:
    given = batch(convention, side, lengths)
    report = diagnose(
        Decoder(convention), given, pad_id=0, padding_side=side, causal=True, only=CODES
    )
    assert not report.of("fail", "warn"), report
    assert report["padding-leak"].verdict == report["attends-padding"].verdict == "pass"


@pytest.mark.parametrize("convention", ["keep", "hidden", "added"])
def test_a_text_that_is_emptied_hides_its_keys(convention: str) -> None:
    case = Case(Patient(module=Decoder(convention), batch=batch(convention, "right", [9, 6, 8]),
                        pad_id=0, causal=True))  # fmt: skip
    where = torch.zeros(3, 9, dtype=torch.bool)
    where[0] = True
    mask = case.call.hidden("source", where).values["mask"][0]
    hidden = mask < -1 if convention == "added" else mask if convention == "hidden" else ~mask
    assert bool(hidden.all())

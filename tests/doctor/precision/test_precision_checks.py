"""What would break in half precision: graver where it is really used, nothing where it is safe."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gnomon.doctor import diagnose
from gnomon.doctor.facts.positions.sinusoids import jitter, sinusoid_tables


class Attention(nn.Module):
    """Attention by hand, with a mask that can be written in several ways."""

    def __init__(self, mask: str = "finfo", size: float = 1.0, fused: bool = False) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(16, 16, bias=False) for _ in range(3))
        self.mask, self.fused = mask, fused
        with torch.no_grad():
            self.query.weight.mul_(size)
            self.key.weight.mul_(size)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (each(x)[:, None] for each in (self.query, self.key, self.value))
        if self.fused:
            return nn.functional.scaled_dot_product_attention(q, k, v)[:, 0]
        scores = q @ k.transpose(-2, -1) / 16**0.5
        later = torch.ones(x.size(1), x.size(1), dtype=torch.bool).triu(1)
        lowest = torch.finfo(scores.dtype).min
        if self.mask == "weak":
            scores = scores.masked_fill(later, -1e4)
        elif self.mask == "fp32":  # whatever the scores' dtype
            scores = scores.masked_fill(later, torch.finfo(torch.float32).min)
        elif self.mask == "finfo":
            scores = scores.masked_fill(later, lowest)
        elif self.mask == "literal":
            scores = scores + later * -1e9
        elif self.mask == "infinite":
            scores = scores.masked_fill(later, -torch.inf)
        elif self.mask == "twice":
            padding = torch.zeros(x.size(1), dtype=torch.bool)
            padding[-1] = True
            both = later.to(x.dtype) * lowest + padding.to(x.dtype) * lowest
            scores = scores + both
        elif self.mask == "sum":  # an overflow that has nothing to do with masks
            scores = scores.masked_fill(later, lowest)
            large = torch.ones_like(scores) * 1e19 * 3e19
            scores = scores + (large + large).clamp(max=0.0)
        return (scores.softmax(-1) @ v)[:, 0]


def finding(code: str, module: nn.Module, **fields: Any) -> Any:
    x = torch.randn(2, 6, 16, generator=torch.Generator().manual_seed(0))
    return diagnose(module, fields.pop("batch", {"x": x}), only=[code], **fields)[code]


@pytest.mark.parametrize(
    ("mask", "verdict"),
    [
        ("finfo", "pass"),
        ("infinite", "pass"),
        ("literal", "warn"),
        ("twice", "warn"),
        ("fp32", "warn"),
        ("sum", "pass"),
    ],
)
def test_mask_constants(mask: str, verdict: str) -> None:
    torch.manual_seed(0)
    found = finding("mask-constant", Attention(mask))
    assert found.verdict == verdict, found.evidence
    if mask == "twice":
        assert "logical and" in found.mend
        assert "add of finite numbers gives infinity in the root" in found.evidence
        assert "a second mask, a bias or a score" in found.cause  # which of them is not known


@pytest.mark.parametrize(("size", "near"), [(1.0, False), (300.0, True)])
def test_scores_as_large_as_what_hides_keys(size: float, near: bool) -> None:
    torch.manual_seed(0)
    found = finding("mask-constant", Attention("weak", size=size), precision="fp32")
    assert ("may stand above" in found.evidence) == near, found.evidence
    assert found.verdict == ("warn" if near else "pass")


@pytest.mark.parametrize("mask", ["literal", "fp32"])
def test_the_verdict_follows_the_precision_in_use(mask: str) -> None:
    torch.manual_seed(0)
    module = Attention(mask)
    verdicts = {p: finding("mask-constant", module, precision=p).verdict for p in
                ("fp16", "bf16", "fp32")}  # fmt: skip
    assert verdicts == {"fp16": "fail", "bf16": "pass", "fp32": "pass"}


def test_fused_attention_keeps_its_scores_in_fp32() -> None:
    torch.manual_seed(0)
    assert finding("fp16-scores", Attention(size=200.0), precision="fp16").verdict == "fail"
    fused = Attention(size=200.0, fused=True)
    assert finding("fp16-scores", fused, precision="fp16").verdict == "pass"


class Rotary(nn.Module):
    """Attention over rotated queries and keys; phases in fp32 or in the model's dtype."""

    def __init__(self, low: bool) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 16)
        self.query, self.key, self.value = (nn.Linear(16, 16) for _ in range(3))
        self.low = low

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        dtype = x.dtype if self.low else torch.float32
        places = torch.arange(ids.size(1)).to(dtype)
        rates = (10_000 ** -(torch.arange(8) / 8)).to(dtype)
        phases = (places[:, None] * rates).float()
        cos, sin = (each.to(x.dtype) for each in (phases.cos(), phases.sin()))

        def turned(y: Tensor) -> Tensor:
            a, b = y.chunk(2, -1)
            return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)

        q, k, v = turned(self.query(x)), turned(self.key(x)), self.value(x)
        out = nn.functional.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None])
        return out[:, 0]


@pytest.mark.parametrize(("low", "verdict"), [(False, "pass"), (True, "fail")])
@pytest.mark.parametrize("max_length", [None, 128])
def test_positions_in_bf16(low: bool, verdict: str, max_length: int | None) -> None:
    torch.manual_seed(0)
    ids = torch.randint(1, 50, (2, 8))
    found = finding(
        "bf16-positions", Rotary(low), batch={"ids": ids}, precision="bf16", max_length=max_length
    )
    assert found.verdict in ((verdict, "warn") if low else (verdict,)), found.evidence


class TwoTexts(nn.Module):
    """The positions of one of its texts are counted in the weights' dtype."""

    def __init__(self, low: str) -> None:
        super().__init__()
        self.encoder, self.decoder = Rotary(low == "source"), Rotary(low == "target")

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        memory, out = self.encoder(source), self.decoder(target)
        q, k = out[:, None], memory[:, None]
        over: Tensor = nn.functional.scaled_dot_product_attention(q, k, k)
        return out + over[:, 0]


@pytest.mark.parametrize(("low", "verdict"), [("", "pass"), ("source", "fail"), ("target", "fail")])
def test_positions_in_bf16_of_each_text(low: str, verdict: str) -> None:
    torch.manual_seed(0)
    batch = {"source": torch.randint(1, 50, (2, 8)), "target": torch.randint(1, 50, (2, 7))}
    found = finding("bf16-positions", TwoTexts(low), batch=batch, precision="bf16")
    assert found.verdict in ((verdict, "warn") if low else (verdict,)), found.evidence
    assert not low or found.where == ("encoder" if low == "source" else "decoder",)


def test_a_loss_scale_below_one_names_the_largest_gradient() -> None:
    torch.manual_seed(0)
    module = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    found = finding(
        "loss-scale", module, batch={"src": torch.randn(2, 6, 16)}, precision="fp16",
        loss=lambda m, b: 1e9 * (m(**b) - 1).square().mean(),
    )  # fmt: skip
    assert found.verdict == "fail" and "below 1" in found.cause and len(found.where) == 1


@pytest.mark.parametrize("stored", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("low", [False, True])
@pytest.mark.parametrize("halves", [False, True])
def test_a_table_from_angles_in_bf16_is_told_from_one_kept_in_bf16(
    low: bool, stored: torch.dtype, halves: bool
) -> None:
    dtype = torch.bfloat16 if low else torch.float32
    rates = 10_000 ** -(torch.arange(16) / 16)
    angles = (torch.arange(64).to(dtype)[:, None] * rates.to(dtype)).float()
    parts = (angles.sin(), angles.cos())
    module = nn.Module()
    table = torch.cat(parts, -1) if halves else torch.stack(parts, -1).flatten(1)
    module.register_buffer("table", table.to(stored)[None])
    ((name, found),) = sinusoid_tables(module)
    assert name == "table"
    assert (jitter(found) > 0.03) is low

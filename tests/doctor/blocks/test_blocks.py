"""Layers, residuals, norms: places named, causes told apart, no alarm near the border."""

from typing import Any

import pytest
import torch
from tests.model_configs import CONFIGS
from torch import Tensor, nn

from gnomon.doctor import diagnose
from gnomon.doctor.case import Case
from gnomon.doctor.facts.layers.linear_path import linear_share
from gnomon.doctor.patient import Patient
from gnomon.model import Transformer


class Layer(nn.Module):
    """A pre-norm layer whose two sums can be spoilt."""

    def __init__(self, first: float = 1.0, second: float = 1.0) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(32), nn.LayerNorm(32)
        self.attention = nn.MultiheadAttention(32, 2, batch_first=True)
        self.ff = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))
        self.first, self.second = first, second

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm1(x)
        x = self.first * x + self.attention(y, y, y, need_weights=False)[0]
        return self.second * x + self.ff(self.norm2(x))


class Model(nn.Module):
    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 32)
        self.layers = nn.ModuleList(layers)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return x


def ids() -> Tensor:
    return torch.randint(1, 50, (3, 10), generator=torch.Generator().manual_seed(0))


def finding(code: str, module: nn.Module, **fields: Any) -> Any:
    return diagnose(module, fields.pop("batch", {"ids": ids()}), only=[code], **fields)[code]


def test_the_sublayer_without_residual_is_named() -> None:
    torch.manual_seed(0)
    found = finding("residual", Model(Layer(), Layer(first=0.0), Layer()))
    assert found.verdict == "fail" and found.where == ("layers.1",)
    assert "norm2" in found.cause
    found = finding("residual", Model(Layer(), Layer(), Layer(second=0.0)))
    assert found.verdict == "fail" and found.where == ("layers.2",)
    assert "feed-forward" in found.cause


def test_all_layers_without_residual_are_found() -> None:
    torch.manual_seed(0)
    found = finding("residual", Model(*(Layer(second=0.0) for _ in range(3))))
    assert found.verdict == "fail" and len(found.where) == 3


def test_a_scaled_residual_is_told_from_a_missing_one() -> None:
    torch.manual_seed(0)
    found = finding("residual", Model(Layer(), Layer(first=0.5), Layer()))
    assert found.verdict == "fail" and found.where == ("layers.1",) and "0.50" in found.evidence
    found = finding("residual", Model(*(Layer(first=0.5) for _ in range(3))))
    assert found.verdict == "warn" and "every layer" in found.evidence


@pytest.mark.parametrize(
    "name",
    [n for n in CONFIGS if any(word in n for word in ("sandwich", "deepnorm", "pre", "rms"))],
)
def test_other_norm_placements_raise_no_alarm(name: str) -> None:
    torch.manual_seed(0)
    report = diagnose(Transformer(CONFIGS[name]), only=["residual", "norm-axis", "norm-eps"])
    assert not report.of("fail", "warn"), [f.evidence for f in report.of("fail", "warn")]


def test_placement_is_seen() -> None:
    torch.manual_seed(0)
    for first in (False, True):
        layer = nn.TransformerEncoderLayer(32, 2, 64, batch_first=True, norm_first=first)
        module = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        blocks = Case(Patient(module=module, batch={"src": torch.randn(2, 6, 32)})).blocks
        assert [b.name for b in blocks] == ["layers.0", "layers.1"]
        assert all(b.ends_with_norm is not first for b in blocks)


def test_linear_share_reads_the_graph() -> None:
    x = torch.randn(4, 8, requires_grad=True)
    ff = nn.Linear(8, 8)
    assert linear_share(x + ff(x), x) == 1.0
    assert linear_share((x + ff(x)).view(2, 16).reshape(4, 8) - x, x) == 0.0
    assert linear_share(torch.add(x, ff(x)).sub(x, alpha=0.25), x) == 0.75
    assert linear_share(ff(x), x) == 0.0
    assert linear_share(x * x + ff(x), x) is None


def test_a_norm_over_heads_and_features_is_no_norm_over_positions() -> None:
    class Heads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.LayerNorm((2, 16))
            self.attention = nn.MultiheadAttention(32, 2, batch_first=True)
            self.embed = nn.Embedding(50, 32)

        def forward(self, ids: Tensor) -> Tensor:
            x = self.embed(ids)
            x = self.norm(x.unflatten(-1, (2, 16))).flatten(-2)
            out: Tensor = self.attention(x, x, x, need_weights=False)[0]
            return out

    torch.manual_seed(0)
    assert finding("norm-axis", Heads()).verdict == "pass"


@pytest.mark.parametrize("wrong", ["positions and features", "transposed", "batch"])
def test_wrong_axes_are_told_apart(wrong: str) -> None:
    class Wrong(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(50, 32)
            self.attention = nn.MultiheadAttention(32, 2, batch_first=True)
            self.norm: nn.Module = {
                "positions and features": nn.LayerNorm((10, 32)),
                "transposed": nn.LayerNorm(10),
                "batch": nn.BatchNorm1d(32),
            }[wrong]

        def forward(self, ids: Tensor) -> Tensor:
            x = self.embed(ids)
            x = x + self.attention(x, x, x, need_weights=False)[0]
            if wrong == "positions and features":
                return self.norm(x)  # type: ignore[no-any-return]
            return self.norm(x.transpose(1, 2)).transpose(1, 2)  # type: ignore[no-any-return]

    torch.manual_seed(0)
    found = finding("norm-axis", Wrong())
    assert found.verdict == ("warn" if wrong == "batch" else "fail"), found.evidence
    assert found.where == ("norm",)


class GemmaNorm(nn.Module):
    """RMSNorm whose gain is stored as gain - 1."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(32))

    def forward(self, x: Tensor) -> Tensor:
        return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * (1 + self.weight)


def with_norm(norm: nn.Module) -> nn.Module:
    layer = Layer()
    layer.norm1 = norm  # type: ignore[assignment]
    return Model(layer, Layer())


def test_a_gain_stored_as_gain_minus_one_is_usual() -> None:
    torch.manual_seed(0)
    assert finding("norm-weights", with_norm(GemmaNorm())).verdict == "pass"
    zero = GemmaNorm()
    nn.init.constant_(zero.weight, -1.0)
    found = finding("norm-weights", with_norm(zero))
    assert found.verdict == "fail" and found.where == ("layers.0.norm1",)


def test_small_activations_are_not_blamed_on_eps() -> None:
    torch.manual_seed(0)
    model = Model(Layer(), Layer())
    nn.init.normal_(model.embed.weight, std=1e-3)
    assert finding("norm-eps", model).verdict == "pass"
    found = finding("norm-eps", with_norm(nn.LayerNorm(32, eps=0.0)))
    assert found.verdict in ("fail", "warn") and found.where == ("layers.0.norm1",)
    assert finding("norm-eps", with_norm(nn.LayerNorm(32, eps=1e-12))).verdict == "pass"


def test_dead_units_name_both_projections_and_sparse_ones_are_alive() -> None:
    torch.manual_seed(0)
    model = Model(Layer(), Layer())
    assert finding("dead-ffn", model).verdict == "pass"
    nn.init.constant_(model.layers[1].ff[0].bias, -30.0)  # type: ignore[index, union-attr, arg-type]
    found = finding("dead-ffn", model)
    assert found.verdict == "fail" and found.where == ("layers.1.ff.0", "layers.1.ff.2")


def test_noise_names_its_owner_and_state_is_told_from_it() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = nn.MultiheadAttention(32, 2, batch_first=True)
            self.calls = 0

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            out: Tensor = self.attention(x, x, x, need_weights=False)[0] * self.calls
            return out

    torch.manual_seed(0)
    found = finding("noise-in-eval", Counting(), batch={"x": torch.randn(2, 5, 32)})
    assert found.verdict == "fail" and "from one call to the next" in found.cause
    model = Model(Layer(), Layer())
    model.layers[1].ff.add_module("3", AlwaysOn())  # type: ignore[union-attr, operator]
    found = finding("noise-in-eval", model)
    assert found.verdict == "fail" and found.where[0].startswith("layers.1.ff.3")


class AlwaysOn(nn.Dropout):
    def train(self, mode: bool = True) -> "AlwaysOn":
        return super().train(True)


def test_fp16_range_names_the_first_module() -> None:
    torch.manual_seed(0)
    model = Model(Layer(), Layer())
    with torch.no_grad():
        model.layers[1].ff[2].weight.mul_(1e7)  # type: ignore[index, union-attr, operator]
    found = finding("fp16-range", model, precision="fp16")
    assert found.verdict == "fail" and found.where[0] == "layers.1.ff.2"
    assert finding("fp16-range", model, precision="bf16").verdict == "pass"
    assert finding("fp16-range", model).verdict == "warn"


def test_weights_that_fp16_cannot_hold_are_told_with_its_end() -> None:
    torch.manual_seed(0)
    module = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    with torch.no_grad():
        module.linear2.weight.fill_(1e-3)
        module.linear2.weight[0, 0] = 2e5
        module.linear1.weight[0], module.linear1.bias[0] = 0.0, -1.0  # it multiplies nothing
    found = diagnose(module, {"src": torch.randn(2, 6, 16)}, precision="fp16", only=["fp16-range"])[
        "fp16-range"
    ]
    assert found.verdict == "fail" and found.where == ("linear2",)
    assert (
        "linear2.weight" in found.evidence
        and "2e5" in found.evidence
        and "65,504" in found.evidence
    )
    assert "bf16, which keeps fp32's range" in found.mend and "65,504" in found.mend

"""Whatever a model, a loss or a function does, the patient and the process are as they were."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import gnomon
from gnomon.doctor import Report
from gnomon.errors import DoctorError


class Model(nn.Module):
    """A decoder of one layer; `odd` is done in every forward."""

    def __init__(self, **table: Any) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 16, **table)
        self.layer = nn.TransformerEncoderLayer(16, 2, 16, dropout=0.0, batch_first=True)
        self.head = nn.Linear(16, 20)
        self.cache: Tensor | None = None
        self.history: list[int] = []
        self.counter = torch.zeros(2)

    def odd(self) -> None:
        pass

    def forward(self, ids: Tensor) -> Any:
        self.odd()
        hidden = ~torch.ones(ids.size(1), ids.size(1)).tril().bool()
        return self.head(self.layer(self.embed(ids), src_mask=hidden))


def batch() -> dict[str, Tensor]:
    return {"ids": torch.arange(1, 13).view(2, 6)}


def loss(module: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    logits = module(batch["ids"])[:, :-1]
    return F.cross_entropy(logits.flatten(0, 1), batch["ids"][:, 1:].flatten())


def examine(module: nn.Module, **fields: Any) -> Report:
    only = fields.pop("only", ["noise-in-eval", "future-leak", "batch-leak", "gradient-depth"])
    return gnomon.diagnose(module, batch(), only=only, **fields)


def test_a_table_that_scales_its_rows_in_the_forward_has_them_back() -> None:
    module = Model(max_norm=0.5)
    before, memory = module.embed.weight.detach().clone(), module.embed.weight.data_ptr()
    examine(module)
    assert torch.equal(module.embed.weight, before)
    assert module.embed.weight.data_ptr() == memory


def test_weights_that_are_exchanged_through_data_are_back() -> None:
    class Normalised(Model):
        def odd(self) -> None:
            self.head.weight.data = F.normalize(self.head.weight.data, dim=1)

    module = Normalised()
    before, memory = module.head.weight.detach().clone(), module.head.weight.data_ptr()
    examine(module)
    assert torch.equal(module.head.weight, before)
    assert module.head.weight.data_ptr() == memory


def test_what_a_forward_keeps_on_the_module_is_as_it_was() -> None:
    class Keeping(Model):
        def odd(self) -> None:
            self.cache = torch.ones(3) if self.cache is None else torch.cat([self.cache] * 2)[:9]
            self.history.append(1)
            self.counter += 1
            self.new = 1

    module = Keeping()
    history, counter = module.history, module.counter
    examine(module)
    assert module.cache is None
    assert module.history is history
    assert module.history == []
    assert module.counter is counter
    assert module.counter.tolist() == [0, 0]
    assert not hasattr(module, "new")


def test_the_settings_of_the_process_are_as_they_were() -> None:
    class Setting(Model):
        def forward(self, ids: Tensor) -> Any:
            scores = super().forward(ids)
            torch.set_default_dtype(torch.float64)
            torch.set_num_threads(threads + 1)
            torch.autograd.set_detect_anomaly(True)
            torch.set_float32_matmul_precision("medium")
            torch.backends.cudnn.benchmark = True
            torch.use_deterministic_algorithms(False)
            return scores

    threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        examine(Setting())
        assert torch.are_deterministic_algorithms_enabled()
        assert torch.is_deterministic_algorithms_warn_only_enabled()
        assert not torch.backends.cudnn.benchmark
        assert torch.get_default_dtype() is torch.float32
        assert torch.get_num_threads() == threads
        assert not torch.is_anomaly_enabled()
        assert torch.get_float32_matmul_precision() == precision
    finally:
        torch.set_default_dtype(torch.float32)
        torch.set_num_threads(threads)
        torch.autograd.set_detect_anomaly(False)
        torch.set_float32_matmul_precision(precision)
        torch.use_deterministic_algorithms(False)
        torch.backends.cudnn.benchmark = False


def test_a_generator_of_the_model_s_own_stands_where_it_stood() -> None:
    class Drawing(Model):
        def odd(self) -> None:
            torch.rand(3, generator=self.generator)

    module = Drawing()
    module.generator = torch.Generator().manual_seed(7)
    before = module.generator.get_state()
    examine(module)
    assert torch.equal(module.generator.get_state(), before)


def test_the_optimizer_has_the_same_tensors_with_the_same_values() -> None:
    module = Model()
    optimizer = torch.optim.Adam(module.parameters(), 1e-2)
    loss(module, batch()).backward()
    optimizer.step()
    first = optimizer.state[module.head.weight]["exp_avg"]
    before = first.clone()
    report = examine(module, loss=loss, optimizer=optimizer, only=["gradient-ratio"])
    assert report.findings[0].verdict != "skip"
    assert optimizer.state[module.head.weight]["exp_avg"] is first
    assert torch.equal(first, before)


def test_a_model_that_was_made_in_inference_mode_is_examined() -> None:
    with torch.inference_mode():
        module = Model(max_norm=0.5)
        before = module.embed.weight.clone()
    report = examine(module, only=["noise-in-eval"])
    assert report.findings[0].verdict == "pass"
    assert torch.equal(module.embed.weight, before)


def test_an_examination_in_inference_mode_takes_gradients() -> None:
    module = Model()
    with torch.inference_mode():
        report = examine(module, only=["residual", "non-finite"])
    assert [each.verdict for each in report.findings] == ["pass", "pass"]


def test_a_forward_without_a_graph_is_not_called_broken() -> None:
    class Serving(Model):
        @torch.inference_mode()
        def forward(self, ids: Tensor) -> Any:
            return super().forward(ids)

    residual, depth = examine(Serving(), only=["residual", "gradient-depth"]).findings
    assert {residual.verdict, depth.verdict} == {"skip"}


def test_parameters_without_a_shape_are_told_of() -> None:
    module = Model()
    module.head = nn.LazyLinear(20)
    (finding,) = examine(module, only=["noise-in-eval"]).findings
    assert finding.verdict == "skip"
    assert "first call" in finding.evidence
    assert isinstance(module.head, nn.LazyLinear)


def test_exit_in_the_loss_does_not_end_the_examination() -> None:
    def leaving(module: nn.Module, batch: Any) -> Tensor:
        sys.exit(0)

    report = examine(Model(), loss=leaving, only=["initial-loss", "noise-in-eval"])
    verdicts = {each.code: each.verdict for each in report.findings}
    assert verdicts == {"initial-loss": "skip", "noise-in-eval": "pass"}


@pytest.mark.parametrize(
    ("returned", "said"),
    [(1.0, "float"), (None, "NoneType"), (torch.ones(2), "(2,)")],
)
def test_a_loss_that_is_none_is_named(returned: Any, said: str) -> None:
    report = examine(Model(), loss=lambda module, batch: returned, only=["initial-loss"])
    assert report.findings[0].verdict == "skip"
    assert said in report.findings[0].evidence


@pytest.mark.parametrize("size", [(0, 6), (3, 0)])
def test_an_empty_batch_is_called_empty(size: tuple[int, int]) -> None:
    empty = {"ids": torch.zeros(size, dtype=torch.long)}
    (finding,) = gnomon.diagnose(Model(), empty, only=["noise-in-eval"]).findings
    assert finding.verdict == "skip"
    assert "empty" in finding.evidence


def test_an_output_that_holds_itself_is_read() -> None:
    class Circular(Model):
        def forward(self, ids: Tensor) -> Any:
            found: dict[str, Any] = {"logits": super().forward(ids)}
            found["all"] = [found]
            return found

    assert examine(Circular(), only=["noise-in-eval"]).findings[0].verdict == "pass"


@pytest.mark.parametrize(
    "schedule", [lambda step: None, lambda step: float("nan"), lambda step: 1 / (step - 5)]
)
def test_a_schedule_that_gives_no_rate_is_told_of(schedule: Any) -> None:
    (finding,) = examine(Model(), schedule=schedule, only=["warmup"]).findings
    assert finding.verdict == "skip" or "5" in str(finding.numbers)
    assert "could not be made" not in finding.evidence


@pytest.mark.parametrize(
    "fields",
    [
        {"optimizer": "adam"},
        {"optimizer": torch.optim.Adam},
        {"loss": "cross entropy"},
        {"schedule": "cosine"},
        {"pad_id": "<pad>"},
        {"causal": "no"},
        {"family": "gru"},
        {"precision": "int3"},
        {"clip_norm": "large"},
        {"planned_steps": 0},
        {"texts": "one line"},
    ],
)
def test_a_field_of_another_kind_is_refused(fields: dict[str, Any]) -> None:
    (name,) = fields
    with pytest.raises(DoctorError, match=f"^{name} is "):
        examine(Model(), **fields)


def test_what_is_no_module_is_refused() -> None:
    with pytest.raises(DoctorError, match="module is a torch"):
        gnomon.diagnose("model")  # type: ignore[arg-type]

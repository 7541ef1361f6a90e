"""What moves the weights: real steps are taken back bit for bit, clean set-ups pass."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, LinearLR, OneCycleLR, SequentialLR

from gnomon.doctor import diagnose
from gnomon.doctor.facts.training.schedules import learning_rates
from gnomon.doctor.patient import Patient
from gnomon.doctor.restore import rolled_back


def layer(dtype: torch.dtype = torch.float32) -> nn.Module:
    torch.manual_seed(0)
    return nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True).to(dtype)


def source(dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    values = torch.randn(4, 6, 16, generator=torch.Generator().manual_seed(0))
    return {"src": values.to(dtype)}


def finding(code: str, module: nn.Module, **fields: Any) -> Any:
    return diagnose(module, fields.pop("batch", source()), only=[code], **fields)[code]


def snapshot(optimizer: torch.optim.Optimizer, schedule: Any, module: nn.Module) -> Any:
    return copy.deepcopy((optimizer.state_dict(), schedule.state_dict(), module.state_dict()))


def same(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_real_steps_are_taken_back_bit_for_bit(dtype: torch.dtype) -> None:
    module, batch = layer(dtype), source(dtype)
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)
    schedule = LambdaLR(optimizer, lambda step: 1 / (step + 1))

    def step(batches: Any) -> None:
        for each in batches:
            module(**each).square().mean().backward()
        optimizer.step()
        schedule.step()

    step([batch])  # there are states to be kept
    for state in optimizer.state.values():  # as a master copy has them
        state["exp_avg"] = state["exp_avg"].float() + 1e-9
    groups, grads = list(optimizer.param_groups), [p.grad.clone() for p in module.parameters()]
    before = snapshot(optimizer, schedule, module)
    with rolled_back(module, optimizer, schedule):
        for state in optimizer.state.values():
            state["exp_avg"] = state["exp_avg"].to(dtype)
        step([batch, batch])
        assert not same(before, snapshot(optimizer, schedule, module))
    assert same(before, snapshot(optimizer, schedule, module))
    codes = ["schedule-speed", "clipping", "bf16-update", "accumulation", "overfit-batch"]
    diagnose(
        module, batch, optimizer=optimizer, schedule=schedule, step=step, clip_norm=1.0,
        loss=lambda m, b: m(**b).square().mean(), only=[*codes, "warmup"],
    )  # fmt: skip
    assert same(before, snapshot(optimizer, schedule, module))
    assert all(a is b for a, b in zip(groups, optimizer.param_groups, strict=True))
    after = [p.grad for p in module.parameters()]
    assert all(torch.equal(a, b) for a, b in zip(grads, after, strict=True) if b is not None)
    assert "train" not in module.__dict__ and module.training


def schedules() -> dict[str, Any]:
    def make(build: Any) -> Any:
        optimizer = torch.optim.AdamW(layer().parameters(), lr=1e-3)
        return build(optimizer)

    return {
        "lambda": make(lambda o: LambdaLR(o, lambda s: min(1.0, (s + 1) / 10))),
        "cosine": make(lambda o: CosineAnnealingLR(o, 100)),
        "one-cycle": make(lambda o: OneCycleLR(o, 1e-3, total_steps=100)),
        "sequential": make(
            lambda o: SequentialLR(o, [LinearLR(o, 0.01, 1.0, 10), CosineAnnealingLR(o, 90)], [10])
        ),
    }


@pytest.mark.parametrize("name", ["lambda", "cosine", "one-cycle", "sequential"])
def test_the_curve_is_read_without_moving_the_schedule(name: str) -> None:
    schedule = schedules()[name]
    optimizer = schedule.optimizer
    before = copy.deepcopy((optimizer.state_dict(), schedule.state_dict()))
    rates = learning_rates(Patient(schedule=schedule, planned_steps=100))
    assert same(before[0], optimizer.state_dict())
    assert {k: v for k, v in before[1].items() if not k.startswith("_sched")} == {
        k: v for k, v in schedule.state_dict().items() if not k.startswith("_sched")
    }
    real = []
    for _ in range(50):
        real.append(float(optimizer.param_groups[0]["lr"]))
        optimizer.step()
        schedule.step()
    by_step = dict(zip(rates.steps, rates.rates, strict=True))
    assert all(abs(by_step[k] - real[k]) <= 1e-9 for k in range(50))


def test_a_schedule_that_ends_early_is_named() -> None:
    module = layer()
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)
    schedule = LambdaLR(optimizer, lambda s: max(0.0, 1 - s / 100))
    found = finding(
        "schedule-speed", module, optimizer=optimizer, schedule=schedule, planned_steps=1000
    )
    assert found.verdict == "fail" and "100 of 1000" in found.evidence
    found = finding(
        "schedule-speed", module, optimizer=optimizer, schedule=schedule, planned_steps=100
    )
    assert found.verdict == "pass"


def test_fine_tuning_without_warmup_is_usual() -> None:
    module = layer()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(std=0.02)
    optimizer = torch.optim.AdamW(module.parameters(), lr=5e-5)
    found = finding("warmup", module, optimizer=optimizer, schedule=lambda s: 5e-5 * (1 - s / 1e4))
    assert found.verdict == "pass"
    found = finding("warmup", module, optimizer=optimizer, schedule=lambda s: 1e-3)
    assert found.verdict == "warn"


def test_a_warmup_longer_than_training_is_named() -> None:
    module = layer()
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)
    found = finding(
        "warmup", module, optimizer=optimizer, schedule=lambda s: s * 1e-6, planned_steps=500
    )
    assert found.verdict == "warn" and "longer than the training" in found.evidence


def test_a_rate_that_stays_at_its_peak_rises_no_more() -> None:
    module = layer()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(std=0.1)
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-4)
    rate = {"schedule": lambda s: 1e-4 * min(1, (s + 1) / 50), "planned_steps": 500}
    assert finding("warmup", module, optimizer=optimizer, **rate).verdict == "pass"


class Parts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(30, 16)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True) for _ in range(3)
        )
        self.head = nn.Linear(16, 30)
        self.unused = nn.Linear(16, 16)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        for each in self.layers:
            x = each(x)
        return self.head(x)  # type: ignore[no-any-return]


def loss(module: nn.Module, batch: Any) -> Tensor:
    return nn.functional.cross_entropy(module(**batch).flatten(0, 1), batch["ids"].flatten())


def parts(**fields: Any) -> tuple[Parts, dict[str, Any]]:
    torch.manual_seed(0)
    ids = torch.randint(1, 30, (2, 6))
    return Parts(), {"batch": {"ids": ids}, "loss": loss, **fields}


def test_an_unused_parameter_and_frozen_lower_layers_are_no_mistake() -> None:
    module, fields = parts()
    assert finding("parameter-frozen", module, **fields).verdict == "pass"
    module.embed.requires_grad_(False)
    module.layers[0].requires_grad_(False)
    assert finding("parameter-frozen", module, **fields).verdict == "pass"


def test_one_frozen_layer_and_a_wholly_frozen_model_are_named() -> None:
    module, fields = parts()
    module.layers[1].requires_grad_(False)
    found = finding("parameter-frozen", module, **fields)
    assert found.verdict == "warn" and all(n.startswith("layers.1.") for n in found.where)
    module.requires_grad_(False)
    assert finding("parameter-frozen", module, **fields).verdict == "fail"


def test_a_kind_that_is_frozen_in_every_layer_is_named_and_adapters_are_not() -> None:
    def stack() -> nn.Module:
        one = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        return nn.TransformerEncoder(one, 2, enable_nested_tensor=False)

    module, batch = stack(), {"src": torch.randn(2, 6, 16)}
    for part in module.layers:
        part.self_attn.in_proj_weight.requires_grad_(False)
    found = finding("parameter-frozen", module, batch=batch, loss=lambda m, b: m(**b).sum())
    assert found.verdict == "warn" and len(found.where) == 2
    assert all("in_proj_weight" in each for each in found.where)
    adapted = stack()
    for name, parameter in adapted.named_parameters():
        parameter.requires_grad_("self_attn.out_proj" in name or "norm" in name)
    found = finding("parameter-frozen", adapted, batch=batch, loss=lambda m, b: m(**b).sum())
    assert found.verdict == "pass", found.evidence


def test_parameters_out_of_the_optimizer_are_named_unless_unused() -> None:
    module, fields = parts()
    used = [p for n, p in module.named_parameters() if not n.startswith("unused")]
    optimizer = torch.optim.AdamW(used)
    assert finding("parameter-missing", module, optimizer=optimizer, **fields).verdict == "pass"
    optimizer = torch.optim.AdamW(used[1:])
    found = finding("parameter-missing", module, optimizer=optimizer, **fields)
    assert found.verdict == "fail" and found.where == ("embed.weight",)


def test_a_parameter_listed_twice_is_named() -> None:
    module = layer()
    parameters = list(module.parameters())
    with pytest.warns(UserWarning, match="duplicate"):
        optimizer = torch.optim.AdamW([*parameters, parameters[0]])
    found = finding("parameter-twice", module, optimizer=optimizer)
    assert found.verdict == "fail" and found.where == ("self_attn.in_proj_weight",)


def test_eps_of_fp32_states_beside_fp16_weights_is_safe() -> None:
    module = layer(torch.float16)
    optimizer = torch.optim.AdamW(module.parameters(), eps=1e-8)
    assert finding("adam-eps", module, optimizer=optimizer).verdict == "fail"
    for p in module.parameters():
        optimizer.state[p] = {"exp_avg_sq": torch.zeros_like(p, dtype=torch.float32)}
    assert finding("adam-eps", module, optimizer=optimizer).verdict == "pass"


def test_clipping_far_off_is_told_from_clipping_left_out() -> None:
    module = layer()
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)
    fields: dict[str, Any] = {
        "optimizer": optimizer, "loss": lambda m, b: 30 * (m(**b) - 1).square().mean(),
    }  # fmt: skip
    assert finding("clipping", module, clip_norm=1e-4, **fields).verdict == "warn"
    found = finding("clipping", module, clip_norm=1e6, **fields)
    assert found.verdict == "warn" and "never acts" in found.evidence
    assert finding("clipping", module, clip_norm=10.0, **fields).verdict == "pass"


@pytest.mark.parametrize(
    ("rate", "optimizer_class", "verdict"),
    [
        (1.0, torch.optim.AdamW, "warn"),
        (1e-3, torch.optim.AdamW, "pass"),
        (1.0, torch.optim.SGD, "pass"),  # its steps are as long as its gradients are, too
    ],
)
def test_steps_at_the_peak_of_a_warm_up(rate: float, optimizer_class: Any, verdict: str) -> None:
    module = layer()
    optimizer = optimizer_class(module.parameters(), lr=rate)
    schedule = LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 100))
    found = finding("gradient-ratio", module, optimizer=optimizer, schedule=schedule,
                    planned_steps=1000)  # fmt: skip
    assert found.verdict == verdict, found.evidence
    assert ("peak" in found.evidence) == (verdict == "warn")


class Mixed(nn.Module):
    """Half-precision weights that meet vectors in fp32: it runs under autocast alone."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)

    def forward(self, src: Tensor) -> Tensor:
        output: Tensor = self.layer(src)
        return output


@pytest.mark.parametrize(("dtype", "verdict"), [(torch.bfloat16, "fail"), (torch.float32, "pass")])
def test_updates_of_a_model_that_needs_autocast(dtype: torch.dtype, verdict: str) -> None:
    module = Mixed().to(dtype)
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-5)
    found = finding("bf16-update", module, optimizer=optimizer)
    assert found.verdict == verdict, found.evidence


@pytest.mark.parametrize(
    ("kind", "decay", "verdict"),
    [
        (torch.optim.AdamW, 0.01, "pass"),  # PyTorch's default
        (torch.optim.AdamW, 0.1, "warn"),
        (torch.optim.Adam, 0.01, "warn"),  # added to the gradient, it is divided by its size
        (torch.optim.SGD, 0.01, "warn"),
    ],
)
def test_decay_on_norms_is_told_where_it_matters(kind: Any, decay: float, verdict: str) -> None:
    module = layer()
    optimizer = kind(module.parameters(), lr=1e-3, weight_decay=decay)
    found = finding("decay-on-norms", module, optimizer=optimizer)
    assert found.verdict == verdict
    assert f"decay {decay:g}" in found.evidence
    if kind is torch.optim.AdamW:
        assert f"{decay:.2g} of what a step moves it" in found.evidence


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_eps_of_adam_is_told_where_it_is_lost(dtype: torch.dtype) -> None:
    module = layer(dtype)
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)
    report = diagnose(module, source(dtype), optimizer=optimizer, only=["adam-eps"])
    traits = [each for each in report.facts["anatomy"] if each["part"] == "Adam"]
    assert len(traits) == 1
    assert bool(traits[0]["paper"] and traits[0]["means"]) == (dtype == torch.float16)

"""What holds for every rule of the [optimizer] table, and what is particular to some."""

import pytest
import torch
from safetensors.torch import load_file

from gnomon import diagnose
from gnomon.doctor.preflight import _groups
from gnomon.doctor.targets.training import torch_optimizer
from gnomon.errors import RecipeError
from gnomon.recipes import TranslationRecipe
from gnomon.training import OptimizerConfig
from gnomon.training.optimizers import Optimizer, ParameterGroup, describe_groups
from gnomon.training.optimizers.eight_bit import EightBitAdamW
from gnomon.training.run import RunFolder
from training.test_optimizers import backward, transformer
from training.tiny_task import TinyTask, trainer

NAMES = ("adamw", "adafactor", "muon", "schedule_free", "lion")


def optimizer_of(name, *, sparse=False, **values):
    if name in ("schedule_free", "lion"):
        pytest.importorskip({"schedule_free": "schedulefree", "lion": "lion_pytorch"}[name])
    model = transformer(sparse=sparse)
    return model, Optimizer(model, OptimizerConfig(name=name, **values))


def take_steps(model, optimizer, tokens):
    for token in tokens:
        backward(model, [token, 9, 4])
        optimizer.step(1e-2)


@pytest.mark.parametrize("layer_decay", [1.0, 0.5])
@pytest.mark.parametrize("name", NAMES)
def test_a_continued_rule_takes_the_same_steps(name, layer_decay):
    model, optimizer = optimizer_of(name, weight_decay=0.1, layer_decay=layer_decay)
    take_steps(model, optimizer, [5, 6, 7])
    with optimizer.shipped_weights():
        shipped = {n: p.detach().clone() for n, p in model.named_parameters()}
    saved = {n: t.clone() for n, t in optimizer.state_tensors().items()}
    take_steps(model, optimizer, [8, 9])
    other, restored = optimizer_of(name, weight_decay=0.1, layer_decay=layer_decay)
    other.load_state_dict(shipped, strict=False)
    restored.load_state_tensors(saved)
    take_steps(other, restored, [8, 9])
    for parameter, again in zip(model.parameters(), other.parameters(), strict=True):
        assert parameter.equal(again)
    states, states_again = optimizer.state_tensors(), restored.state_tensors()
    assert states.keys() == states_again.keys()
    assert all(states[key].equal(states_again[key]) for key in states)
    assert all(states[key].dtype == states_again[key].dtype for key in states)


def test_rules_move_the_weights_differently():
    found = []
    for name in NAMES:
        model, optimizer = optimizer_of(name)
        take_steps(model, optimizer, [5, 6])
        found.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    assert not any(a.equal(b) for i, a in enumerate(found) for b in found[:i])


@pytest.mark.parametrize("name", NAMES)
def test_lower_layers_move_less(name):
    moved = {}
    for decay in (1.0, 0.01):
        model, optimizer = optimizer_of(name, layer_decay=decay)
        before = model.table("target").detach().clone()
        take_steps(model, optimizer, [5])
        moved[decay] = (model.table("target").detach() - before).abs().sum()
    assert moved[0.01] < 0.1 * moved[1.0]


@pytest.mark.parametrize("name", NAMES)
def test_decay_reaches_matrices_only(name):
    model, optimizer = optimizer_of(name, weight_decay=0.5)
    before = {n: p.detach().clone() for n, p in model.named_parameters()}
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step(0.1)
    for parameter_name, parameter in model.named_parameters():
        is_matrix = parameter.dim() == 2 and "tables." not in parameter_name
        factor = 0.95 if is_matrix else 1.0
        torch.testing.assert_close(parameter.detach(), before[parameter_name] * factor)


def test_muon_takes_the_matrices_of_layers_and_adamw_the_rest():
    model, optimizer = optimizer_of("muon", weight_decay=0.1)
    groups = {group.name: set(group.parameters) for group in optimizer.groups}
    assert groups["muon"] == {
        n for n, p in model.named_parameters() if "layers." in n and p.dim() == 2
    }
    assert "tables.output" in groups["no decay"]
    assert "muon" in describe_groups(optimizer.groups)
    take_steps(model, optimizer, [5])
    saved = optimizer.state_tensors()
    assert {n.split("/")[1] for n in saved if n.startswith("momentum_buffer/")} == groups["muon"]
    assert {n.split("/")[1] for n in saved if n.startswith("exp_avg/")} == groups["no decay"]


def test_a_step_of_muon_is_orthogonal():
    model, optimizer = optimizer_of("muon")
    before = {n: p.detach().clone() for n, p in optimizer.groups[0].parameters.items()}
    gradients = {n: torch.randn_like(p) for n, p in before.items()}
    for name, gradient in gradients.items():
        model.get_parameter(name).grad = gradient.clone()
    optimizer.step(1e-2)
    name = next(n for n, p in before.items() if p.shape[0] == p.shape[1])
    values = torch.linalg.svdvals(model.get_parameter(name).detach() - before[name])
    unlike = torch.linalg.svdvals(gradients[name])
    assert values.max() < 3 * values.min() < unlike.max() / unlike.min() * values.min()
    for name, old in before.items():  # as long as AdamW's, whatever the shape
        length = (model.get_parameter(name).detach() - old).square().mean().sqrt()
        assert 0.12 * 1e-2 < length < 0.25 * 1e-2, name


def test_muon_wants_layers():
    with pytest.raises(RecipeError, match="layer"):
        Optimizer(torch.nn.Linear(2, 2), OptimizerConfig(name="muon"))


def test_sparse_gradients_go_with_muon_and_not_with_others():
    model, optimizer = optimizer_of("muon", sparse=True)
    take_steps(model, optimizer, [5])
    assert {group.name for group in optimizer.groups} == {"muon", "no decay", "sparse"}
    with pytest.raises(RecipeError, match="sparse_gradient"):
        optimizer_of("adafactor", sparse=True)


def test_adafactor_keeps_a_row_and_a_column():
    model, optimizer = optimizer_of("adafactor")
    take_steps(model, optimizer, [5])
    kept = sum(t.numel() for t in optimizer.state_tensors().values())
    assert kept < 0.5 * sum(p.numel() for p in model.parameters())


def test_a_missing_package_is_named(monkeypatch):
    def refuse(name):
        raise ImportError(name)

    monkeypatch.setattr("gnomon.training.optimizers.package.import_module", refuse)
    for name, extra in (("schedule_free", "schedule-free"), ("lion", "lion")):
        with pytest.raises(RecipeError, match=rf"gnomon\[{extra}\]"):
            Optimizer(transformer(sparse=False), OptimizerConfig(name=name))


# -- states in 8 bits ------------------------------------------------------------------------------


def test_eight_bits_are_refused_on_cpus_and_for_other_rules():
    with pytest.raises(RecipeError, match="on a CPU"):
        optimizer_of("adamw", states="8bit")
    assert "states" in OptimizerConfig(name="lion", states="8bit").problems()[0]


def test_moments_in_eight_bits_continue_bit_for_bit(monkeypatch):
    """On the CPU, by torchao's arithmetic without its compiler."""
    pytest.importorskip("torchao")
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    rules, parameters = [], []
    for _ in range(2):
        torch.manual_seed(0)
        named = {n: torch.nn.Parameter(torch.randn(s)) for n, s in (("a", (64, 64)), ("b", (8,)))}
        group = ParameterGroup("decay", named, weight_decay=0.1)
        rules.append(EightBitAdamW([group], OptimizerConfig(eps=1e-8)))
        parameters.append(list(named.values()))
    gradients = [[torch.randn_like(p) for p in parameters[0]] for _ in range(4)]

    def step(number, which):
        for parameter, gradient in zip(parameters[which], gradients[number], strict=True):
            parameter.grad = gradient.clone()
        rules[which].step(1e-2)

    step(0, 0)
    step(1, 0)
    saved = {name: tensor.clone() for name, tensor in rules[0].state_tensors().items()}
    assert saved["exp_avg.codes/a"].dtype == torch.uint8
    assert saved["exp_avg/b"].dtype == torch.float32  # too small to pay
    for parameter, other in zip(*parameters, strict=True):
        other.data.copy_(parameter)
    rules[1].load_state_tensors(saved)
    for number in (2, 3):
        step(number, 0)
        step(number, 1)
    assert all(a.equal(b) for a, b in zip(*parameters, strict=True))
    again = rules[1].state_tensors()
    assert all(again[name].equal(tensor) for name, tensor in rules[0].state_tensors().items())


# -- Schedule-Free ---------------------------------------------------------------------------------


def test_schedule_free_ships_its_mean_and_goes_on_as_if_nobody_had_looked():
    model, optimizer = optimizer_of("schedule_free")
    twin, unseen = optimizer_of("schedule_free")
    for token in (5, 6, 7):
        take_steps(model, optimizer, [token])
        take_steps(twin, unseen, [token])
        with optimizer.shipped_weights():
            pass
    assert all(a.equal(b) for a, b in zip(model.parameters(), twin.parameters(), strict=True))
    state = optimizer.state_tensors()
    name = next(n for n, p in model.named_parameters() if p.dim() == 2)
    y, z = state[f"weights/{name}"], state[f"z/{name}"]
    with optimizer.shipped_weights():  # y = (1 - β) z + β x
        x = model.get_parameter(name).detach().clone()
    torch.testing.assert_close(0.1 * z + 0.9 * x, y)
    assert not x.equal(y)


def test_a_run_validates_and_ships_the_mean(tmp_path):
    pytest.importorskip("schedulefree")
    seen, run = [], RunFolder(tmp_path)
    task = TinyTask()

    def validate(step):
        seen.append(task.model.inner.weight.detach().clone())
        return {"nll": 1.0}

    config = OptimizerConfig(name="schedule_free")
    trainer(run, task, optimizer=config, validate=validate, max_steps=6, validate_every=3).fit()
    last = run.checkpoints.path(6)
    shipped = load_file(last / "model.safetensors")["inner.weight"]
    assert shipped.equal(seen[-1])
    assert not shipped.equal(load_file(last / "training.safetensors")["weights/inner.weight"])


# -- the doctor's view -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_the_preflight_sees_the_groups_that_training_makes(name):
    model, optimizer = optimizer_of(name, weight_decay=0.1)
    recipe = TranslationRecipe(optimizer=optimizer.config)
    groups = _groups(model, recipe, 1e-3).param_groups
    made = torch_optimizer(model, optimizer.config, 1e-3).param_groups
    assert len(groups) == len(made)
    for seen, real in zip(groups, made, strict=True):
        assert [id(p) for p in seen["params"]] == [id(p) for p in real["params"]]
        for key in ("lr", "weight_decay", *(("betas", "eps") if "betas" in seen else ())):
            assert seen.get(key) == real.get(key), key


@pytest.mark.parametrize("name", NAMES)
def test_the_doctor_examines_each(name):
    """With steps of the very optimizer, which are taken back."""
    model, optimizer = optimizer_of(name, weight_decay=0.1)
    take_steps(model, optimizer, [5])
    before = {n: p.detach().clone() for n, p in model.named_parameters()}
    report = diagnose(
        model,
        {"ids": torch.tensor([[4, 5, 6, 7], [7, 6, 5, 4]])},
        optimizer=torch_optimizer(model, optimizer.config, 1e-3, optimizer.state_tensors()),
        only=["adam-eps", "decay-on-norms", "parameter-missing", "gradient-ratio"],
    )
    assert not report.of("fail", "warn"), [f.evidence for f in report.of("fail", "warn")]
    assert {f.code for f in report.of("pass")} >= {"decay-on-norms", "parameter-missing"}
    assert all(p.equal(before[n]) for n, p in model.named_parameters())


@pytest.mark.parametrize("name", NAMES)
def test_the_doctors_optimizer_takes_the_step_that_training_takes(name):
    model, optimizer = optimizer_of(name, weight_decay=0.1)
    take_steps(model, optimizer, [5, 6])
    twin, _ = optimizer_of(name)
    twin.load_state_dict(model.state_dict())
    saved = {n: t.clone() for n, t in optimizer.state_tensors().items()}
    seen = torch_optimizer(twin, optimizer.config, 1e-2, saved)
    named = {id(p) for group in seen.param_groups for p in group["params"]}
    assert named == {id(p) for p in twin.parameters()}
    assert len(seen.state) == len(list(twin.parameters()))
    take_steps(model, optimizer, [7])
    backward(twin, [7, 9, 4])
    seen.step()
    assert all(a.equal(b) for a, b in zip(model.parameters(), twin.parameters(), strict=True))

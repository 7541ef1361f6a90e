import math
import subprocess
import sys

import pytest
import torch

from gnomon.errors import RecipeError
from gnomon.model import (
    AttentionConfig,
    EmbeddingConfig,
    FeedForwardConfig,
    Transformer,
    TransformerConfig,
)
from gnomon.training.optimizers import Optimizer, OptimizerConfig, describe_groups, group_parameters
from training.tiny_task import TinyModel


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("decay_embeddings", [True, False])
def test_each_parameter_is_in_one_group_once(tied, decay_embeddings):
    model = TinyModel(tied=tied)
    config = OptimizerConfig(weight_decay=0.1, decay_embeddings=decay_embeddings)
    groups = group_parameters(model, config)
    members = [id(p) for group in groups for p in group.parameters.values()]
    assert len(members) == len(set(members))
    assert set(members) == {id(p) for p in model.parameters()}


def test_norms_and_biases_never_decay_and_embeddings_only_on_request():
    model = TinyModel(tied=False)
    plain = {g.name: set(g.parameters) for g in group_parameters(model, OptimizerConfig())}
    assert plain["decay"] == {"inner.weight"}
    assert plain["no decay"] == {
        "tables.source",
        "tables.output",
        "inner.bias",
        "norm.weight",
        "norm.bias",
    }
    config = OptimizerConfig(weight_decay=0.1, decay_embeddings=True)
    asked = {g.name: set(g.parameters) for g in group_parameters(model, config)}
    assert asked["no decay"] == {"inner.bias", "norm.weight", "norm.bias"}


def test_decay_moves_only_the_decay_group():
    model = TinyModel()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer = Optimizer(model, OptimizerConfig(weight_decay=0.5))
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step(0.1)
    for name, parameter in model.named_parameters():
        factor = 0.95 if name == "inner.weight" else 1.0
        torch.testing.assert_close(parameter.detach(), before[name] * factor)


def test_frozen_parameters_are_left_out():
    model = TinyModel()
    model.inner.weight.requires_grad_(False)
    names = {n for g in group_parameters(model, OptimizerConfig()) for n in g.parameters}
    assert "inner.weight" not in names


def test_the_table_counts_every_element():
    model = TinyModel()
    groups = group_parameters(model, OptimizerConfig(weight_decay=0.01))
    assert sum(g.num_elements for g in groups) == sum(p.numel() for p in model.parameters())
    header, decay, rest = describe_groups(groups).splitlines()
    assert header.split() == ["group", "parameters", "elements", "decay"]
    assert decay.split() == ["decay", "1", "64", "0.01"]
    assert rest.split() == ["no", "decay", "4", "152", "0"]


def test_first_step_is_adam_by_hand():
    model = TinyModel()
    optimizer = Optimizer(model, OptimizerConfig(betas=(0.9, 0.98), eps=1e-9))
    before = model.inner.weight.detach().clone()
    for p in model.parameters():
        p.grad = torch.full_like(p, 3.0)
    optimizer.step(0.01)
    # m̂ = g, v̂ = g², so the first step is lr · g/(|g| + eps) whatever the gradient's size.
    torch.testing.assert_close(model.inner.weight.detach(), before - 0.01)
    assert all(p.grad is None for p in model.parameters())


def test_clipping_scales_all_gradients_together():
    model = TinyModel()
    optimizer = Optimizer(model, OptimizerConfig(clip_norm=0.5))
    for p in model.parameters():
        p.grad = torch.randn_like(p)
    whole = torch.cat([p.grad.flatten() for p in model.parameters()])
    norm = optimizer.gradient_norm().item()
    assert norm == pytest.approx(whole.norm().item(), rel=1e-6)
    optimizer.clip(norm)
    clipped = torch.cat([p.grad.flatten() for p in model.parameters()])
    torch.testing.assert_close(clipped, whole * (0.5 / norm))
    optimizer.clip(optimizer.gradient_norm().item() * 0.99)
    assert torch.cat([p.grad.flatten() for p in model.parameters()]).equal(clipped)


def test_zero_turns_clipping_off():
    model = TinyModel()
    optimizer = Optimizer(model, OptimizerConfig(clip_norm=0))
    for p in model.parameters():
        p.grad = torch.full_like(p, 100.0)
    optimizer.clip(optimizer.gradient_norm().item())
    assert model.inner.weight.grad.eq(100).all()


def transformer(*, sparse):
    torch.manual_seed(0)
    return Transformer(
        TransformerConfig(
            family="decoder",
            vocab_size=16,
            d_model=8,
            num_decoder_layers=1,
            attention=AttentionConfig(num_heads=2),
            feedforward=FeedForwardConfig(size=16),
            embedding=EmbeddingConfig(sparse_gradient=sparse),
            dropout=0.0,
            tie="none",
        )
    )


def backward(model, tokens):
    model(torch.tensor([tokens])).square().sum().backward()


@pytest.mark.parametrize("tie", ["none", "decoder", "all"])
def test_each_parameter_of_a_transformer_is_in_one_group_once(tie):
    model = Transformer(TransformerConfig(vocab_size=16, d_model=64, tie=tie))
    groups = group_parameters(model, OptimizerConfig(weight_decay=0.1))
    members = [id(p) for group in groups for p in group.parameters.values()]
    assert len(members) == len(set(members))
    assert set(members) == {id(p) for p in model.parameters()}
    decaying = next(g for g in groups if g.name == "decay").parameters
    assert not any("norm" in name or "bias" in name or "table" in name for name in decaying)
    assert all(p.dim() == 2 for p in decaying.values())


def test_a_sparse_embedding_moves_only_the_rows_it_saw():
    model = transformer(sparse=True)
    optimizer = Optimizer(model, OptimizerConfig(clip_norm=0.1))
    assert [g.name for g in optimizer.groups] == ["decay", "no decay", "sparse"]
    table = model.table("target")
    before = table.detach().clone()
    backward(model, [5, 7, 5])
    assert table.grad.is_sparse
    dense = [p.grad.to_dense().flatten() for p in model.parameters()]
    norm = optimizer.gradient_norm().item()
    assert norm == pytest.approx(torch.cat(dense).norm().item(), rel=1e-5)
    optimizer.clip(norm)
    assert optimizer.gradient_norm().item() == pytest.approx(0.1, rel=1e-4)
    optimizer.step(0.01)
    moved = (table.detach() != before).any(dim=1)
    assert moved.nonzero().flatten().tolist() == [5, 7]


@pytest.mark.parametrize("sparse", [False, True])
def test_state_survives_a_round_trip_bitwise(sparse):
    def steps(model, optimizer, count):
        for index in range(count):
            backward(model, [4 + index, 9])
            optimizer.step(0.01)

    model, other = transformer(sparse=sparse), transformer(sparse=sparse)
    optimizer = Optimizer(model, OptimizerConfig())
    steps(model, optimizer, 3)
    other.load_state_dict(model.state_dict())
    restored = Optimizer(other, OptimizerConfig())
    restored.load_state_tensors({n: t.clone() for n, t in optimizer.state_tensors().items()})
    steps(model, optimizer, 2)
    steps(other, restored, 2)
    for name, parameter in model.named_parameters():
        assert parameter.equal(other.get_parameter(name)), name
    assert optimizer.state_tensors().keys() == restored.state_tensors().keys()


def test_eps_that_vanishes_is_refused_by_name():
    assert not OptimizerConfig(eps=1e-9).problems()
    assert "float16" in OptimizerConfig(eps=1e-8).problems(torch.float16)[0]
    assert OptimizerConfig(eps=1e-46).problems()
    assert OptimizerConfig(eps=0.0).problems()
    with pytest.raises(RecipeError, match="float16"):
        Optimizer(TinyModel().half(), OptimizerConfig(eps=1e-8))


def test_all_problems_are_told_at_once():
    config = OptimizerConfig(betas=(1.0, 0.9), eps=-1, weight_decay=-1, clip_norm=math.nan)
    assert len(config.problems()) == 4
    assert OptimizerConfig(decay_embeddings=True).unused()
    assert not OptimizerConfig(decay_embeddings=True, weight_decay=0.1).unused()


def test_the_dense_step_is_torchs_own_bit_for_bit():
    model, twin = transformer(sparse=False), transformer(sparse=False)
    ours = Optimizer(model, OptimizerConfig(weight_decay=0.1, betas=(0.9, 0.98)))
    theirs = torch.optim.AdamW(
        [
            {"params": list(group.parameters.values()), "weight_decay": group.weight_decay}
            for group in group_parameters(twin, OptimizerConfig(weight_decay=0.1))
        ],
        betas=(0.9, 0.98),
        eps=1e-9,
        fused=True,
    )
    for step in range(5):
        backward(model, [5, 7, step])
        backward(twin, [5, 7, step])
        ours.step(0.01 * (step + 1))
        for group in theirs.param_groups:
            group["lr"] = 0.01 * (step + 1)
        theirs.step()
        theirs.zero_grad()
    for one, other in zip(model.parameters(), twin.parameters(), strict=True):
        assert one.equal(other)


def test_an_optimizer_imports_no_compiler():
    """PyTorch's takes seconds of CPU, at every start of a training."""
    script = (
        "import sys, torch; from gnomon.training.optimizers import Optimizer, OptimizerConfig; "
        "model = torch.nn.Linear(2, 2); optimizer = Optimizer(model, OptimizerConfig()); "
        "model(torch.ones(1, 2)).sum().backward(); optimizer.gradient_norm(); "
        "optimizer.step(0.1); print('torch._dynamo' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert done.stdout.strip() == b"False"

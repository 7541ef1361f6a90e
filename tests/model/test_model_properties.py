"""What must hold for every model whatever its switches, in float64 so that it holds sharply."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from gnomon.model import Transformer, TransformerConfig, blocked, use_backend
from model_configs import CONFIGS, changed

S, T = 9, 7
EXACT = {"rtol": 0.0, "atol": 1e-10}

every = pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
decoders = {name: config for name, config in CONFIGS.items() if config.has_decoder()}
every_decoder = pytest.mark.parametrize("config", decoders.values(), ids=decoders.keys())
padding = {name: config for name, config in CONFIGS.items() if config.pad_id is not None}
every_padded = pytest.mark.parametrize("config", padding.values(), ids=padding.keys())


def build(config: TransformerConfig, dtype: torch.dtype = torch.float64) -> Transformer:
    """A model with every parameter random, so that no zero bias hides a mistake."""
    torch.manual_seed(3)
    model = Transformer(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    return model.to(dtype).eval()


def texts(num_rows: int, length: int, seed: int = 0) -> Tensor:
    """Random ids without padding, specials or repetition of the seed."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(4, 29, (num_rows, length), generator=generator)


def outputs(model: Transformer, ids: Tensor, target: Tensor | None = None) -> Tensor:
    """Logits, or hidden states where there is no head."""
    if model.head is None:
        return model.encode(ids)
    if model.config.family == "encoder_decoder":
        return model(ids, texts(len(ids), T, seed=1) if target is None else target)
    return model(ids)


@every
def test_every_parameter_learns(config: TransformerConfig) -> None:
    model = build(config)
    ids = texts(3, S)
    if model.source_embedding is not None and config.embedding.num_segments:
        hidden = model.encode(ids, segments=ids % 2)
        if config.family == "encoder_decoder":
            target = texts(3, T)
            hidden = model.decode(target, hidden, segments=target % 2)
        result = hidden if model.head is None else model.project(hidden)
    elif config.embedding.num_segments:
        result = model.project(model.decode(ids, segments=ids % 2))
    else:
        result = outputs(model, ids)
    loss = (result * torch.randn_like(result)).sum()
    if model.pooler is not None:
        loss = loss + model.pool(model.encode(ids)).sum()
    loss.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        gradient = parameter.grad.to_dense()
        assert torch.isfinite(gradient).all(), name
        assert gradient.any(), name
        if name.endswith("segments"):
            assert gradient.any(dim=-1).all(), "a segment was not used"


@every
def test_texts_do_not_depend_on_their_batch_or_its_order(config: TransformerConfig) -> None:
    model = build(config)
    ids, target = texts(4, S), texts(4, T, seed=1)
    together = outputs(model, ids, target)
    order = torch.tensor([2, 0, 3, 1])
    torch.testing.assert_close(outputs(model, ids[order], target[order]), together[order], **EXACT)
    for row in range(4):
        alone = outputs(model, ids[row : row + 1], target[row : row + 1])
        torch.testing.assert_close(alone, together[row : row + 1], **EXACT)


@every_padded
def test_padding_changes_nothing(config: TransformerConfig) -> None:
    model = build(config)
    ids, target = texts(2, S), texts(2, T, seed=1)
    plain = outputs(model, ids, target)
    if config.family == "decoder":
        for side in ("left", "right"):
            pad = (4, 0) if side == "left" else (0, 4)
            keep = F.pad(torch.ones_like(ids, dtype=torch.bool), pad, value=False)
            padded = model.project(model.decode(F.pad(ids, pad), keep=keep))
            padded = padded[:, 4:] if side == "left" else padded[:, :S]
            torch.testing.assert_close(padded, plain, **EXACT)
    else:
        padded = outputs(model, F.pad(ids, (0, 5)), target)[:, : plain.shape[1]]
        torch.testing.assert_close(padded, plain, **EXACT)


@every_decoder
def test_nobody_sees_the_future(config: TransformerConfig) -> None:
    model = build(config)
    ids, target = texts(2, S), texts(2, T, seed=1)
    if config.family == "decoder":
        ids, target = target, ids

    def run(target: Tensor) -> Tensor:
        return model(target) if config.family == "decoder" else model(ids, target)

    before = run(target)
    for position in range(1, target.shape[1]):
        perturbed = target.clone()
        perturbed[:, position:] = 4 + (perturbed[:, position:] - 3) % 25
        after = run(perturbed)
        torch.testing.assert_close(after[:, :position], before[:, :position], **EXACT)
        assert not torch.allclose(after[:, position:], before[:, position:])


@every_decoder
@torch.no_grad()
def test_decoding_with_a_cache_equals_decoding_without(config: TransformerConfig) -> None:
    model = build(config)
    ids, target = texts(3, S), texts(3, T, seed=1)
    ids[1, 4:] = 0
    memory = memory_keep = None
    if config.family == "encoder_decoder":
        memory_keep = model.keep(ids)
        memory = model.encode(ids)
    whole = model.decode(target, memory, memory_keep)
    for sizes in ([1] * T, [3, 1, 3], [T]):
        cache = model.new_cache(max_length=T)
        steps = [
            model.decode(part, memory, memory_keep, cache=cache) for part in target.split(sizes, 1)
        ]
        torch.testing.assert_close(torch.cat(steps, dim=1), whole, **EXACT)
        assert cache.length == T


@every_decoder
@torch.no_grad()
def test_rows_of_a_cache_can_be_moved_repeated_and_dropped(config: TransformerConfig) -> None:
    model = build(config)
    ids, target = texts(3, S), texts(3, T, seed=1)
    ids[1, 4:] = 0
    memory = memory_keep = None
    if config.family == "encoder_decoder":
        memory, memory_keep = model.encode(ids), model.keep(ids)
    cache = model.new_cache(max_length=T)
    model.decode(target[:, :2], memory, memory_keep, cache=cache)
    rows = torch.tensor([2, 0, 0, 1])
    cache.select(rows, torch.zeros(len(rows), 1, dtype=torch.long))
    model.decode(target[rows, 2:3], cache=cache)
    again = torch.tensor([1, 3])
    cache.select(again, torch.zeros(len(again), 1, dtype=torch.long))
    rows = rows[again]
    last = model.decode(target[rows, 3:4], cache=cache)
    memory = None if memory is None else memory[rows]
    memory_keep = None if memory_keep is None else memory_keep[rows]
    if config.position.rope.scaling == "dynamic_ntk":
        whole_cache = model.new_cache(max_length=T)
        whole = model.decode(target[rows, :4], memory, memory_keep, cache=whole_cache)
    else:
        whole = model.decode(target[rows, :4], memory, memory_keep)
    torch.testing.assert_close(last, whole[:, 3:], **EXACT)


@pytest.mark.parametrize(
    "config",
    [config for config in decoders.values() if config.family == "decoder"],
    ids=[name for name, config in decoders.items() if config.family == "decoder"],
)
@torch.no_grad()
def test_prompts_padded_on_the_left_continue_like_prompts_alone(config: TransformerConfig) -> None:
    model = build(config)
    prompts = [texts(1, 5, seed=1), texts(1, 2, seed=2)]
    going_on = texts(2, 3, seed=3)
    ids = torch.cat([F.pad(prompt, (5 - prompt.shape[1], 0)) for prompt in prompts])
    cache = model.new_cache(max_length=9)
    model.decode(ids, keep=ids != 0, cache=cache)
    together = torch.cat(
        [model.decode(part, cache=cache) for part in going_on.split(1, dim=1)], dim=1
    )
    expected = []
    for row, prompt in enumerate(prompts):
        alone = model.new_cache(max_length=9)
        model.decode(prompt, cache=alone)
        expected.append(model.decode(going_on[row : row + 1], cache=alone))
        torch.testing.assert_close(together[row : row + 1], expected[row], **EXACT)
        expected[row] = model.decode(torch.tensor([[7]]), cache=alone)
    cache.select(torch.tensor([1, 0]), torch.zeros(2, 1, dtype=torch.long))
    swapped = model.decode(torch.tensor([[7], [7]]), cache=cache)
    torch.testing.assert_close(swapped, torch.cat(expected[::-1]), **EXACT)


@every
def test_texts_of_one_token(config: TransformerConfig) -> None:
    model = build(config)
    assert torch.isfinite(outputs(model, texts(2, 1), texts(2, 1, seed=1))).all()


@every_padded
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
def test_a_text_of_nothing_but_padding_hurts_nobody(
    config: TransformerConfig, dtype: torch.dtype
) -> None:
    model = build(config, dtype).train()
    ids, target = texts(2, S), texts(2, T, seed=1)
    alone = outputs(model.eval(), ids[:1], target[:1])
    ids[1] = 0
    for backend in ("reference", "sdpa"):
        model.zero_grad()
        with use_backend(backend):
            result = outputs(model, ids, target)
        assert torch.isfinite(result).all()
        result.float().square().sum().backward()
        for name, parameter in model.named_parameters():
            if parameter.grad is not None:
                assert torch.isfinite(parameter.grad.to_dense()).all(), name
        if dtype == torch.float32:
            torch.testing.assert_close(result[:1], alone, rtol=1e-4, atol=1e-4)


@every
def test_backends_agree(config: TransformerConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    model = build(config)
    ids, target = texts(2, S), texts(2, T, seed=1)
    if config.pad_id is not None and config.family != "decoder":
        ids[1, 5:] = 0
    results, gradients = [], []
    monkeypatch.setattr(blocked, "SMALLEST_BLOCK", 1)
    for backend in ("reference", "sdpa", "blocked", None):
        model.zero_grad()
        if backend is None:
            result = outputs(model, ids, target)
        else:
            with use_backend(backend):
                result = outputs(model, ids, target)
        result.square().sum().backward()
        results.append(result)
        gradients.append(
            torch.cat(
                [p.grad.to_dense().flatten() for p in model.parameters() if p.grad is not None]
            )
        )
    for result, gradient in zip(results[1:], gradients[1:], strict=True):
        torch.testing.assert_close(result, results[0], **EXACT)
        torch.testing.assert_close(gradient, gradients[0], rtol=1e-9, atol=1e-9)


@every
@pytest.mark.filterwarnings("error:Mismatch dtype")  # a norm that fell off its fused kernel
def test_bfloat16_stays_near(config: TransformerConfig) -> None:
    exact = build(config, torch.float64)
    ids, target = texts(2, S), texts(2, T, seed=1)
    reference = outputs(exact, ids, target)
    scale = reference.abs().max()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        mixed = outputs(build(config, torch.float32), ids, target)
    assert (mixed.double() - reference).abs().max() < 0.1 * scale
    pure = outputs(build(config, torch.bfloat16), ids, target)
    assert pure.dtype == torch.bfloat16
    assert (pure.double() - reference).abs().max() < 0.2 * scale


@every
def test_training_mode_replays_under_one_seed(config: TransformerConfig) -> None:
    model = build(config, torch.float32).train()
    ids = texts(2, S)
    results = []
    for seed in (5, 5, 6):
        torch.manual_seed(seed)
        results.append(outputs(model, ids))
    assert torch.equal(results[0], results[1])
    has_dropout = config.dropout > 0
    assert torch.equal(results[0], results[2]) != has_dropout


headed = {name: config for name, config in CONFIGS.items() if config.head.kind != "none"}


@pytest.mark.parametrize("config", headed.values(), ids=headed.keys())
def test_the_first_loss_is_that_of_guessing(config: TransformerConfig) -> None:
    torch.manual_seed(0)
    sizes = {"vocab_size": 8000, "d_model": 64}
    if config.target_vocab_size is not None:
        sizes["target_vocab_size"] = 8100
    model = Transformer(changed(config, sizes)).eval()
    ids, target = texts(8, S), texts(8, T, seed=1)
    logits = outputs(model, ids, target)
    loss = (logits.logsumexp(dim=-1) - logits.mean(dim=-1)).mean().item()  # any label alike
    # Logits of unit variance cost half a nat more than uniform ones.
    assert abs(loss - math.log(logits.shape[-1])) < 0.65

"""How models start, and that depth does not kill the gradient."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from gnomon.model import Transformer
from gnomon.model.linear import FusedLinear
from model_configs import BASE, CONFIGS, changed


def test_each_part_of_a_fused_projection_has_its_own_fan() -> None:
    torch.manual_seed(0)
    layer = FusedLinear(64, (64, 32, 32), (True, False, True))
    layer.initialise()
    for part, size in zip(layer.weight.split([64, 32, 32]), (64, 32, 32), strict=True):
        bound = math.sqrt(6 / (64 + size))
        assert bound * 0.98 < part.abs().max().item() <= bound
    assert layer.bias is not None and not layer.bias.any()


def test_a_fused_projection_is_its_parts_side_by_side() -> None:
    torch.manual_seed(0)
    layer = FusedLinear(8, (4, 6, 2), (True, False, True))
    layer.initialise()
    assert layer.bias is not None and layer.bias.shape == (6,)
    torch.nn.init.normal_(layer.bias)
    x = torch.randn(3, 8)
    first, second, third = layer.weight.split([4, 6, 2])
    expected = (
        F.linear(x, first, layer.bias[:4]),
        F.linear(x, second),
        F.linear(x, third, layer.bias[4:]),
    )
    torch.testing.assert_close(layer(x), torch.cat(expected, dim=-1))


def test_token_tables_are_normal_with_the_width_s_root() -> None:
    torch.manual_seed(0)
    model = Transformer(changed(BASE, {"vocab_size": 3000, "d_model": 64}))
    table = model.table("source")
    assert table.std().item() == pytest.approx(64**-0.5, rel=0.02)
    assert (table * 8).var().item() == pytest.approx(1.0, rel=0.02)


def test_the_first_loss_at_the_width_of_the_2017_base_model() -> None:
    torch.manual_seed(0)
    changes = {"vocab_size": 2000, "d_model": 512, "tie": "none", "norm.placement": "pre"}
    model = Transformer(changed(BASE, changes)).eval()
    ids = torch.randint(1, 2000, (4, 9))
    logits = model(ids, ids)
    loss = F.cross_entropy(logits.flatten(0, 1), ids.flatten()).item()
    # Logits of unit variance cost half a nat more than uniform ones.
    assert loss == pytest.approx(math.log(2000) + 0.5, abs=0.15)


def test_deepnorm_scales_are_the_papers() -> None:
    """Table 1 of Wang et al. (2022) for 18 encoder and 6 decoder layers, and single stacks."""
    both = changed(
        CONFIGS["deepnorm"], {"num_encoder_layers": 18, "num_decoder_layers": 6}
    ).residual_scales
    assert both("encoder") == pytest.approx(
        (0.81 * (18**4 * 6) ** (1 / 16), 0.87 * (18**4 * 6) ** (-1 / 16))
    )
    assert both("decoder") == pytest.approx((18**0.25, 72**-0.25))
    single = changed(CONFIGS["decoder_deepnorm"], {"num_decoder_layers": 50}).residual_scales
    assert single("decoder") == pytest.approx((100**0.25, 400**-0.25))


def test_deepnorm_shrinks_what_writes_into_the_residual_path_only() -> None:
    torch.manual_seed(0)
    plain = Transformer(BASE)
    torch.manual_seed(0)
    config = CONFIGS["deepnorm"]
    deep = Transformer(config)
    for stack in ("encoder", "decoder"):
        beta = config.residual_scales("encoder" if stack == "encoder" else "decoder")[1]
        before, after = (getattr(model, stack).layers[0] for model in (plain, deep))
        expected = before.attention.query_key_value.weight.clone()
        expected[32:] *= beta
        torch.testing.assert_close(after.attention.query_key_value.weight, expected)
        for name in ("attention.out", "feedforward.up", "feedforward.down"):
            weight = before.get_submodule(name).weight
            torch.testing.assert_close(after.get_submodule(name).weight, weight * beta)
    cross = [model.decoder.layers[0].cross for model in (plain, deep)]  # type: ignore[union-attr]
    beta = config.residual_scales("decoder")[1]
    torch.testing.assert_close(cross[1].query.weight, cross[0].query.weight)
    expected = cross[0].key_value.weight.clone()
    expected[16:] *= beta
    torch.testing.assert_close(cross[1].key_value.weight, expected)


@pytest.mark.parametrize("changes", [{}, {"norm.kind": "rms"}], ids=["layer", "rms"])
def test_a_hundred_layers_train(changes: dict[str, str]) -> None:
    torch.manual_seed(0)
    base = {"family": "decoder", "norm.placement": "pre", "num_decoder_layers": 100, "d_model": 32}
    model = Transformer(changed(BASE, {**base, **changes}))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    ids = torch.randint(1, 29, (4, 12))
    losses = []
    for _ in range(6):
        optimizer.zero_grad()
        logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        norms = [
            torch.cat([p.grad.flatten() for p in layer.parameters() if p.grad is not None]).norm()
            for layer in model.decoder.layers  # type: ignore[union-attr]
        ]
        assert all(torch.isfinite(norm) for norm in norms)
        # The identity path carries the gradient from the last layer to the first.
        assert min(norms) > 0.02 * max(norms)
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


def test_initialising_again_after_a_meta_device() -> None:
    with torch.device("meta"):
        model = Transformer(CONFIGS["t5"])
    model.to_empty(device="cpu")
    torch.manual_seed(0)
    model.initialise()
    torch.manual_seed(0)
    usual = Transformer(CONFIGS["t5"])
    for name, parameter in usual.named_parameters():
        assert torch.equal(parameter, model.get_parameter(name)), name

"""What the checks of scores say beyond their examples: causes, places, sound models."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gnomon.doctor import Finding, diagnose
from gnomon.model import Transformer, TransformerConfig
from gnomon.model.attention import AttentionConfig
from gnomon.model.feedforward import FeedForwardConfig

transformers = pytest.importorskip("transformers")

SMALL = {
    "vocab_size": 60,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
}


class Reader(nn.Module):
    """Two layers of attention by hand, with its steps as attributes to break."""

    def __init__(self, scale: float = 8**-0.5) -> None:
        super().__init__()
        self.embed, self.places = nn.Embedding(60, 32), nn.Embedding(40, 32)
        self.layers = nn.ModuleList(Layer(scale) for _ in range(2))

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids) + self.places(torch.arange(ids.size(1)))
        for layer in self.layers:
            x = x + layer(x)
        return x


class Layer(nn.Module):
    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale
        self.merge_by_view = self.normalise = False
        self.query, self.key, self.value, self.out = (nn.Linear(32, 32) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        B, T, D = x.shape
        q, k, v = (
            f(x).view(B, T, 4, 8).transpose(1, 2) for f in (self.query, self.key, self.value)
        )
        if self.normalise:
            q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        context = F.softmax(q @ k.transpose(-1, -2) * self.scale, dim=-1) @ v
        if self.merge_by_view:
            return self.out(context.reshape(B, T, D))  # type: ignore[no-any-return]
        return self.out(context.transpose(1, 2).reshape(B, T, D))  # type: ignore[no-any-return]


def ids() -> Tensor:
    return torch.randint(1, 60, (3, 12), generator=torch.Generator().manual_seed(1))


def reader(**changes: Any) -> Reader:
    torch.manual_seed(0)
    return Reader(**changes)


def finding(code: str, module: nn.Module, **fields: Any) -> Finding:
    batch = fields.pop("batch", {"ids": ids()})
    return diagnose(module, batch, only=[code], **fields)[code]


def stock(name: str, **more: Any) -> nn.Module:
    torch.manual_seed(0)
    model = getattr(transformers, name)
    return model(model.config_class(**{**SMALL, **more})).eval()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("scale", "words"),
    [(1.0, "Nothing scales"), (1 / 8, "applied twice"), (32**-0.5, "1/√d_model"), (0.1, "neither")],
)
def test_the_cause_of_a_wrong_scale_is_told(scale: float, words: str) -> None:
    found = finding("score-scale", reader(scale=scale))
    assert found.verdict in ("fail", "warn")
    assert words in found.cause
    assert found.where == ("layers.0", "layers.1")


def test_one_layer_that_scales_otherwise_than_the_rest_fails_by_name() -> None:
    module = reader()
    module.layers[1].scale = 1.0  # type: ignore[assignment]
    found = finding("score-scale", module)
    assert (found.verdict, found.where) == ("fail", ("layers.1",))


def test_a_missing_scale_that_shows_in_the_scores_fails() -> None:
    module = reader(scale=1.0)
    with torch.no_grad():
        for layer in module.layers:
            for each in (layer.query, layer.key):
                each.weight *= 3  # type: ignore[union-attr,operator]
    assert finding("score-scale", module).verdict == "fail"


def test_weights_that_make_up_for_the_scale_are_right() -> None:
    """T5's way: no factor, and queries drawn smaller by √d_k."""
    module = reader(scale=1.0)
    with torch.no_grad():
        for layer in module.layers:
            for each in layer.query.parameters():  # type: ignore[union-attr,operator]
                each *= 8**-0.5
    assert finding("score-scale", module).verdict == "pass"


def test_normalised_queries_and_keys_have_their_own_scale() -> None:
    module = reader(scale=10.0)
    for layer in module.layers:
        layer.normalise = True  # type: ignore[assignment]
    assert finding("score-scale", module).verdict == "pass"


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("GraniteForCausalLM", {"attention_multiplier": 0.3, "num_key_value_heads": 2}),
        ("GPT2LMHeadModel", {"scale_attn_by_inverse_layer_idx": True}),
        ("GPT2LMHeadModel", {"scale_attn_weights": False}),
        ("Gemma2ForCausalLM", {"query_pre_attn_scalar": 16, "head_dim": 8}),
    ],
)
def test_what_a_stock_class_does_by_configuration_is_right(name: str, more: Any) -> None:
    module = stock(name, **more)
    assert finding("score-scale", module, batch={"input_ids": ids()}).verdict == "pass"


def test_a_stock_model_whose_scale_was_changed_fails_by_name() -> None:
    module = stock("BertForMaskedLM", attn_implementation="sdpa")
    module.bert.encoder.layer[1].attention.self.scaling = 1.0  # type: ignore[union-attr,index,operator]
    found = finding("score-scale", module, batch={"input_ids": ids()})
    assert (found.verdict, found.where) == ("fail", ("bert.encoder.layer.1.attention.self",))


def test_attention_sinks_are_no_collapse() -> None:
    """All queries of all heads look at the first token, as in many trained models."""
    module = reader()
    with torch.no_grad():
        for table in (module.embed, module.places):
            table.weight[:, 0] = 0.0
        module.places.weight[0, 0] = 8.0  # what only the first token has
        for each in module.layers:
            layer: Any = each
            layer.query.bias.fill_(2.0)
            layer.key.weight[:, 0] = 1.0
            layer.out.weight[0] = layer.out.bias[0] = 0.0
    for code in ("entropy-collapse", "saturated-softmax"):
        assert finding(code, module).verdict == "pass", code


def test_collapse_in_one_layer_is_told_there() -> None:
    module = reader()
    with torch.no_grad():
        module.layers[1].query.weight *= 60  # type: ignore[union-attr,operator]
    for code in ("entropy-collapse", "saturated-softmax"):
        found = finding(code, module)
        assert found.verdict in ("fail", "warn")
        assert found.where == ("layers.1",)


@pytest.mark.parametrize("part", ["value", "out", "query"])
def test_dead_heads_are_named_with_their_cause(part: str) -> None:
    module = reader()
    with torch.no_grad():
        layer: Any = module.layers[0]
        if part == "out":
            layer.out.weight[:, 16:24] = 0.0
        else:
            getattr(layer, part).weight[16:24] = 0.0
            getattr(layer, part).bias[16:24] = 0.0
    found = finding("dead-heads", module)
    assert found.verdict == "fail"
    assert found.where == ("head 2 of layers.0",)
    words = {
        "value": "output is zero",
        "out": "nothing reads",
        "query": "same vector for every token",
    }
    assert words[part] in found.cause


def test_projections_that_all_start_at_zero_are_fresh_not_dead() -> None:
    module = reader()
    for layer in module.layers:
        nn.init.zeros_(layer.out.weight)  # type: ignore[union-attr,arg-type]
    assert finding("dead-heads", module).verdict == "pass"


def test_heads_with_the_same_weights_and_other_biases_are_duplicates() -> None:
    module = reader()
    with torch.no_grad():
        for part in ("query", "key", "value"):
            weight = getattr(module.layers[1], part).weight
            weight[24:] = weight[:8]
    found = finding("duplicate-heads", module)
    assert found.verdict == "fail"
    assert found.where == ("heads 0 and 3 of layers.1",)


def test_shared_keys_and_values_are_no_duplicates() -> None:
    module = stock("LlamaForCausalLM", num_key_value_heads=1)
    assert finding("duplicate-heads", module, batch={"input_ids": ids()}).verdict == "pass"


def test_heads_cut_by_a_view_are_found_without_modules_to_compare_with() -> None:
    """A change of one token that falls into a single head's share shows, too."""

    class Functional(Reader):
        def forward(self, ids: Tensor) -> Tensor:
            x = self.embed(ids)
            layer: Any = self.layers[0]
            q, k, v = (
                F.linear(x, f.weight, f.bias).view(x.size(0), 4, x.size(1), 8)
                for f in (layer.query, layer.key, layer.value)
            )
            return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)

    torch.manual_seed(0)
    batch = {"ids": torch.randint(1, 60, (2, 20))}
    assert finding("head-split", Functional(), batch=batch).verdict == "fail"


def test_heads_put_together_by_a_view_are_found_in_a_later_layer() -> None:
    module = reader()
    module.layers[1].merge_by_view = True  # type: ignore[assignment]
    found = finding("head-split", module)
    assert (found.verdict, found.where) == ("fail", ("layers.1",))
    assert "put together" in found.evidence


def test_keys_shared_with_other_heads_than_the_class_has_it_are_found() -> None:
    module = stock("LlamaForCausalLM", num_key_value_heads=2, attn_implementation="eager")
    assert finding("head-split", module, batch={"input_ids": ids()}).verdict == "pass"
    for name in ("k_proj", "v_proj"):
        layer: Any = module.model.layers[0].self_attn  # type: ignore[union-attr,index]
        setattr(layer, name, Tiled(getattr(layer, name)))
        layer.num_key_value_groups = 1
    found = finding("head-split", module, batch={"input_ids": ids()})
    assert (found.verdict, found.where) == ("fail", ("model.layers.0.self_attn",))


class Tiled(nn.Module):
    """Two heads of keys as four: 0 1 0 1 in place of 0 0 1 1."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x).repeat(1, 1, 2)  # type: ignore[no-any-return]


def test_attention_in_blocks_cuts_no_heads_apart() -> None:
    """A sliding window computed block by block has other rows than the projection, on purpose."""
    attention = AttentionConfig(num_heads=4, pattern="sliding_window", window=2)
    torch.manual_seed(0)
    module = Transformer(
        TransformerConfig(
            family="encoder",
            vocab_size=60,
            d_model=32,
            num_encoder_layers=2,
            attention=attention,
            feedforward=FeedForwardConfig(size=48),
        )
    )
    assert finding("head-split", module).verdict in ("pass", "skip")


def test_nothing_is_left_changed() -> None:
    module = reader()
    module.layers[0].query.weight.requires_grad_(False)  # type: ignore[union-attr]
    module.train()
    before = {name: each.clone() for name, each in module.state_dict().items()}
    state = torch.get_rng_state()
    diagnose(module, {"ids": ids()}, only=["scores", "positions"])
    assert module.training and torch.equal(torch.get_rng_state(), state)
    assert not module.layers[0].query.weight.requires_grad  # type: ignore[union-attr]
    for name, each in module.state_dict().items():
        assert torch.equal(each, before[name]), name


def test_a_missing_scale_that_is_no_failure_says_why() -> None:
    torch.manual_seed(0)
    fresh = Reader(scale=1.0)
    with torch.no_grad():
        for each in fresh.layers:
            each.query.weight.mul_(0.5)
            each.key.weight.mul_(0.5)
    fresh.norm = nn.LayerNorm(32)
    fresh.forward = lambda ids: fresh.norm(Reader.forward(fresh, ids))  # type: ignore[method-assign]
    found = finding("score-scale", fresh)
    assert found.verdict == "warn"
    assert "No failure yet: softmax passes 0." in found.evidence
    assert "fresh and small" in found.evidence and "√d_k = 2.83" in found.evidence
    with torch.no_grad():
        fresh.norm.weight.add_(torch.linspace(-0.1, 0.1, 32))  # gains that training has moved
    found = finding("score-scale", fresh)
    assert found.verdict == "warn"
    assert "trained weights may have made up for the factor" in found.evidence


def test_a_scale_applied_twice_says_why_it_is_no_failure() -> None:
    found = finding("score-scale", Reader(scale=1 / 8))
    assert found.verdict == "warn"
    assert "muP" in found.evidence

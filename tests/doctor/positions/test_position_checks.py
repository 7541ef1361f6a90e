"""What the checks of positions say beyond their examples."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gnomon.doctor import Finding, diagnose

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


def ids(length: int = 12) -> Tensor:
    return torch.randint(1, 60, (3, length), generator=torch.Generator().manual_seed(1))


def stock(name: str, **more: Any) -> Any:
    torch.manual_seed(0)
    model = getattr(transformers, name)
    return model(model.config_class(**{**SMALL, **more})).eval()


def finding(code: str, module: nn.Module, batch: Any = None, **fields: Any) -> Finding:
    return diagnose(module, batch or {"input_ids": ids()}, only=[code], **fields)[code]


class Turned(nn.Module):
    """Rotary attention by hand; `turn(x, positions)` is to be broken."""

    def __init__(self, turn_query: Any, turn_key: Any) -> None:
        super().__init__()
        self.turns = turn_query, turn_key
        self.embed = nn.Embedding(60, 32)
        self.query, self.key = nn.Linear(32, 32), nn.Linear(32, 32)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        q, k = self.turns[0](self.query(x)), self.turns[1](self.key(x))
        return F.scaled_dot_product_attention(q[:, None], k[:, None], x[:, None])[:, 0]


def turn(x: Tensor, sign: float = 1.0, layout: str = "halves") -> Tensor:
    angle = sign * torch.arange(x.size(1))[:, None] / 1000 ** (torch.arange(16) / 16)
    if layout == "neighbours":
        angle = angle.repeat_interleave(2, -1)
        other = torch.stack((-x[..., 1::2], x[..., 0::2]), -1).flatten(-2)
    else:
        angle = torch.cat((angle, angle), -1)
        other = torch.cat((-x[..., 16:], x[..., :16]), -1)
    return x * angle.cos() + other * angle.sin()


def turned(turn_query: Any, turn_key: Any) -> Turned:
    torch.manual_seed(0)
    return Turned(turn_query, turn_key)


@pytest.mark.parametrize("layout", ["halves", "neighbours"])
def test_either_layout_of_rotary_pairs_is_sound(layout: str) -> None:
    module = turned(lambda x: turn(x, layout=layout), lambda x: turn(x, layout=layout))
    for code in ("rope-pairing", "rope-precision", "positions-missing"):
        found = finding(code, module, {"ids": ids()})
        assert found.verdict == "pass", found.evidence


@pytest.mark.parametrize(
    ("turn_key", "words"),
    [
        (lambda x: x, "keys are not"),
        (lambda x: turn(x, -1.0), "other way"),
        (lambda x: turn(x, layout="neighbours"), "other angles, or as other pairs"),
    ],
)
def test_queries_and_keys_turned_differently_are_told_apart(turn_key: Any, words: str) -> None:
    found = finding("rope-pairing", turned(turn, turn_key), {"ids": ids()})
    assert found.verdict == "fail"
    assert words in found.cause


def test_frequencies_cast_to_bf16_are_found_in_their_buffer() -> None:
    module = stock("LlamaForCausalLM")
    module.model.rotary_emb.inv_freq = module.model.rotary_emb.inv_freq.bfloat16().float()
    found = finding("rope-precision", module)
    assert found.verdict == "fail"
    assert found.where == ("model.rotary_emb.inv_freq",)


def test_a_stack_without_positions_is_told_and_a_causal_one_only_suspected() -> None:
    module = stock("BertForMaskedLM", num_attention_heads=4)
    nn.init.zeros_(module.bert.embeddings.position_embeddings.weight)
    module.bert.embeddings.position_embeddings.forward = lambda places: torch.zeros(
        *places.shape, 32
    )
    found = finding("positions-missing", module)
    assert found.verdict == "fail"
    module = turned(lambda x: x, lambda x: x)
    assert finding("positions-missing", module, {"ids": ids()}, causal=True).verdict == "warn"


def test_learned_positions_that_start_at_zero_are_no_missing_ones() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(60, 32)
            self.places = nn.Parameter(torch.zeros(1, 40, 32))
            self.layer = nn.TransformerEncoderLayer(32, 4, 32, batch_first=True)

        def forward(self, ids: Tensor) -> Tensor:
            return self.layer(self.embed(ids) + self.places[:, : ids.size(1)])  # type: ignore[no-any-return]

    module = Model()
    assert finding("positions-missing", module, {"ids": ids()}).verdict == "pass"
    assert not bool(module.places.any())


@pytest.mark.parametrize("name", ["RobertaForMaskedLM", "OPTForCausalLM"])
def test_rows_that_a_class_reserves_are_no_shift(name: str) -> None:
    more = {"ffn_dim": 48} if name.startswith("OPT") else {}
    found = finding("positions-shifted", stock(name, **more))
    assert found.verdict == "pass", found.evidence


def test_position_ids_from_one_are_a_shift() -> None:
    places = torch.arange(1, 13).expand(3, 12)
    found = finding(
        "positions-shifted", stock("GPT2LMHeadModel"), {"input_ids": ids(), "position_ids": places}
    )
    assert found.verdict == "fail"
    assert found.where == ("transformer.wpe.weight",)
    assert "1 too high" in found.cause


def test_left_padding_moves_positions_only_where_it_is_in_use() -> None:
    module = stock("GPT2LMHeadModel")
    keep = torch.ones(3, 12, dtype=torch.long)
    batch = {"input_ids": ids(), "attention_mask": keep}
    assert finding("padding-shifts-positions", module, batch).verdict == "pass"
    assert finding("padding-shifts-positions", module, batch, padding_side="left").verdict == "fail"


def test_clamped_positions_are_found() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.places = nn.Embedding(60, 32), nn.Embedding(16, 32)
            self.layer = nn.TransformerEncoderLayer(32, 4, 32, batch_first=True)

        def forward(self, ids: Tensor) -> Tensor:
            places = torch.arange(ids.size(1)).clamp(max=7)  # the batch, too
            return self.layer(self.embed(ids) + self.places(places))  # type: ignore[no-any-return]

    found = finding("position-range", Model(), {"ids": ids()}, max_length=24)
    assert (found.verdict, found.where) == ("fail", ("places",))
    assert "clamped" in found.evidence


def test_buckets_of_distances_are_no_clamped_positions() -> None:
    module = stock("T5ForConditionalGeneration", d_model=32, d_kv=8, d_ff=48, num_layers=2)
    batch = {"input_ids": ids(), "decoder_input_ids": ids()}
    assert finding("position-range", module, batch, max_length=64).verdict == "pass"


def test_ids_out_of_range_are_told_before_the_look_up() -> None:
    batch = {"input_ids": ids().clone()}
    batch["input_ids"][1, 3] = 60
    found = finding("vocabulary-range", stock("LlamaForCausalLM"), batch)
    assert found.verdict == "fail"
    assert found.where == ("model.embed_tokens",)
    batch["input_ids"][1, 3] = -100
    assert "id -100" in finding("vocabulary-range", stock("LlamaForCausalLM"), batch).evidence


def test_spare_rows_at_the_end_and_the_row_of_padding_may_be_zero() -> None:
    module = stock("LlamaForCausalLM")
    with torch.no_grad():
        module.model.embed_tokens.weight[0] = 0.0
        module.model.embed_tokens.weight[58:] = 0.0
    batch = {"input_ids": ids().clamp(max=57)}
    assert finding("embedding-rows", module, batch).verdict == "pass"
    with torch.no_grad():
        module.model.embed_tokens.weight[batch["input_ids"][0, 0]] = 0.0
    assert finding("embedding-rows", module, batch).verdict == "fail"


def test_a_stock_model_whose_embedding_factor_was_changed_fails() -> None:
    module = stock("GemmaForCausalLM", head_dim=8, num_key_value_heads=2)
    assert finding("embedding-scale", module).verdict == "pass"
    embed = module.model.embed_tokens
    inner = embed.forward
    embed.forward = lambda places: inner(places) * 32**0.5
    found = finding("embedding-scale", module)
    assert found.verdict == "fail"
    assert "twice" in found.cause


class Refuses(nn.Module):
    """Says no to what it does not bear."""

    def __init__(self, longest: int) -> None:
        super().__init__()
        self.embed, self.longest = nn.Embedding(60, 16), longest
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)

    def forward(self, ids: Tensor) -> Tensor:
        if ids.size(1) > self.longest:
            raise ValueError(f"{ids.size(1)} tokens are too many")
        output: Tensor = self.layer(self.embed(ids))
        return output


@pytest.mark.parametrize(("longest", "verdict"), [(20, "fail"), (0, "skip")])
def test_a_batch_refused_for_its_length(longest: int, verdict: str) -> None:
    found = finding("position-range", Refuses(longest), {"ids": ids(40)}, max_length=40)
    assert found.verdict == verdict
    assert longest == 0 or "cut to 20 it runs" in found.evidence

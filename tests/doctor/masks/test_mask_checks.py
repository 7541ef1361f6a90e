"""What the masks' examples do not show: places, causes, sound models near the border."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import gnomon
from gnomon.doctor import Patient, all_checks
from gnomon.doctor.examine import examine
from gnomon.doctor.finding import Finding
from gnomon.model import AttentionConfig, PositionConfig, Transformer, TransformerConfig

SIZES: dict[str, Any] = {
    "vocab_size": 40,
    "d_model": 16,
    "num_encoder_layers": 2,
    "num_decoder_layers": 2,
    "attention": AttentionConfig(num_heads=4),
}


def found(code: str, module: nn.Module, **fields: Any) -> Finding:
    return examine(Patient(module=module, **fields), [all_checks()[code]]).findings[0]


def translator(**changes: Any) -> Transformer:
    torch.manual_seed(0)
    return Transformer(TransformerConfig(**{**SIZES, **changes}))


class Decoder(nn.Module):
    """Layers of causal attention; `keep` says which heads of which layer may see what."""

    def __init__(self, num_layers: int = 3) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.position = nn.Embedding(40, 16), nn.Embedding(32, 16)
        self.layers = nn.ModuleList(Layer() for _ in range(num_layers))
        self.head = nn.Linear(16, 40)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids) + self.position(torch.arange(ids.size(1)))
        for layer in self.layers:
            x = layer(x)
        logits: Tensor = self.head(x)
        return logits


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
        self.norm: nn.Module = nn.LayerNorm(16)
        self.open_heads: list[int] = []
        self.penalty = -torch.inf

    def forward(self, x: Tensor) -> Tensor:
        B, T, D = x.shape
        q, k, v = self.qkv(self.norm(x)).view(B, T, 3, 4, 4).permute(2, 0, 3, 1, 4)
        hidden = torch.ones(4, T, T, dtype=torch.bool).triu(1)
        hidden[self.open_heads] = False
        scores = q @ k.transpose(-1, -2) / 2 + x.new_zeros(4, T, T).masked_fill(
            hidden, self.penalty
        )
        y = (scores.softmax(-1) @ v).transpose(1, 2).reshape(B, T, D)
        update: Tensor = self.out(y)
        return x + update


IDS = {"ids": torch.arange(1, 31).view(3, 10)}


def test_one_open_head_is_named() -> None:
    module = Decoder()
    module.layers[1].open_heads = [2]  # type: ignore[assignment]
    for code in ("future-leak", "mask-heads"):
        finding = found(code, module, batch=IDS, causal=True)
        assert finding.verdict == "fail"
        assert finding.where == ("head 2 of layers.1",)
    assert (
        "1 of 12 heads in 1 of 3 layers"
        in found("future-leak", module, batch=IDS, causal=True).cause
    )


def test_one_open_layer_is_named() -> None:
    module = Decoder()
    module.layers[2].open_heads = [0, 1, 2, 3]  # type: ignore[assignment]
    finding = found("mask-heads", module, batch=IDS, causal=True)
    assert finding.where == ("layers.2",)
    assert finding.cause == "The mask does not reach 1 of 3 layers."


def test_a_penalty_that_is_too_small_shows_in_the_gradient() -> None:
    module = Decoder()
    for layer in module.layers:
        layer.penalty = -15.0  # type: ignore[assignment]
    finding = found("future-leak", module, batch=IDS, causal=True)
    assert finding.verdict == "fail"
    assert "not by enough" in finding.cause
    for layer in module.layers:
        layer.penalty = -1e4  # type: ignore[assignment]
    finding = found("future-leak", module, batch=IDS, causal=True)
    assert finding.verdict == "pass"
    assert finding.numbers["gradient"] == 0.0


class MeanOfText(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean(1, keepdim=True)


def test_a_leak_beside_attention_is_told_apart() -> None:
    module = Decoder()
    module.layers[1].norm = MeanOfText()
    finding = found("future-leak", module, batch=IDS, causal=True)
    assert finding.verdict == "fail"
    assert finding.where == ("layers.1.norm",)
    assert "beside attention" in finding.cause
    bare = found("future-leak", Pooled(), batch=IDS, causal=True)
    assert bare.verdict == "fail", bare.evidence


class NormOverPositions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(16)

    def forward(self, x: Tensor) -> Tensor:
        normed: Tensor = self.norm(x.transpose(1, 2)).transpose(1, 2)
        return normed


def test_batch_norm_leaks_in_training_alone() -> None:
    module = Decoder().eval()
    norm = NormOverPositions()
    module.layers[0].norm = norm.eval()
    before = {name: each.clone() for name, each in module.state_dict().items()}
    finding = found("future-leak", module, batch=IDS, causal=True)
    assert finding.verdict == "fail"
    assert finding.where == ("layers.0.norm.norm",)
    assert "in training mode" in finding.evidence
    finding = found("batch-leak", module, batch=IDS, causal=True)
    assert (finding.verdict, finding.where) == ("warn", ("layers.0.norm.norm",))
    assert not module.training and not norm.norm.training
    for name, each in module.state_dict().items():
        assert torch.equal(each, before[name]), name


def test_dropout_of_another_seed_is_no_leak() -> None:
    module = Decoder()
    module.layers[0].norm = nn.Dropout(0.5)
    assert found("future-leak", module, batch=IDS, causal=True).verdict == "pass"
    assert found("batch-leak", module, batch=IDS, causal=True).verdict == "pass"


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"position": PositionConfig(kind="alibi")},
        {"attention": AttentionConfig(num_heads=4, pattern="sliding_window", window=2)},
        {"attention": AttentionConfig(num_heads=4, pattern="dilated", window=2, dilation=2)},
        {"attention": AttentionConfig(num_heads=4, pattern="block_sparse", block_size=2)},
        {"attention": AttentionConfig(num_heads=4, num_key_value_heads=2)},
    ],
)
@pytest.mark.parametrize("family", ["encoder_decoder", "encoder", "decoder"])
def test_sound_models_raise_no_alarm(family: str, changes: dict[str, Any]) -> None:
    module = translator(family=family, **changes)
    masks = [each for each in all_checks().values() if each.group == "masks"]
    wrong = [f for f in examine(Patient(module=module), masks) if f.verdict in ("fail", "warn")]
    assert not wrong, [(each.code, each.evidence) for each in wrong]


def test_cross_attention_is_told_apart_from_self_attention() -> None:
    module = translator()
    cross: Any = module.decoder.layers[1].cross  # type: ignore[union-attr,index]
    own = cross.forward

    def forward(x: Tensor, memory: Tensor, mask: Any, *rest: Any) -> Any:
        from gnomon.model.masks import Mask

        return own(x, memory, Mask(x.size(1), memory.size(1), x.device), *rest)

    cross.forward = forward
    finding = found("cross-padding", module)
    assert (finding.verdict, finding.where) == ("fail", ("decoder.layers.1.cross",))
    assert found("mask-heads", module).where == ("decoder.layers.1.cross",)
    assert found("attends-padding", module).verdict == "pass"
    padding = found("padding-leak", module)
    assert padding.verdict == "fail" and padding.where == ("decoder.layers.1.cross",)


class OffsetMask(nn.Module):
    """One head of attention whose look-ahead mask has the given diagonal."""

    def __init__(self, diagonal: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.diagonal = diagonal
        self.embed, self.qkv, self.head = nn.Embedding(40, 16), nn.Linear(16, 48), nn.Linear(16, 40)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        T = ids.size(1)
        keep = torch.ones(T, T, dtype=torch.bool).tril(self.diagonal)
        q, k, v = self.qkv(x)[:, None].chunk(3, dim=-1)
        y = nn.functional.scaled_dot_product_attention(q, k, v, keep)
        logits: Tensor = self.head(x + y[:, 0])
        return logits


@pytest.mark.parametrize(
    ("diagonal", "verdict", "word"),
    [(1, "fail", "up by one"), (-1, "fail", "down by one"), (0, "pass", ""), (2, "pass", "")],
)
def test_which_way_the_diagonal_is_shifted(diagonal: int, verdict: str, word: str) -> None:
    finding = found("look-ahead-off-by-one", OffsetMask(diagonal), batch=IDS, causal=True)
    assert finding.verdict == verdict
    assert word in finding.cause
    leak = found("future-leak", OffsetMask(diagonal), batch=IDS, causal=True)
    assert leak.verdict == ("fail" if diagonal > 0 else "pass")
    assert ("shifted by one" in leak.cause) == (diagonal == 1)


def test_an_inverted_look_ahead_mask_is_polarity() -> None:
    class Inverted(OffsetMask):
        def forward(self, ids: Tensor) -> Tensor:
            x = self.embed(ids)
            T = ids.size(1)
            keep = ~torch.ones(T, T, dtype=torch.bool).tril()
            q, k, v = self.qkv(x)[:, None].chunk(3, dim=-1)
            y = nn.functional.scaled_dot_product_attention(q, k, v, keep)
            logits: Tensor = self.head(x + y[:, 0])
            return logits

    finding = found("mask-polarity", Inverted(0), batch=IDS, causal=True)
    assert finding.verdict == "fail"
    assert "look-ahead" in finding.cause
    assert found("mask-polarity", OffsetMask(0), batch=IDS, causal=True).verdict == "pass"


def test_one_tensor_that_is_source_and_target_is_no_leak() -> None:
    model, both = translator(), torch.randint(4, 40, (3, 9))
    batch = {"ids": both, "target": both}
    assert found("future-leak", model, batch=batch).verdict == "pass"
    assert model.decoder is not None
    model.decoder.causal = False
    assert found("future-leak", model, batch=batch).verdict == "fail"


def test_packed_documents_are_known_by_positions_that_begin_anew() -> None:
    class Packed(OffsetMask):
        def forward(self, ids: Tensor, position_ids: Tensor) -> Tensor:
            return super().forward(ids)

    positions = torch.tensor([[0, 1, 2, 3, 4, 0, 1, 2, 3, 4]] * 3)
    batch = {**IDS, "position_ids": positions}
    assert found("packed-documents", Packed(0), batch=batch).verdict == "fail"
    assert found("packed-documents", OffsetMask(0), batch=IDS).verdict == "skip"


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_left_padding_of_absolute_positions(implementation: str) -> None:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=40, n_embd=16, n_layer=2, n_head=4, n_positions=32, bos_token_id=1,
        eos_token_id=2,
    )  # fmt: skip
    config._attn_implementation = implementation
    module = transformers.GPT2LMHeadModel(config)
    finding = found("left-padding", module)
    assert (finding.verdict, finding.where) == ("warn", ("transformer.wpe",))
    assert "position_ids" in finding.mend
    assert found("left-padding", module, padding_side="left").verdict == "fail"
    ids = torch.randint(3, 40, (2, 8))
    right = {"batch": {"input_ids": ids, "attention_mask": torch.ones_like(ids)}}
    assert found("left-padding", module, padding_side="right", **right).verdict == "pass"
    bert = transformers.BertModel(
        transformers.BertConfig(
            vocab_size=40, hidden_size=16, num_hidden_layers=2, num_attention_heads=4,
            intermediate_size=32, max_position_embeddings=32,
        )
    )  # fmt: skip
    assert found("left-padding", bert).verdict == "pass"


def test_row_order_matters_where_one_mask_is_used_for_all() -> None:
    class FirstMask(OffsetMask):
        def forward(self, ids: Tensor) -> Tensor:
            x = self.embed(ids)
            keep = (ids[:1] != 0)[:, None, None]  # the first row's, for all
            q, k, v = self.qkv(x)[:, None].chunk(3, dim=-1)
            y = nn.functional.scaled_dot_product_attention(q, k, v, keep)
            return x + y[:, 0]

    ids = IDS["ids"].clone()
    ids[0, 6:] = 0
    finding = found("batch-leak", FirstMask(0), batch={"ids": ids}, pad_id=0)
    assert finding.verdict == "fail"
    assert "used for all rows" in finding.cause


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_hides_no_leak_and_makes_none(dtype: torch.dtype) -> None:
    module = Decoder().to(dtype)
    for layer in module.layers:
        layer.penalty = -1e4  # type: ignore[assignment]
    assert found("future-leak", module, batch=IDS, causal=True).verdict == "pass"
    module.layers[0].open_heads = [1]  # type: ignore[assignment]
    finding = found("future-leak", module, batch=IDS, causal=True)
    assert (finding.verdict, finding.where) == ("fail", ("head 1 of layers.0",))
    sound = translator(family="encoder_decoder").to(dtype)
    masks = [each for each in all_checks().values() if each.group == "masks"]
    report = examine(Patient(module=sound), masks)
    assert not report.of("fail", "warn"), [(f.code, f.evidence) for f in report.of("fail", "warn")]


class Pooled(nn.Module):
    """Adds the mean of all positions, padding or not."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(40, 16)

    def forward(self, ids: Tensor) -> Tensor:
        x: Tensor = self.embed(ids)
        return x + x.mean(1, keepdim=True)


def test_a_padding_leak_shows_in_bf16() -> None:
    module = Pooled().to(torch.bfloat16)
    ids = IDS["ids"].clone()
    ids[0, 6:] = 0
    assert found("padding-leak", module, batch={"ids": ids}, pad_id=0).verdict == "fail"


class FromIds(nn.Module):
    """A decoder that finds padding by its id; it may fail to hide it, or count it."""

    def __init__(self, *, hides: bool = True, counts: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.position = nn.Embedding(40, 16), nn.Embedding(32, 16)
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 40)
        self.hides, self.counts = hides, counts

    def forward(self, ids: Tensor) -> Tensor:
        real, T = ids != 0, ids.size(1)
        places = torch.arange(T) if self.counts else (real.cumsum(1) - 1).clamp(min=0)
        q, k, v = self.qkv(self.embed(ids) + self.position(places)).chunk(3, -1)
        keep = torch.ones(T, T, dtype=torch.bool).tril().expand(len(ids), T, T)
        if self.hides:
            keep = keep & real[:, None] | torch.eye(T, dtype=torch.bool)
        scores = (q @ k.transpose(1, 2) / 4).masked_fill(~keep, -torch.inf)
        logits: Tensor = self.out(scores.softmax(-1) @ v)
        return logits


def continues(module: nn.Module, batch: Any, num: int, *, how: str) -> Tensor:
    """Texts of several lengths padded at the left, continued behind their padding, or alone."""
    if how == "behind":
        ids = batch["ids"]
        for _ in range(num):
            ids = torch.cat((ids, module(ids)[:, -1:].argmax(-1)), 1)
        return ids[:, -num:]
    texts = [row[row != 0] for row in batch["ids"]]
    width = max(map(len, texts))
    if how == "left":
        ids = torch.stack([nn.functional.pad(row, (width - len(row), 0)) for row in texts])
        for _ in range(num):
            ids = torch.cat((ids, module(ids)[:, -1:].argmax(-1)), 1)
        return ids[:, -num:]
    return torch.cat([continues(module, {"ids": row[None]}, num, how="behind") for row in texts])


@pytest.mark.parametrize(
    ("hides", "counts", "how", "verdict"),
    [
        (True, False, "left", "pass"),
        (False, False, "left", "fail"),
        (True, True, "left", "fail"),
        (True, True, "behind", "fail"),
        (False, False, "alone", "skip"),  # no padding ever stands before a token
    ],
)
def test_padding_at_the_left_is_in_use_where_generation_puts_it(
    hides: bool, counts: bool, how: str, verdict: str
) -> None:
    ids = torch.randint(1, 40, (3, 14), generator=torch.Generator().manual_seed(1))
    ids[1, 9:], ids[2, 6:] = 0, 0
    finding = found(
        "left-padding", FromIds(hides=hides, counts=counts), batch={"ids": ids}, pad_id=0,
        causal=True, padding_side="right",
        generate=lambda m, b, n: continues(m, b, n, how=how),
    )  # fmt: skip
    assert finding.verdict == verdict, finding.evidence


def test_two_towers_that_compare_all_rows_do_not_leak() -> None:
    class Towers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(20, 16)
            self.layer = nn.TransformerEncoderLayer(16, 2, 16, dropout=0.0, batch_first=True)

        def forward(self, query: torch.Tensor, document: torch.Tensor) -> torch.Tensor:
            first, second = (self.layer(self.embed(t)).mean(1) for t in (query, document))
            return first @ second.T

    torch.manual_seed(0)
    batch = {"query": torch.randint(1, 20, (4, 5)), "document": torch.randint(1, 20, (4, 9))}
    (finding,) = gnomon.diagnose(Towers(), batch, only=["batch-leak"]).findings
    assert finding.verdict == "skip"
    assert "compares" in finding.evidence

"""Sound models, called as their users call them, without a mask or labels: no false alarm."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gnomon import diagnose
from gnomon.doctor.case import Case
from gnomon.doctor.patient import Patient

transformers = pytest.importorskip("transformers")
_BERT: dict[str, Any] = {
    "vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
    "intermediate_size": 64, "max_position_embeddings": 40,
}  # fmt: skip
_T5: dict[str, Any] = {
    "vocab_size": 60, "d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 1, "num_heads": 2,
    "decoder_start_token_id": 0,
}  # fmt: skip


def ids(*size: int, low: int = 4) -> Tensor:
    return torch.randint(low, 60, size, generator=torch.Generator().manual_seed(0))


def bert(name: str, **config: Any) -> nn.Module:
    torch.manual_seed(0)
    module: nn.Module = getattr(transformers, name)(transformers.BertConfig(**_BERT, **config))
    return module


def wrong(module: nn.Module, batch: Any, **options: Any) -> list[str]:
    report = diagnose(module, batch, **options)
    return [f"{f.code}: {f.evidence}" for f in report.of("fail", "warn")]


@pytest.mark.parametrize("batch", [ids(4, 8), {"input_ids": ids(4, 8)}, (ids(4, 8),)])
def test_texts_of_one_length_need_no_mask(batch: Any) -> None:
    report = diagnose(bert("BertModel"), batch, only=["masks"])
    assert report["padding-leak"].verdict == report["attends-padding"].verdict == "pass", report


def test_an_encoder_decoder_s_sources_of_one_length_need_no_mask() -> None:
    torch.manual_seed(0)
    module = transformers.T5ForConditionalGeneration(transformers.T5Config(**_T5))
    report = diagnose(module, {"input_ids": ids(3, 8), "labels": ids(3, 6)}, only=["masks"])
    assert not report.of("fail"), report
    assert report["cross-padding"].verdict == "pass"


def test_padding_that_nothing_hides_is_still_told() -> None:
    padded = ids(4, 8)
    padded[1, 5:] = 0  # and no mask says so
    report = diagnose(bert("BertModel"), {"input_ids": padded}, only=["masks"])
    assert report["attends-padding"].verdict == "fail"


def test_functions_that_read_a_batch_by_place_get_it_as_it_was() -> None:
    def loss(module: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        text, labels = batch
        return nn.functional.cross_entropy(module(text)[0], labels)

    module = bert("BertForSequenceClassification")
    case = Case(Patient(module=module, batch=(ids(4, 8), torch.tensor([0, 1, 0, 1])), loss=loss))
    assert case.loss(case.call).isfinite()


class Additive(nn.Module):
    """Adds its mask to the scores, as it is handed in: 0 at tokens, -1e9 at padding."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.position = nn.Embedding(60, 16), nn.Embedding(40, 16)
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, ids: Tensor, attention_mask: Tensor) -> Tensor:
        x = self.embed(ids) + self.position(torch.arange(ids.size(1)))
        q, k, v = self.qkv(x)[:, None].chunk(3, dim=-1)
        scores = q @ k.transpose(-1, -2) / 4 + attention_mask
        attended: Tensor = self.out((scores.softmax(-1) @ v)[:, 0])
        return attended


@pytest.mark.parametrize("lengths", [[8, 8, 8], [8, 5, 7]])
def test_a_mask_that_is_added_is_known_by_its_values_not_its_name(lengths: list[int]) -> None:
    keep = torch.arange(8) < torch.tensor(lengths)[:, None]
    mask = torch.zeros(3, 1, 1, 8).masked_fill(~keep[:, None, None], -1e9)
    batch = {"ids": ids(3, 8), "attention_mask": mask}
    case = Case(Patient(module=Additive(), batch=batch))
    assert torch.equal(case.call.keep("source"), keep)
    codes = ["attends-padding", "padding-leak", "mask-polarity", "mask-heads"]
    assert wrong(Additive(), batch, only=codes) == []
    report = diagnose(Additive(), batch, only=["empty-row"])  # -1e9 averages, and gives no NaN
    assert report["empty-row"].verdict != "fail", report


@pytest.mark.parametrize("name", ["BertForSequenceClassification", "BertForTokenClassification"])
def test_classifiers_without_labels_get_made_up_ones(name: str) -> None:
    module = bert(name, num_labels=3)
    report = diagnose(module, {"input_ids": ids(4, 8)}, only=["loss", "blocks", "optimizer"])
    assert not [f.evidence for f in report if "could not be made" in f.evidence]
    assert report["overfit-batch"].verdict == report["initial-loss"].verdict == "pass", report


def test_a_trained_classifier_need_not_give_made_up_labels() -> None:
    module = bert("BertForSequenceClassification")
    with torch.no_grad():
        for norm in [m for m in module.modules() if isinstance(m, nn.LayerNorm)]:
            norm.weight += 0.1 * torch.randn_like(norm.weight)  # it was trained
        module.get_parameter("classifier.weight").mul_(400.0)  # and is sure
    report = diagnose(module, {"input_ids": ids(4, 8)}, only=["initial-loss", "rescaled-weights"])
    assert [f.verdict for f in report] == ["skip", "skip"], report
    labelled = {"input_ids": ids(4, 8), "labels": 1 - module(ids(4, 8)).logits.argmax(-1)}
    told = diagnose(module, labelled, only=["initial-loss"])["initial-loss"]
    assert told.verdict == "fail" and "trained" in told.evidence  # and not that it is drawn so
    assert "drawn" not in told.cause


def test_a_label_with_the_number_of_padding_is_no_padding() -> None:
    text, mask = ids(4, 8), torch.ones(4, 8, dtype=torch.long)
    text[1, 5:], mask[1, 5:] = 0, 0
    labels = torch.randint(1, 5, (4, 8)).masked_fill(mask == 0, -100)
    labels[1, 4] = 0  # a class, at the last word before padding
    batch = {"input_ids": text, "attention_mask": mask, "labels": labels}
    module = bert("BertForTokenClassification", num_labels=5)
    assert wrong(module, batch, only=["padding-in-loss"]) == []

"""A batch of source and labels, as Hugging Face trains on, has a target that checks can change."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from gnomon import diagnose
from gnomon.doctor.case import Case
from gnomon.doctor.patient import Patient

transformers = pytest.importorskip("transformers")
_BART = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
         "decoder_attention_heads": 2, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64,
         "pad_token_id": 0, "decoder_start_token_id": 3}  # fmt: skip
_T5 = {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 1, "num_heads": 2,
       "decoder_start_token_id": 0}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("T5ForConditionalGeneration", _T5),
        ("BartForConditionalGeneration", _BART),
        ("MarianMTModel", _BART),
        ("M2M100ForConditionalGeneration", _BART),  # has no method that shifts
        ("BlenderbotForConditionalGeneration", _BART),
    ],
)
def test_labels_alone_give_the_decoder_s_inputs(name: str, sizes: dict[str, Any]) -> None:
    kind = getattr(transformers, name)
    torch.manual_seed(0)
    module = kind(kind.config_class(vocab_size=60, **sizes)).eval()
    batch = {"input_ids": torch.randint(4, 60, (2, 8)), "labels": torch.randint(4, 60, (2, 6))}
    batch["labels"][1, 4:] = -100
    case = Case(Patient(module=module, batch=batch))
    assert set(case.call.streams) == {"source", "target"}
    with torch.no_grad():
        expected = module(**batch)  # shifts the labels by itself
        assert torch.equal(module(**case.call.kwargs).logits, expected.logits)
        assert torch.equal(case.loss(case.call), expected.loss)
        assert torch.equal(case.base.tokens[:2], expected.logits)  # without the labels
    assert "decoder_input_ids" not in batch


def test_a_decoder_that_begins_with_the_padding_id_has_no_padding_there() -> None:
    torch.manual_seed(0)
    module = transformers.T5ForConditionalGeneration(
        transformers.T5Config(vocab_size=60, **_T5)  # begins with 0, its padding
    ).eval()
    batch = {"input_ids": torch.randint(4, 60, (3, 8)), "labels": torch.randint(4, 60, (3, 6))}
    batch["labels"][1, 4:] = -100
    batch["attention_mask"] = torch.ones(3, 8, dtype=torch.long)
    call = Case(Patient(module=module, batch=batch)).call
    keep = torch.ones(3, 6, dtype=torch.bool)
    keep[1, 5:] = False
    assert torch.equal(call.keep("target"), keep)
    left = call.padded("target", 2, "left")
    assert torch.equal(left.keep("target")[:, 2:], keep)
    assert not bool(left.keep("target")[:, :2].any())
    everything = torch.ones(3, 6, dtype=torch.bool)
    assert torch.equal(call.perturbed("target", everything).keep("target"), everything)
    assert torch.equal(call.cut("target", 0, 1).keep("target"), everything[:, :1])
    report = diagnose(module, batch, generate=_greedy)
    assert not report.of("fail", "warn"), [(f.code, f.evidence) for f in report.of("fail", "warn")]
    assert report["cache-differs"].verdict == "pass"


def _greedy(module: Any, batch: dict[str, torch.Tensor], num_tokens: int) -> torch.Tensor:
    made: torch.Tensor = module.generate(
        input_ids=batch["input_ids"],
        attention_mask=batch["attention_mask"],
        max_new_tokens=num_tokens,
        do_sample=False,
    )
    return made[:, 1:]

"""Ties, files and vocabularies: places named, no alarm on sound models."""

from __future__ import annotations

import copy
import gc
import weakref
from typing import Any

import pytest
import torch
from torch import nn

import gnomon
from gnomon.doctor import Finding, Patient, all_checks
from gnomon.doctor.examine import examine

transformers = pytest.importorskip("transformers")
CHECKS = all_checks()


def found(code: str, **fields: Any) -> Finding:
    return examine(Patient(**fields), [CHECKS[code]]).findings[0]


def model(kind: str, **config: Any) -> nn.Module:
    small = {
        "gpt2": ("GPT2LMHeadModel", {"n_embd": 32, "n_layer": 1, "n_head": 2}),
        "t5": ("T5ForConditionalGeneration",
               {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 1, "num_heads": 2}),
        "marian": ("MarianMTModel", {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1,
                                     "encoder_attention_heads": 2, "decoder_attention_heads": 2,
                                     "encoder_ffn_dim": 64, "decoder_ffn_dim": 64,
                                     "pad_token_id": 0}),
        "llama": ("LlamaForCausalLM", {"hidden_size": 32, "num_hidden_layers": 1,
                                       "num_attention_heads": 2, "intermediate_size": 64}),
        "bert": ("BertForMaskedLM", {"hidden_size": 32, "num_hidden_layers": 1,
                                     "num_attention_heads": 2, "intermediate_size": 64}),
    }  # fmt: skip
    name, sizes = small[kind]
    kind_class = getattr(transformers, name)
    torch.manual_seed(0)
    built: nn.Module = kind_class(kind_class.config_class(vocab_size=90, **sizes, **config))
    return built.eval()


@pytest.mark.parametrize("kind", ["gpt2", "t5", "marian", "bert"])
def test_a_stock_tie_holds_and_a_lost_one_is_named(kind: str) -> None:
    sound = model(kind)
    assert found("broken-tie", module=sound).verdict == "pass"
    lost = copy.deepcopy(sound)
    weights = {name: value.clone() for name, value in lost.state_dict().items()}
    lost.load_state_dict(weights, assign=True)
    finding = found("broken-tie", module=lost)
    assert finding.verdict == "fail"
    assert "configuration ties" in finding.evidence and len(finding.where) == 2


def test_untied_models_are_no_finding() -> None:
    assert found("broken-tie", module=model("llama")).verdict == "n/a"
    assert found("broken-tie", module=model("gpt2", tie_word_embeddings=False)).verdict == "n/a"


def test_a_tie_that_saving_loses_is_named() -> None:
    sound = model("gpt2")

    def reload() -> nn.Module:
        again = copy.deepcopy(sound)
        again.lm_head.weight = nn.Parameter(again.lm_head.weight.detach().clone())
        return again

    finding = found("broken-tie", module=sound, reload=reload)
    assert finding.verdict == "fail" and "lm_head.weight" in finding.where


@pytest.mark.parametrize(
    ("change", "verdict", "told"),
    [
        (lambda m: None, "pass", "same bits"),
        (lambda m: m.transformer.ln_f.weight.data.mul_(1.01), "fail", "transformer.ln_f.weight"),
        (lambda m: m.bfloat16().float(), "warn", "rounding to half"),
        (lambda m: setattr(m.transformer.h[0].attn, "scaling", 9.0), "fail", "outputs differ"),
    ],
)
def test_reload_tells_what_differs(change: Any, verdict: str, told: str) -> None:
    sound = model("gpt2", attn_implementation="sdpa")

    def reload() -> nn.Module:
        again = copy.deepcopy(sound)
        change(again)
        return again

    ids = torch.arange(2, 14).view(2, 6)
    finding = found("reload", module=sound, batch={"input_ids": ids}, reload=reload)
    assert finding.verdict == verdict, finding.evidence
    assert told in finding.evidence


@pytest.mark.parametrize("prefix", ["_orig_mod.", "module.", "backbone."])
def test_any_prefix_is_found_by_what_it_hides(prefix: str) -> None:
    sound = model("gpt2")
    saved = {prefix + name: value for name, value in sound.state_dict().items()}

    def reload() -> nn.Module:
        again = model("gpt2")
        again.load_state_dict(saved, strict=False)
        return again

    finding = found("key-prefix", module=sound, reload=reload)
    assert finding.verdict == "fail" and prefix in finding.evidence
    assert nn.Module.load_state_dict.__name__ == "load_state_dict", "watching has ended"


def test_a_folder_s_own_base_prefix_is_no_finding(tmp_path: Any) -> None:
    base = model("bert").bert  # saved without the "bert." of the whole model
    base.save_pretrained(tmp_path)
    whole = transformers.BertForMaskedLM.from_pretrained(tmp_path)
    assert found("key-prefix", module=base, folder=tmp_path).verdict == "pass"
    finding = found("key-prefix", module=whole, folder=tmp_path)
    assert finding.verdict == "pass", finding.evidence


class Letters:
    def __init__(self, size: int, **ids: int) -> None:
        self.size = size
        for name, value in ids.items():
            setattr(self, f"{name}_token_id", value)

    def __len__(self) -> int:
        return self.size

    def encode(self, text: str) -> list[int]:
        return [ord(letter) % self.size for letter in text]


def test_a_larger_table_is_usual_and_a_smaller_one_is_not() -> None:
    sound = model("gpt2", pad_token_id=0, eos_token_id=1, bos_token_id=1)
    assert found("vocabulary-mismatch", module=sound, tokenizer=Letters(80)).verdict == "pass"
    assert found("vocabulary-mismatch", module=sound, tokenizer=Letters(91)).verdict == "fail"
    other = found("vocabulary-mismatch", module=sound, tokenizer=Letters(80, pad=5, eos=1))
    assert other.verdict == "warn" and other.where == ("pad",)


def test_a_table_of_positions_is_not_taken_for_the_vocabulary() -> None:
    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.positions = nn.Embedding(90, 16), nn.Embedding(64, 16)
            self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            places = torch.arange(ids.size(1)).expand_as(ids)
            return self.layer(self.tokens(ids) + self.positions(places))  # type: ignore[no-any-return]

    batch = {"ids": torch.randint(1, 60, (2, 8))}
    finding = found("vocabulary-mismatch", module=Reader(), batch=batch, tokenizer=Letters(90))
    assert finding.verdict == "pass", finding.evidence


def test_what_was_loaded_again_is_not_kept_for_the_other_checks() -> None:
    sound, built = model("gpt2"), []

    def reload() -> nn.Module:
        again = copy.deepcopy(sound)
        built.append(weakref.ref(again))
        return again

    alive: list[tuple[str, bool]] = []

    def look(finding: Finding) -> None:
        gc.collect()
        alive.append((finding.code, built[0]() is not None))

    codes = ["broken-tie", "key-prefix", "reload", "noise-in-eval"]
    report = gnomon.diagnose(sound, reload=reload, only=codes, progress=look)
    assert report["reload"].verdict == report["broken-tie"].verdict == "pass", report
    assert len(built) == 1 and dict(alive)["key-prefix"] and not dict(alive)["reload"]

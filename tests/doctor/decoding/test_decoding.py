"""What the examples of decoding do not show: steps named, other loops, sound models."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gnomon.doctor import Patient, all_checks
from gnomon.doctor.case import Case
from gnomon.doctor.examine import examine
from gnomon.doctor.facts.decoding.generation import first
from gnomon.doctor.finding import Finding
from gnomon.model import AttentionConfig, PositionConfig, Transformer, TransformerConfig

Change = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


def findings(patient: Patient, *codes: str) -> dict[str, Finding]:
    checks = all_checks()
    chosen = [each for each in checks.values() if each.group == "decoding" or each.code in codes]
    return {each.code: each for each in examine(patient, chosen)}


def wrong(found: dict[str, Finding]) -> dict[str, str]:
    return {c: f.evidence for c, f in found.items() if f.verdict in ("fail", "warn")}


class Cached(nn.Module):
    """One head of attention with a cache that a test may spoil after each step."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.position = nn.Embedding(50, 16), nn.Embedding(40, 16)
        self.qkv, self.head = nn.Linear(16, 48), nn.Linear(16, 50)
        self.spoil: Change = lambda k, v: (k, v)

    def forward(self, ids: Tensor, cache: dict[str, Tensor] | None = None) -> Tensor:
        past = 0 if not cache else cache["n"].size(1)
        T = ids.size(1)
        x = self.embed(ids) + self.position(torch.arange(past, past + T))
        q, k, v = self.qkv(x)[:, None].chunk(3, dim=-1)
        if cache is not None:
            if cache:
                k, v = torch.cat((cache["k"], k), 2), torch.cat((cache["v"], v), 2)
                k, v = self.spoil(k, v)
            cache["k"], cache["v"], cache["n"] = k, v, torch.zeros(len(ids), past + T)
        S = k.size(2)
        keep = torch.ones(T, S, dtype=torch.bool).tril(S - T)
        y = nn.functional.scaled_dot_product_attention(q, k, v, keep)
        logits: Tensor = self.head(x + y[:, 0])
        return logits


def greedy(module: nn.Module, batch: Any, num_tokens: int) -> Tensor:
    cache: dict[str, Tensor] = {}
    ids, made = batch["ids"], []
    for _ in range(num_tokens):
        ids = module(ids, cache)[:, -1:].argmax(-1)
        made.append(ids)
    return torch.cat(made, dim=1)


def row_by_row(module: nn.Module, batch: Any, num_tokens: int) -> Tensor:
    """Step by step, and in each step one row after another."""
    caches: list[dict[str, Tensor]] = [{} for _ in batch["ids"]]
    rows, made = [row[None] for row in batch["ids"]], []
    for _ in range(num_tokens):
        rows = [
            module(row, cache)[:, -1:].argmax(-1) for row, cache in zip(rows, caches, strict=True)
        ]
        made.append(torch.cat(rows))
    return torch.cat(made, dim=1)


def row_after_row(module: nn.Module, batch: Any, num_tokens: int) -> Tensor:
    """Each row to its end before the next one begins."""
    return torch.cat([greedy(module, {"ids": row[None]}, num_tokens) for row in batch["ids"]])


def patient(module: nn.Module, generate: Any = greedy) -> Patient:
    torch.manual_seed(1)
    batch = {"ids": torch.randint(1, 50, (3, 16))}
    return Patient(module=module, batch=batch, causal=True, generate=generate)


@pytest.mark.parametrize("generate", [greedy, row_by_row, row_after_row])
def test_a_sound_cache_passes_in_any_loop(generate: Any) -> None:
    sound = patient(Cached(), generate)
    found = findings(sound, "cached-mask-alignment")
    assert not wrong(found)
    for code in ("cache-differs", "cache-leak", "batch-differs", "cached-mask-alignment"):
        assert found[code].verdict == "pass", found[code].evidence
    assert first(Case(sound)).steps, "the scores of each step were not seen"


def test_rows_that_get_the_same_tokens_are_told_apart_by_their_prompts() -> None:
    module = Cached()
    nn.init.zeros_(module.head.bias)
    module.head.bias.data[7] = 50.0  # always this one
    found = findings(patient(module, row_after_row))
    assert not wrong(found)


@pytest.mark.parametrize("generate", [greedy, row_by_row, row_after_row])
def test_the_step_at_which_a_cache_is_cut_off_is_told(generate: Any) -> None:
    module = Cached()
    module.spoil = lambda k, v: (k[:, :, -11:], v[:, :, -11:])
    found = findings(patient(module, generate))["cache-differs"]
    assert found.verdict == "fail"
    # Prompts of 8 tokens: the step after the third new token is the first to miss a key.
    assert found.numbers["step"] == 4
    assert "cut off" in found.cause


class Wide(Cached):
    """Long enough for texts beyond those that are tried first; its parts have names."""

    def __init__(self) -> None:
        super().__init__()
        self.position = nn.Embedding(80, 16)


@pytest.mark.parametrize("generate", [greedy, row_by_row, row_after_row])
def test_a_cache_that_is_cut_off_beyond_short_texts_is_found(generate: Any) -> None:
    torch.manual_seed(1)
    batch = {"ids": torch.randint(1, 50, (4, 60))}
    module = Wide()
    sick = Patient(module=module, batch=batch, causal=True, generate=generate)
    assert findings(sick)["cache-differs"].verdict == "pass"
    module.spoil = lambda k, v: (k[:, :, -40:], v[:, :, -40:])
    found = findings(sick)["cache-differs"]
    assert found.verdict == "fail", found.evidence
    assert found.numbers["prompt"] + found.numbers["step"] > 40
    assert "cut off" in found.cause


def test_texts_that_end_at_once_are_compared_beyond_their_end() -> None:
    torch.manual_seed(1)
    module = Wide()
    nn.init.zeros_(module.head.bias)
    module.head.bias.data[7] = 50.0  # says the end of the text at each step
    module.spoil = lambda k, v: (k[:, :, -40:], v[:, :, -40:])

    class Tokenizer:
        eos_token_id = 7

    sick = Patient(
        module=module, batch={"ids": torch.randint(10, 50, (4, 60))}, causal=True,
        generate=greedy, tokenizer=Tokenizer(),
    )  # fmt: skip
    assert findings(sick)["cache-differs"].verdict == "fail"

    def filled_up(module: nn.Module, batch: Any, num_tokens: int) -> Tensor:
        made = greedy(module, batch, num_tokens)
        ended = (made == 7).cumsum(1) > (made == 7).long()
        return made.masked_fill(ended, 0)

    # A loop that fills up has nothing of its own after the end.
    filling = dataclasses.replace(sick, generate=filled_up)
    assert findings(filling)["cache-differs"].verdict == "pass"


def test_a_step_that_raises_where_a_full_pass_does_not_is_a_fail() -> None:
    module = tiny("gpt2")
    module.set_attn_implementation("eager")  # type: ignore[operator]

    def stale(module: nn.Module, batch: Any, num_tokens: int) -> Tensor:
        ids, cache, made = batch["input_ids"], None, []
        for _ in range(num_tokens):
            out = module(input_ids=ids, past_key_values=cache, use_cache=True)
            cache, ids = out.past_key_values, out.logits[:, -1:].argmax(-1)
            cache.layers[1].keys = cache.layers[1].keys[:, :, :-1]
            cache.layers[1].values = cache.layers[1].values[:, :, :-1]
            made.append(ids)
        return torch.cat(made, dim=1)

    batch = {"input_ids": torch.randint(3, 40, (3, 12))}
    found = findings(Patient(module=module, batch=batch, generate=stale))["cache-differs"]
    assert found.verdict == "fail", found.evidence
    assert "raises RuntimeError" in found.evidence
    assert found.where == ("transformer.h.1.attn",)
    assert found.numbers["step"] == 1
    assert not any(each._forward_pre_hooks for each in module.modules())

    def broken(module: nn.Module, batch: Any, num_tokens: int) -> Tensor:
        module(input_ids=batch["input_ids"])
        raise ValueError("the loop's own mistake")

    mistaken = findings(Patient(module=module, batch=batch, generate=broken))["cache-differs"]
    assert mistaken.verdict == "skip"


@pytest.mark.parametrize("layer", [0, 1])
def test_the_first_layer_whose_cache_is_wrong_is_named(layer: int) -> None:
    module = tiny("gpt2")

    def spoilt(module: nn.Module, batch: Any, num_tokens: int) -> Tensor:
        ids, cache, made = batch["input_ids"], None, []
        for _ in range(num_tokens):
            out = module(input_ids=ids, past_key_values=cache, use_cache=True)
            cache, ids = out.past_key_values, out.logits[:, -1:].argmax(-1)
            cache.layers[layer].values = cache.layers[layer].values.roll(1, 2)
            made.append(ids)
        return torch.cat(made, dim=1)

    batch = {"input_ids": torch.randint(3, 40, (3, 12))}
    found = findings(Patient(module=module, batch=batch, generate=spoilt))["cache-differs"]
    assert found.verdict == "fail"
    assert found.where == (f"transformer.h.{layer}.attn",)


def test_a_cache_that_is_wrong_from_the_start_is_told_apart() -> None:
    module = Cached()
    module.spoil = lambda k, v: (k.flip(2), v)
    found = findings(patient(module))["cache-differs"]
    assert found.numbers["step"] == 1
    assert "first step that reads from the cache" in found.cause


def test_a_loop_that_answers_with_the_prompt_as_well() -> None:
    def generate(module: nn.Module, batch: Any, num_tokens: int) -> Tensor:
        return torch.cat((batch["ids"], greedy(module, batch, num_tokens)), dim=1)

    assert not wrong(findings(patient(Cached(), generate)))


def test_a_state_in_the_module_is_found_and_put_back() -> None:
    class Stateful(Cached):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(50))

        def forward(self, ids: Tensor, cache: dict[str, Tensor] | None = None) -> Tensor:
            logits = super().forward(ids, cache) - self.seen
            if cache is not None:
                self.seen[ids.flatten()] += 0.1  # type: ignore[operator,index]
            return logits

    module = Stateful()
    found = findings(patient(module))["cache-leak"]
    assert found.verdict == "fail"
    assert "plain forward pass" in found.cause
    assert not module.seen.any()


def test_a_second_request_that_raises_is_a_leak() -> None:
    kept: dict[str, Tensor] = {}

    def generate(module: nn.Module, batch: Any, num_tokens: int) -> Tensor:
        if "n" in kept and kept["n"].size(1) > 60:
            kept.clear()
        ids, made = batch["ids"], []
        for _ in range(num_tokens):
            ids = module(ids, kept)[:, -1:].argmax(-1)
            made.append(ids)
        return torch.cat(made, dim=1)

    found = findings(patient(Cached(), generate))["cache-leak"]
    assert found.verdict == "fail"


SIZES: dict[str, Any] = {
    "vocab_size": 40,
    "d_model": 16,
    "num_encoder_layers": 2,
    "num_decoder_layers": 2,
    "attention": AttentionConfig(num_heads=4),
}


@pytest.mark.parametrize("family", ["encoder_decoder", "decoder"])
@pytest.mark.parametrize("position", ["sinusoidal", "rope", "relative"])
def test_gnomon_decodes_with_its_own_cache(family: str, position: str) -> None:
    torch.manual_seed(0)
    config: Any = TransformerConfig(
        **SIZES,  # type: ignore[arg-type]
        family=family,  # type: ignore[arg-type]
        position=PositionConfig(kind=position),  # type: ignore[arg-type]
    )
    found = findings(Patient(module=Transformer(config)), "cached-mask-alignment")
    assert not wrong(found)
    for code in ("cache-differs", "cache-leak", "batch-differs", "beam-reorder"):
        assert found[code].verdict == "pass", found[code].evidence
    left = found["left-padded-generation"]
    assert left.verdict == ("pass" if family == "decoder" else "n/a"), left.evidence


def tiny(name: str) -> nn.Module:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    special = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    if name == "gpt2":
        config = transformers.GPT2Config(
            vocab_size=40, n_embd=16, n_layer=2, n_head=4, n_positions=64, **special
        )
        return transformers.GPT2LMHeadModel(config)  # type: ignore[no-any-return]
    if name == "llama":
        config = transformers.LlamaConfig(
            vocab_size=40, hidden_size=16, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, intermediate_size=32, max_position_embeddings=64, **special,
        )  # fmt: skip
        return transformers.LlamaForCausalLM(config)  # type: ignore[no-any-return]
    config = transformers.T5Config(
        vocab_size=40, d_model=16, d_kv=4, d_ff=32, num_layers=2, num_heads=4, pad_token_id=0,
        eos_token_id=2, decoder_start_token_id=0,
    )  # fmt: skip
    return transformers.T5ForConditionalGeneration(config)  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", ["gpt2", "llama", "t5"])
def test_hugging_face_generates_as_it_reads(name: str) -> None:
    module = tiny(name)
    mode = module.training
    found = findings(Patient(module=module), "cached-mask-alignment")
    assert not wrong(found)
    for code in ("cache-differs", "cache-leak", "batch-differs", "beam-reorder"):
        assert found[code].verdict == "pass", f"{code}: {found[code].evidence}"
    assert module.training == mode
    assert not any(each._forward_hooks for each in module.modules())


def test_an_end_that_the_labels_leave_out_is_found() -> None:
    module = tiny("gpt2")
    ids = torch.randint(3, 40, (2, 10))
    ids[:, -1] = 2
    labels = ids.clone()
    batch = {"input_ids": ids, "labels": labels}
    assert findings(Patient(module=module, batch=batch))["pad-is-eos"].verdict == "pass"
    batch["labels"] = labels.masked_fill(labels == 2, -100)
    found = findings(Patient(module=module, batch=batch))["pad-is-eos"]
    assert found.verdict == "fail"
    assert "leave out the end" in found.cause


@pytest.mark.parametrize("masked", [True, False])
def test_prompts_padded_at_the_right_are_compared_at_their_last_token(masked: bool) -> None:
    torch.manual_seed(0)
    module = Transformer(TransformerConfig(**SIZES, family="decoder"))

    def generate(module: Any, batch: Any, num_tokens: int) -> Tensor:
        ids, cache = batch["ids"], module.new_cache()
        keep = ids != 0
        hidden = module.decode(ids, keep=keep if masked else None, cache=cache)
        last = keep.sum(1) - 1
        token = module.project(hidden)[torch.arange(len(ids)), last].argmax(-1, keepdim=True)
        made = [token]
        for _ in range(num_tokens - 1):
            token = module.project(module.decode(token, cache=cache)[:, -1:]).argmax(-1)
            made.append(token)
        return torch.cat(made, dim=1)

    ids = torch.randint(3, 40, (3, 16))
    ids[1, 12:] = ids[2, 9:] = 0
    sick = Patient(
        module=module, batch={"ids": ids}, generate=generate, padding_side="right", pad_id=0
    )
    found = findings(sick)["batch-differs"]
    assert found.verdict == ("pass" if masked else "fail"), found.evidence
    assert masked or "Padding of the prompts" in found.cause

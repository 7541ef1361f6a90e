"""The models that faults are injected into: BERT- and GPT-2-like, fresh and briefly trained."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from benchmarks.patients.text import BOS, EOS, PAD, VOCAB_SIZE, Text, batch_for
from benchmarks.patients.training import (
    Task,
    fields_of,
    left_padded,
    own_loss,
    seeded,
    train_briefly,
)
from torch import Tensor, nn

TRAINED_STEPS = 400
NUM_LAYERS = 3
WIDTH = 64
NUM_HEADS = 4
LENGTH = 48


@dataclass(frozen=True)
class Subject:
    """One architecture in one state.

    `scope` is DEForm's word for which operators are meant for it.
    """

    name: str
    scope: Literal["encoder", "decoder"]
    kind: str  # of task, see `patients.text.batch_for`
    trained: bool

    @property
    def key(self) -> str:
        return f"{self.name}/{'trained' if self.trained else 'fresh'}"

    @property
    def task(self) -> Task:
        return own_loss(self.kind)

    def build(self, text: Text, cache: Path) -> nn.Module:
        """The model in evaluation mode; always the same weights."""
        with seeded(7):
            module = _stock(self.name)
        if self.trained:
            saved = cache / f"deform-{self.name}-{TRAINED_STEPS}.safetensors"
            train_briefly(module, self.task, text, TRAINED_STEPS, saved)
        return module.eval()

    def batch(self, text: Text, seed: int = 1) -> dict[str, Tensor]:
        return batch_for(self.kind, text, seed, num_rows=4, length=LENGTH)

    def fields(self, module: nn.Module, text: Text) -> dict[str, Any]:
        """What is handed to the doctor beside module and batch.

        Generation is a loop of one's own that hands the cache on as `past_key_values`: DEForm's
        cache operators look for that name, and `generate` of transformers ≥ 5.24 has another.
        """
        fields = fields_of(module, self.task, text) | {"max_length": LENGTH}
        fields.pop("beam_generate", None)
        if self.scope == "decoder":
            fields["generate"] = cached_loop
        return fields


def cached_loop(module: nn.Module, batch: dict[str, Tensor], num_tokens: int) -> Tensor:
    """Greedy decoding by hand: int64 `[B, num_tokens]`, the new tokens."""
    return torch.stack([step.argmax(-1) for step in cached_logits(module, batch, num_tokens)], 1)


def cached_logits(module: nn.Module, batch: dict[str, Tensor], num_tokens: int) -> Iterator[Tensor]:
    """Logits `[B, V]` of each greedy step; prompts are padded on the left, positions given."""
    ids = batch["input_ids"]
    ids, mask = left_padded(ids, batch.get("attention_mask", torch.ones_like(ids)))
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    cache = None
    for _ in range(num_tokens):
        with torch.no_grad():
            out = module(
                input_ids=ids,
                attention_mask=mask,
                position_ids=positions,
                past_key_values=cache,
                use_cache=True,
            )
        logits: Tensor = out.logits[:, -1]
        yield logits
        cache = out.past_key_values
        ids = logits.argmax(-1, keepdim=True)
        mask = torch.cat([mask, torch.ones_like(ids)], dim=1)
        positions = positions[:, -1:] + 1


def _stock(name: str) -> nn.Module:
    import transformers

    common = {
        "vocab_size": VOCAB_SIZE,
        "pad_token_id": PAD,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
    }
    if name.startswith("bert"):
        bert = transformers.BertConfig(
            hidden_size=WIDTH,
            num_hidden_layers=NUM_LAYERS,
            num_attention_heads=NUM_HEADS,
            intermediate_size=2 * WIDTH,
            max_position_embeddings=512,
            attn_implementation="eager",
            **common,
        )
        if name == "bert-classifier":
            return transformers.BertForSequenceClassification(bert)
        return transformers.BertForMaskedLM(bert)
    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            n_embd=WIDTH,
            n_layer=NUM_LAYERS,
            n_head=NUM_HEADS,
            n_inner=2 * WIDTH,
            n_positions=1024,
            attn_implementation="eager",
            **common,
        )
    )


SUBJECTS: tuple[Subject, ...] = tuple(
    Subject(name, scope, kind, trained)
    for name, scope, kind in (
        ("bert", "encoder", "masked"),
        ("bert-classifier", "encoder", "classify"),
        ("gpt2", "decoder", "causal"),
    )
    for trained in (False, True)
)

"""Tiny Hugging Face models with random weights, and what their attention should look like."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

VOCAB = 99
BATCH, LENGTH, TARGET_LENGTH = 2, 7, 5


@dataclass(frozen=True)
class Kind:
    """One architecture: how many calls of each kind, and which scale and mask."""

    name: str
    num_encoder: int = 0
    num_decoder: int = 0
    num_cross: int = 0
    scale: float = 0.25  # 1 / sqrt(16)
    num_key_heads: int = 2
    has_bias: bool = False

    @property
    def num_calls(self) -> int:
        return self.num_encoder + self.num_decoder + self.num_cross


KINDS = [
    Kind("bert", num_encoder=2),
    Kind("roberta", num_encoder=2),
    Kind("distilbert", num_encoder=2),
    Kind("gpt2", num_decoder=2),
    Kind("llama", num_decoder=2, num_key_heads=1),
    Kind("qwen2", num_decoder=2, num_key_heads=1),
    Kind("mistral", num_decoder=2, num_key_heads=1),
    Kind("t5", num_encoder=2, num_decoder=2, num_cross=2, scale=1.0, has_bias=True),
    Kind("bart", num_encoder=2, num_decoder=2, num_cross=2),
    Kind("marian", num_encoder=2, num_decoder=2, num_cross=2),
]


def build(name: str, attention: str) -> nn.Module:
    """Two layers, two heads of 16, in evaluation mode."""
    import transformers as hf

    size: dict[str, Any] = {"vocab_size": VOCAB, "attn_implementation": attention}
    bert = {
        **size,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 48,
        "max_position_embeddings": 40,
    }
    llama = {**bert, "num_key_value_heads": 1}
    bart = {
        **size,
        "d_model": 32,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 48,
        "decoder_ffn_dim": 48,
        "max_position_embeddings": 40,
        "pad_token_id": 1,
        "decoder_start_token_id": 1,
    }
    torch.manual_seed(0)
    match name:
        case "bert":
            model = hf.BertModel(hf.BertConfig(**bert))
        case "roberta":
            model = hf.RobertaModel(hf.RobertaConfig(**bert))
        case "distilbert":
            model = hf.DistilBertModel(
                hf.DistilBertConfig(**size, dim=32, n_layers=2, n_heads=2, hidden_dim=48)
            )
        case "gpt2":
            model = hf.GPT2LMHeadModel(hf.GPT2Config(**size, n_embd=32, n_layer=2, n_head=2))
        case "llama":
            model = hf.LlamaForCausalLM(hf.LlamaConfig(**llama))
        case "qwen2":
            model = hf.Qwen2ForCausalLM(hf.Qwen2Config(**llama))
        case "mistral":
            model = hf.MistralForCausalLM(hf.MistralConfig(**llama, sliding_window=4))
        case "t5":
            model = hf.T5ForConditionalGeneration(
                hf.T5Config(**size, d_model=32, d_kv=16, num_heads=2, num_layers=2, d_ff=48)
            )
        case "bart":
            model = hf.BartForConditionalGeneration(hf.BartConfig(**bart))
        case "marian":
            model = hf.MarianMTModel(hf.MarianConfig(**bart))
        case _:
            raise ValueError(name)
    return model.eval()


def inputs(kind: Kind) -> dict[str, Tensor]:
    """Two rows, the second with two pads on the right."""
    torch.manual_seed(1)
    mask = torch.ones(BATCH, LENGTH, dtype=torch.long)
    mask[1, -2:] = 0
    given = {"input_ids": torch.randint(3, VOCAB, (BATCH, LENGTH)), "attention_mask": mask}
    if kind.num_cross:
        given["decoder_input_ids"] = torch.randint(3, VOCAB, (BATCH, TARGET_LENGTH))
    return given

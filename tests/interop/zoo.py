"""A small random Hugging Face model of every architecture, on disk, with a tokenizer beside it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import tokenizers
import torch
from tokenizers import models, pre_tokenizers, processors

VOCAB_SIZE = 40
_SMALL = {
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 24,
    "max_position_embeddings": 24,
}
_LLAMA = {**_SMALL, "num_key_value_heads": 2, "bos_token_id": 2, "eos_token_id": 3}
_TWO_STACKS = {
    "vocab_size": VOCAB_SIZE,
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "max_position_embeddings": 64,
}
_T5 = {
    "vocab_size": VOCAB_SIZE,
    "d_model": 16,
    "d_kv": 6,
    "d_ff": 24,
    "num_layers": 2,
    "num_decoder_layers": 1,
    "num_heads": 4,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 12,
    "pad_token_id": 0,
    "eos_token_id": 3,
    "decoder_start_token_id": 0,
}
_MARIAN = {
    **_TWO_STACKS,
    "scale_embedding": True,
    "activation_function": "swish",
    "pad_token_id": 0,
    "bos_token_id": 2,
    "eos_token_id": 3,
    "forced_eos_token_id": 3,
    "decoder_start_token_id": 0,
}
_YARN = {
    "rope_type": "yarn",
    "rope_theta": 500.0,
    "factor": 4.0,
    "original_max_position_embeddings": 8,
}

_OPT = {
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "ffn_dim": 24,
    "max_position_embeddings": 24,
    "pad_token_id": 1,
    "bos_token_id": 2,
    "eos_token_id": 3,
}
_LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 4.0,
    "original_max_position_embeddings": 24,
    "low_freq_factor": 0.25,
    "high_freq_factor": 3.0,
}

# name → (class of the model, class of its configuration, its values)
ZOO: dict[str, tuple[str, str, dict[str, Any]]] = {
    "bert_pretraining": ("BertForPreTraining", "BertConfig", _SMALL),
    "bert_masked": ("BertForMaskedLM", "BertConfig", {**_SMALL, "layer_norm_eps": 1e-5}),
    "bert_base": ("BertModel", "BertConfig", _SMALL),
    "bert_classifier": ("BertForSequenceClassification", "BertConfig", _SMALL),
    "distilbert": (
        "DistilBertForMaskedLM",
        "DistilBertConfig",
        {
            "vocab_size": VOCAB_SIZE,
            "dim": 16,
            "n_layers": 2,
            "n_heads": 4,
            "hidden_dim": 24,
            "max_position_embeddings": 24,
        },
    ),
    "roberta": ("RobertaForMaskedLM", "RobertaConfig", {**_SMALL, "pad_token_id": 1}),
    "xlm_roberta": ("XLMRobertaModel", "XLMRobertaConfig", {**_SMALL, "type_vocab_size": 1}),
    "camembert": ("CamembertForMaskedLM", "CamembertConfig", {**_SMALL, "pad_token_id": 1}),
    "electra": ("ElectraModel", "ElectraConfig", {**_SMALL, "embedding_size": 16}),
    "gpt2": (
        "GPT2LMHeadModel",
        "GPT2Config",
        {
            "vocab_size": VOCAB_SIZE,
            "n_positions": 24,
            "n_embd": 16,
            "n_layer": 2,
            "n_head": 4,
            "bos_token_id": 2,
            "eos_token_id": 3,
        },
    ),
    "gpt2_base": (
        "GPT2Model",
        "GPT2Config",
        {
            "vocab_size": VOCAB_SIZE,
            "n_positions": 24,
            "n_embd": 16,
            "n_layer": 2,
            "n_head": 4,
            "n_inner": 20,
            "bos_token_id": 2,
            "eos_token_id": 3,
        },
    ),
    "llama": ("LlamaForCausalLM", "LlamaConfig", _LLAMA),
    "llama_biased": (
        "LlamaForCausalLM",
        "LlamaConfig",
        {**_LLAMA, "attention_bias": True, "mlp_bias": True, "head_dim": 6},
    ),
    "llama_tied_yarn": (
        "LlamaForCausalLM",
        "LlamaConfig",
        {**_LLAMA, "tie_word_embeddings": True, "rope_parameters": _YARN},
    ),
    "llama3": (
        "LlamaForCausalLM",
        "LlamaConfig",
        {**_LLAMA, "head_dim": 12, "rope_parameters": _LLAMA3},
    ),
    "mistral": ("MistralForCausalLM", "MistralConfig", {**_LLAMA, "sliding_window": 5}),
    "mistral_full": ("MistralForCausalLM", "MistralConfig", {**_LLAMA, "sliding_window": None}),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", _LLAMA),
    "qwen2_window": (
        "Qwen2ForCausalLM",
        "Qwen2Config",
        {
            **_LLAMA,
            "use_sliding_window": True,
            "sliding_window": 5,
            "max_window_layers": 0,
            "tie_word_embeddings": True,
        },
    ),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", {**_LLAMA, "head_dim": 6}),
    "qwen3_window": (
        "Qwen3ForCausalLM",
        "Qwen3Config",
        {
            **_LLAMA,
            "head_dim": 4,
            "attention_bias": True,
            "use_sliding_window": True,
            "sliding_window": 5,
            "max_window_layers": 0,
            "tie_word_embeddings": True,
        },
    ),
    "phi3": ("Phi3ForCausalLM", "Phi3Config", {**_LLAMA, "pad_token_id": 0}),
    "phi3_window": (
        "Phi3ForCausalLM",
        "Phi3Config",
        {**_LLAMA, "pad_token_id": 0, "sliding_window": 5, "tie_word_embeddings": True},
    ),
    "opt": ("OPTForCausalLM", "OPTConfig", _OPT),
    "opt_after": (
        "OPTForCausalLM",
        "OPTConfig",
        {**_OPT, "do_layer_norm_before": False, "enable_bias": False, "pad_token_id": 0},
    ),
    "marian": ("MarianMTModel", "MarianConfig", _MARIAN),
    "marian_two_vocabularies": (
        "MarianMTModel",
        "MarianConfig",
        {**_MARIAN, "decoder_vocab_size": 43, "share_encoder_decoder_embeddings": False},
    ),
    "bart": (
        "BartForConditionalGeneration",
        "BartConfig",
        {
            **_TWO_STACKS,
            "pad_token_id": 1,
            "bos_token_id": 2,
            "eos_token_id": 3,
            "decoder_start_token_id": 3,
            "forced_bos_token_id": 2,
            "forced_eos_token_id": 3,
        },
    ),
    "mbart": (
        "MBartForConditionalGeneration",
        "MBartConfig",
        {
            **_TWO_STACKS,
            "pad_token_id": 1,
            "bos_token_id": 2,
            "eos_token_id": 3,
            "decoder_start_token_id": 3,
            "forced_bos_token_id": 7,
            "scale_embedding": True,
        },
    ),
    "mt5": ("MT5ForConditionalGeneration", "MT5Config", _T5),
    "mt5_two_tables": ("MT5ForConditionalGeneration", "MT5Config", _T5),
    "t5": ("T5ForConditionalGeneration", "T5Config", _T5),
    "t5_1.1": (
        "T5ForConditionalGeneration",
        "T5Config",
        {**_T5, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
    ),
}

_DISTILBERT = ZOO["distilbert"][2]
_ROBERTA = {**_SMALL, "pad_token_id": 1, "type_vocab_size": 1}
_DECODER = {**_LLAMA, "pad_token_id": 0}
# the same of classes that give labels
CLASSIFIERS: dict[str, tuple[str, str, dict[str, Any]]] = {
    f"{kind}_{what}": (f"{name}For{task}Classification", f"{name}Config", values)
    for kind, name, values in (
        ("bert", "Bert", _SMALL),
        ("distilbert", "DistilBert", _DISTILBERT),
        ("roberta", "Roberta", _ROBERTA),
        ("xlm_roberta", "XLMRoberta", _ROBERTA),
        ("camembert", "Camembert", _ROBERTA),
        ("electra", "Electra", ZOO["electra"][2]),
        ("gpt2", "GPT2", {**ZOO["gpt2"][2], "pad_token_id": 0}),
        ("llama", "Llama", _DECODER),
        ("mistral", "Mistral", {**_DECODER, "sliding_window": 5}),
        ("qwen2", "Qwen2", _DECODER),
        ("qwen3", "Qwen3", {**_DECODER, "head_dim": 6}),
        ("phi3", "Phi3", _DECODER),
    )
    for what, task in (("texts", "Sequence"), ("words", "Token"))
}
CLASSIFIERS["opt_texts"] = (
    "OPTForSequenceClassification",
    "OPTConfig",
    {**ZOO["opt"][2], "pad_token_id": 0},
)


def build(name: str, labels: dict[int, str] | None = None, **more: Any) -> Any:
    """The random model; norms and biases too, so that none can be mixed up unseen.

    Args:
        labels: names of its outputs, of one that gives labels.
        more: further keys of its configuration.
    """
    import transformers

    model_class, config_class, values = (ZOO | CLASSIFIERS)[name]
    named = {} if labels is None else {"id2label": labels, "label2id": _numbers(labels)}
    config = getattr(transformers, config_class)(**{**values, **named, **more})
    model = getattr(transformers, model_class)(config)
    torch.manual_seed(11)
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if config.model_type == "marian" and "embed_positions" in key:
                continue
            parameter.copy_(torch.randn_like(parameter) * 0.3)
        for key, buffer in model.named_buffers():
            if key == "final_logits_bias":
                buffer.copy_(torch.randn_like(buffer))
    return model.eval()


def _numbers(labels: dict[int, str]) -> dict[str, int]:
    return {label: index for index, label in labels.items()}


def save(name: str, folder: Path, more_rows: int = 0, **more: Any) -> Any:
    """The model of that name, saved in `folder` with a tokenizer; with rows that no id has.

    Args:
        more: as for `build`.
    """
    model = build(name, **more)
    if more_rows:
        model.resize_token_embeddings(VOCAB_SIZE + more_rows)
    model.save_pretrained(folder)
    if name in ("t5_1.1", "mt5_two_tables"):  # as published: an output table of its own
        untie(model, folder)
    model_class, _, values = (ZOO | CLASSIFIERS)[name]
    around = model_class.startswith(
        ("Bart", "Bert", "Rob", "XLM", "Distil", "Camem", "Electra", "MBart")
    )
    save_tokenizer(folder, around, pad_id=values.get("pad_token_id", 0))
    return model


def untie(model: Any, folder: Path) -> None:
    """Give a T5 an output table of its own, in the model and on disk."""
    from safetensors.torch import load_file, save_file

    torch.manual_seed(12)
    table = torch.nn.Parameter(torch.randn_like(model.lm_head.weight) * 0.3)
    model.lm_head.weight = table
    state = load_file(folder / "model.safetensors")
    save_file(
        {**state, "lm_head.weight": table.data}, folder / "model.safetensors", {"format": "pt"}
    )
    path = folder / "config.json"
    config = json.loads(path.read_text())
    config["tie_word_embeddings"] = False
    path.write_text(json.dumps(config))


def save_tokenizer(folder: Path, around: bool, pad_id: int = 0) -> None:
    """Words w0, w1 …; an end behind a text, and `<s>` before it with `around`."""
    specials = ["<pad>", "<unk>", "<s>", "</s>", "<mask>"]
    if pad_id == 1:
        specials[:2] = "<unk>", "<pad>"
    words = [f"w{number}" for number in range(VOCAB_SIZE - len(specials))]
    vocab = {word: index for index, word in enumerate([*specials, *words])}
    shell = tokenizers.Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    shell.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    shell.add_special_tokens(specials)
    begin = "<s> " if around else ""
    shell.post_processor = processors.TemplateProcessing(
        single=f"{begin}$A </s>",
        pair=f"{begin}$A </s> $B:1 </s>:1",
        special_tokens=[("<s>", 2), ("</s>", 3)],
    )
    shell.save(str(folder / "tokenizer.json"))
    roles = {"pad": "<pad>", "unk": "<unk>", "bos": "<s>", "eos": "</s>", "mask": "<mask>"}
    settings = {f"{role}_token": name for role, name in roles.items()}
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", **settings})
    )

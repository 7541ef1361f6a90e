"""Stock architectures of transformers, small: what to build for each, and on which kind of text.

Widths, depths and vocabulary are small; every other setting is the architecture's own default.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from benchmarks.patients.text import BOS, EOS, PAD, VOCAB_SIZE
from torch import nn

WIDTH, LAYERS, HEADS, INNER, POSITIONS = 32, 2, 4, 64, 128

_PLAIN = {
    "hidden_size": WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "intermediate_size": INNER,
    "max_position_embeddings": POSITIONS,
}
_GROUPED = _PLAIN | {"num_key_value_heads": 2}
_WITH_HEAD_SIZE = _GROUPED | {"head_dim": WIDTH // HEADS}
_N = {"n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "n_positions": POSITIONS}
_BART = {
    "d_model": WIDTH,
    "encoder_layers": LAYERS,
    "decoder_layers": LAYERS,
    "encoder_attention_heads": HEADS,
    "decoder_attention_heads": HEADS,
    "encoder_ffn_dim": INNER,
    "decoder_ffn_dim": INNER,
    "max_position_embeddings": POSITIONS,
    "decoder_start_token_id": EOS,
    "forced_eos_token_id": None,
}
_T5 = {
    "d_model": WIDTH,
    "d_kv": WIDTH // HEADS,
    "d_ff": INNER,
    "num_layers": LAYERS,
    "num_heads": HEADS,
    "decoder_start_token_id": PAD,
}


@dataclass(frozen=True)
class Architecture:
    """`model` and `config`: class names in transformers; `kind`: see `patients.text.batch_for`."""

    name: str
    kind: str
    model: str
    config: str
    settings: dict[str, Any]
    attentions: tuple[str, ...] = ("eager", "sdpa")

    def known(self) -> bool:
        """Whether the installed transformers has it."""
        import transformers

        return hasattr(transformers, self.model) and hasattr(transformers, self.config)

    def build(self, attention: str) -> nn.Module:
        """Random weights from torch's generator."""
        import transformers

        config = getattr(transformers, self.config)(
            vocab_size=VOCAB_SIZE,
            pad_token_id=PAD,
            bos_token_id=BOS,
            eos_token_id=EOS,
            attn_implementation=attention,
            **self.settings,
        )
        module: nn.Module = getattr(transformers, self.model)(config)
        return module.eval()


def _masked(name: str, prefix: str, settings: dict[str, Any], **rest: Any) -> Architecture:
    return Architecture(name, "masked", f"{prefix}ForMaskedLM", f"{prefix}Config", settings, **rest)


def _causal(name: str, prefix: str, settings: dict[str, Any], **rest: Any) -> Architecture:
    return Architecture(name, "causal", f"{prefix}ForCausalLM", f"{prefix}Config", settings, **rest)


def _seq2seq(name: str, model: str, prefix: str, settings: dict[str, Any]) -> Architecture:
    return Architecture(name, "seq2seq", model, f"{prefix}Config", settings)


_DISTIL = {
    "dim": WIDTH,
    "n_layers": LAYERS,
    "n_heads": HEADS,
    "hidden_dim": INNER,
    "max_position_embeddings": POSITIONS,
}
_DEBERTA = _PLAIN | {
    "relative_attention": True,
    "pos_att_type": ["p2c", "c2p"],
    "position_biased_input": False,
    "position_buckets": 16,
}
_NEO = {
    "hidden_size": WIDTH,
    "num_layers": LAYERS,
    "num_heads": HEADS,
    "attention_types": [[["global", "local"], 1]],
    "window_size": 16,
    "max_position_embeddings": POSITIONS,
}
_OPT = {
    "hidden_size": WIDTH,
    "word_embed_proj_dim": WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "ffn_dim": INNER,
    "max_position_embeddings": POSITIONS,
}
_XGLM = {
    "d_model": WIDTH,
    "num_layers": LAYERS,
    "attention_heads": HEADS,
    "ffn_dim": INNER,
    "max_position_embeddings": POSITIONS,
}
_MODERN = _PLAIN | {
    "cls_token_id": BOS,
    "sep_token_id": EOS,
    "local_attention": 16,
    "global_attn_every_n_layers": 2,
}

ARCHITECTURES: tuple[Architecture, ...] = (
    _masked("bert", "Bert", _PLAIN),
    _masked("roberta", "Roberta", _PLAIN),
    _masked("xlm-roberta", "XLMRoberta", _PLAIN),
    _masked("camembert", "Camembert", _PLAIN),
    _masked("distilbert", "DistilBert", _DISTIL),
    _masked("albert", "Albert", _PLAIN | {"embedding_size": 16}),
    _masked("electra", "Electra", _PLAIN | {"embedding_size": 16}),
    _masked("deberta-v2", "DebertaV2", _DEBERTA, attentions=("eager",)),
    _masked("mpnet", "MPNet", _PLAIN, attentions=("eager",)),
    _masked("roformer", "RoFormer", _PLAIN | {"embedding_size": WIDTH}, attentions=("eager",)),
    _masked("megatron-bert", "MegatronBert", _PLAIN, attentions=("eager",)),
    _masked("modernbert", "ModernBert", _MODERN),
    Architecture(
        "bert-classifier", "classify", "BertForSequenceClassification", "BertConfig", _PLAIN
    ),
    Architecture("gpt2", "causal", "GPT2LMHeadModel", "GPT2Config", _N | {"n_inner": INNER}),
    _causal("gpt-neo", "GPTNeo", _NEO, attentions=("eager",)),
    _causal("gpt-neox", "GPTNeoX", _PLAIN),
    _causal("gptj", "GPTJ", _N | {"rotary_dim": 4}),
    _causal("opt", "OPT", _OPT),
    _causal(
        "bloom",
        "Bloom",
        {"hidden_size": WIDTH, "n_layer": LAYERS, "n_head": HEADS},
        attentions=("eager",),
    ),
    _causal("llama", "Llama", _GROUPED),
    _causal("mistral", "Mistral", _GROUPED | {"sliding_window": 16}),
    _causal("qwen2", "Qwen2", _GROUPED),
    _causal("qwen3", "Qwen3", _WITH_HEAD_SIZE),
    _causal("gemma", "Gemma", _WITH_HEAD_SIZE),
    _causal(
        "gemma2",
        "Gemma2",
        _WITH_HEAD_SIZE | {"query_pre_attn_scalar": WIDTH // HEADS, "sliding_window": 16},
        attentions=("eager",),
    ),
    _causal("phi", "Phi", _PLAIN),
    _causal("phi3", "Phi3", _GROUPED),
    _causal("falcon", "Falcon", _PLAIN),
    _causal("stablelm", "StableLm", _GROUPED),
    _causal("starcoder2", "Starcoder2", _GROUPED),
    _causal("olmo2", "Olmo2", _GROUPED),
    _causal("xglm", "XGLM", _XGLM, attentions=("eager",)),
    _causal("biogpt", "BioGpt", _PLAIN),
    _seq2seq("t5", "T5ForConditionalGeneration", "T5", _T5),
    _seq2seq("mt5", "MT5ForConditionalGeneration", "MT5", _T5),
    _seq2seq("umt5", "UMT5ForConditionalGeneration", "UMT5", _T5),
    _seq2seq("bart", "BartForConditionalGeneration", "Bart", _BART),
    _seq2seq("mbart", "MBartForConditionalGeneration", "MBart", _BART),
    _seq2seq("pegasus", "PegasusForConditionalGeneration", "Pegasus", _BART),
    _seq2seq("marian", "MarianMTModel", "Marian", _BART),
    _seq2seq("m2m-100", "M2M100ForConditionalGeneration", "M2M100", _BART),
    _seq2seq("blenderbot", "BlenderbotForConditionalGeneration", "Blenderbot", _BART),
    _seq2seq(
        "blenderbot-small", "BlenderbotSmallForConditionalGeneration", "BlenderbotSmall", _BART
    ),
)

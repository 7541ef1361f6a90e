"""Tiny Hugging Face models with random weights, attention eager or fused."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from benchmarks.faults.host import (
    Anatomy,
    Batch,
    Call,
    Change,
    Host,
    Layer,
    Prediction,
    Site,
    seeded,
)
from benchmarks.faults.hosts.decoding import last_real
from benchmarks.faults.hosts.seams import residual_before_norm
from benchmarks.faults.hosts.text import (
    BOS,
    EOS,
    LONGEST,
    PAD,
    VOCAB_SIZE,
    masked,
    rows,
    swapped,
)
from torch import Tensor, nn

WIDTH, NUM_HEADS, FF, NUM_LAYERS = 32, 4, 64, 2
IGNORED = -100
SPECIAL = {"pad_token_id": PAD, "bos_token_id": BOS, "eos_token_id": EOS}
REROUTED = "faults_rerouted"


def exchanged_attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    position_bias: Tensor | None = None,
    is_causal: bool | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """An attention function of the user's own, as the library lets one register it."""
    repeats = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(repeats, dim=1), value.repeat_interleave(repeats, dim=1)
    T, S = query.shape[2], key.shape[2]
    if attention_mask is not None:
        is_bool = attention_mask.dtype == torch.bool
        keep = attention_mask if is_bool else attention_mask > -1e4
        keep = keep.expand(-1, -1, T, S)
    else:
        keep = torch.ones(1, 1, T, S, dtype=torch.bool)
        causal = module.is_causal if is_causal is None else is_causal
        if causal and T > 1:
            keep = keep.tril(S - T)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    call = Call(
        query, key, value, keep, position_bias, scale, dropout, module.training, module.faults_site
    )
    native = NATIVE[module.faults_native]
    return module.faults_change(call, native).transpose(1, 2).contiguous(), None


def eager(call: Call) -> Tensor:
    """As the library's eager functions do it: additive mask, softmax, dropout."""
    scores = call.query @ call.key.transpose(2, 3) * call.scale
    if call.bias is not None:
        scores = scores + call.bias
    if not bool(call.keep.all()):
        hidden = torch.finfo(scores.dtype).min
        scores = scores + torch.zeros_like(call.keep, dtype=scores.dtype).masked_fill(
            ~call.keep, hidden
        )
    weights = nn.functional.dropout(scores.softmax(-1), call.dropout)
    return weights @ call.value


def sdpa(call: Call) -> Tensor:
    """The fused function with the mask as booleans."""
    mask = None if bool(call.keep.all()) else call.keep
    if call.bias is not None:
        hidden = torch.finfo(call.bias.dtype).min
        mask = call.bias if mask is None else torch.where(mask, call.bias, hidden)
    return nn.functional.scaled_dot_product_attention(
        call.query, call.key, call.value, mask, call.dropout, scale=call.scale
    )


NATIVE: dict[str, Callable[[Call], Tensor]] = {"eager": eager, "sdpa": sdpa}


def reroute(module: nn.Module, site: Site, change: Change) -> None:
    """Name our function in this one sublayer's configuration."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    ALL_ATTENTION_FUNCTIONS.register(REROUTED, exchanged_attention)
    sublayer: Any = module.get_submodule(site.name)
    native = sublayer.config._attn_implementation
    sublayer.config = copy.deepcopy(sublayer.config)
    sublayer.config._attn_implementation_internal = REROUTED
    sublayer.faults_native = native if native in NATIVE else sublayer.faults_native
    sublayer.faults_change, sublayer.faults_site = change, site


class ExchangedRotary(nn.Module):
    """A rotary table of the user's own; the library's code applies it to coordinate halves."""

    def __init__(self, old: nn.Module, angles: Callable[..., Tensor], mixed: bool) -> None:
        super().__init__()
        self.register_buffer("inv_freq", old.inv_freq, persistent=False)
        self.angles, self.mixed = angles, mixed

    def forward(self, x: Tensor, position_ids: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
        """Cosines and sines `[B, T, K]`."""
        angle = self.angles(position_ids, self.inv_freq.float())
        both = angle.repeat_interleave(2, -1) if self.mixed else torch.cat((angle, angle), dim=-1)
        return both.cos().to(x.dtype), both.sin().to(x.dtype)


def rotate(module: Any, angles: Callable[..., Tensor], mixed: bool) -> None:
    """Exchange the one rotary module."""
    module.model.rotary_emb = ExchangedRotary(module.model.rotary_emb, angles, mixed)


def self_sites(pattern: str, role: Any) -> Callable[[nn.Module], list[Site]]:
    """Sites of a stack whose attention modules are named by `pattern`."""
    return lambda _: [Site(pattern.format(n), role, n) for n in range(NUM_LAYERS)]


def cache_key(module: nn.Module) -> str:
    """The name of the cache argument, which changed within version 5."""
    return "cache" if "cache" in inspect.signature(module.forward).parameters else "past_key_values"


def predict_next(module: nn.Module, batch: Mapping[str, Tensor]) -> Prediction:
    """The library shifts: position t predicts label t + 1."""
    labels = batch["labels"][:, 1:]
    logits = module(**{k: v for k, v in batch.items() if k != "labels"}).logits
    return Prediction(logits[:, :-1], labels.clamp(min=0), labels != IGNORED)


def predict_in_place(module: nn.Module, batch: Mapping[str, Tensor]) -> Prediction:
    """Masked language models and encoder-decoders: position t predicts label t."""
    labels = batch["labels"]
    logits = module(**{k: v for k, v in batch.items() if k != "labels"}).logits
    return Prediction(logits, labels.clamp(min=0), labels != IGNORED)


def text_batch(seed: int) -> Batch:
    """A language model's batch."""
    ids = rows(seed)
    labels = ids.masked_fill(ids == PAD, IGNORED)
    return {"input_ids": ids, "attention_mask": (ids != PAD).long(), "labels": labels}


def masked_batch(seed: int) -> Batch:
    """A masked language model's batch."""
    ids = rows(seed)
    inputs, places = masked(ids)
    labels = ids.masked_fill(~places, IGNORED)
    return {"input_ids": inputs, "attention_mask": (ids != PAD).long(), "labels": labels}


def pair_batch(seed: int) -> Batch:
    """An encoder-decoder's batch; the decoder's input is the label shifted right."""
    source = rows(seed, first=False)
    target = swapped(source)
    decoder = torch.cat((torch.full((len(source), 1), BOS), target[:, :-1]), dim=1)
    return {
        "input_ids": source,
        "attention_mask": (source != PAD).long(),
        "decoder_input_ids": decoder,
        "labels": target.masked_fill(target == PAD, IGNORED),
    }


class TextDecoding:
    """Attention mask and position ids given, so that padding neither counts nor is seen."""

    def __init__(self, positions: bool = True) -> None:
        self.positions = positions

    def _read(self, module: Any, state: dict, ids: Tensor, positions: Tensor) -> Tensor:
        key = cache_key(module)
        given = {"position_ids": positions} if self.positions else {}
        out = module(
            input_ids=ids,
            attention_mask=state["mask"],
            use_cache=True,
            **{key: state["cache"]},
            **given,
        )
        state["cache"] = out[key]
        logits: Tensor = out.logits
        return logits

    def start(self, module: Any, batch: Mapping[str, Tensor]) -> tuple[dict, Tensor]:
        """Read the prompt."""
        mask = batch.get("attention_mask")
        mask = (batch["input_ids"] != PAD).long() if mask is None else mask
        state = {"mask": mask, "cache": None}
        logits = self._read(module, state, batch["input_ids"], (mask.cumsum(1) - 1).clamp(min=0))
        return state, last_real(logits, mask.bool())

    def advance(self, module: Any, state: dict, tokens: Tensor) -> Tensor:
        """One token more."""
        positions = state["mask"].sum(1, keepdim=True)
        state["mask"] = torch.cat((state["mask"], torch.ones_like(positions)), dim=1)
        return self._read(module, state, tokens.unsqueeze(1), positions)[:, -1]

    def reorder(self, state: dict, rows: Tensor) -> None:
        """The library's own reordering, and the mask."""
        state["cache"].reorder_cache(rows)
        state["mask"] = state["mask"][rows]


class PairDecoding:
    """The encoder once, then the decoder with the library's cache."""

    def start(self, module: Any, batch: Mapping[str, Tensor]) -> tuple[dict, Tensor]:
        """Encode the source, read BOS."""
        ids = batch["input_ids"]
        mask = batch.get("attention_mask")
        mask = (ids != PAD).long() if mask is None else mask
        memory = module.get_encoder()(input_ids=ids, attention_mask=mask)
        state = {"memory": memory, "mask": mask, "cache": None}
        return state, self.advance(module, state, ids.new_full((len(ids),), BOS))

    def advance(self, module: Any, state: dict, tokens: Tensor) -> Tensor:
        """One token more."""
        key = cache_key(module)
        out = module(
            encoder_outputs=state["memory"],
            attention_mask=state["mask"],
            decoder_input_ids=tokens.unsqueeze(1),
            use_cache=True,
            **{key: state["cache"]},
        )
        state["cache"] = out[key]
        logits: Tensor = out.logits[:, -1]
        return logits

    def reorder(self, state: dict, rows: Tensor) -> None:
        """The library's own reordering, the memory and its mask."""
        state["cache"].reorder_cache(rows)
        state["mask"] = state["mask"][rows]
        state["memory"] = copy.copy(state["memory"])
        state["memory"].last_hidden_state = state["memory"].last_hidden_state[rows]


def builder(
    model: str, config: str, implementation: str, **choices: Any
) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        import transformers

        settings = getattr(transformers, config)(**{**SPECIAL, **choices})
        settings._attn_implementation = implementation
        module: nn.Module = getattr(transformers, model)(settings)
        return module

    return build


def layer(
    name: str, norms: str, up: str, down: str, query: str, key: str, out: str
) -> tuple[Layer, ...]:
    """Layers by patterns relative to `name`, which holds the layer's number."""
    found = []
    for number in range(NUM_LAYERS):
        stem = name.format(number)
        found.append(
            Layer(
                stem,
                tuple(f"{stem}.{norm}" for norm in norms.split()),
                f"{stem}.{up}",
                f"{stem}.{down}",
                f"{stem}.{query}.weight",
                f"{stem}.{key}.weight",
                f"{stem}.{out}.weight",
                fused=query == key,
                transposed="c_attn" in query,
            )
        )
    return tuple(found)


LLAMA_LAYER = (
    "model.layers.{}",
    "input_layernorm post_attention_layernorm",
    "mlp.gate_proj",
    "mlp.down_proj",
    "self_attn.q_proj",
    "self_attn.k_proj",
    "self_attn.o_proj",
)
BART_LAYER = ("fc1", "fc2", "self_attn.q_proj", "self_attn.k_proj", "self_attn.out_proj")
BERT_LAYER = (
    "attention.output.LayerNorm output.LayerNorm",
    "intermediate.dense",
    "output.dense",
    "attention.self.query",
    "attention.self.key",
    "attention.output.dense",
)


def residual_in_output(stem: str) -> Callable[[nn.Module, int, float], None]:
    """BERT adds the residual where the feed-forward's output module gets it as an argument."""

    def residual(module: nn.Module, layer: int, factor: float) -> None:
        def weigh(_: nn.Module, inputs: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
            return inputs[0], inputs[1] * factor

        output = module.get_submodule(f"{stem}.encoder.layer.{layer}.output")
        output.register_forward_pre_hook(weigh)

    return residual


class PackedLlama(nn.Module):
    """Llama over rows that hold several documents, numbered by `documents [B, T]`."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def visible(self, documents: Tensor) -> Tensor:
        """bool `[B, 1, T, T]`: earlier tokens of the same document."""
        T = documents.shape[1]
        same = documents.unsqueeze(2) == documents.unsqueeze(1)
        return (same & torch.ones(T, T, dtype=torch.bool).tril()).unsqueeze(1)

    def forward(self, input_ids: Tensor, documents: Tensor, labels: Tensor | None = None) -> Any:
        """The library's output."""
        places = torch.arange(input_ids.shape[1]).expand_as(documents)
        begins = documents != nn.functional.pad(documents, (1, 0), value=-1)[:, :-1]
        places = places - torch.where(begins, places, 0).cummax(dim=1).values
        return self.model(
            input_ids=input_ids,
            attention_mask=self.visible(documents),
            position_ids=places,
            labels=labels,
        )


def packed_batch(seed: int) -> Batch:
    """Two rows of two documents each."""
    ids = rows(seed, (12, 12, 12, 12)).view(2, 24)
    documents = torch.zeros(2, 24, dtype=torch.long)
    documents[:, 12:] = 1
    return {"input_ids": ids, "documents": documents, "labels": ids.clone()}


def _packed(llama: Host) -> Host:
    return replace(
        llama,
        name="hf-llama-packed",
        make=lambda seed: PackedLlama(llama.make(seed)),
        make_batch=packed_batch,
        sites=self_sites("model.model.layers.{}.self_attn", "decoder"),
        anatomy=Anatomy(layers=(), embedding="model.model.embed_tokens"),
        traits=frozenset({"packed"}),
        mask="",
        decoding=None,
        rotate=None,
        residual=None,
        declared={"family": "decoder", "document_key": "documents"},
    )


def _bert(name: str, implementation: str, model: str, config: str, stem: str, **more: Any) -> Host:
    build = builder(
        model,
        config,
        implementation,
        vocab_size=VOCAB_SIZE,
        hidden_size=WIDTH,
        num_hidden_layers=NUM_LAYERS,
        num_attention_heads=NUM_HEADS,
        intermediate_size=FF,
        max_position_embeddings=LONGEST + more.pop("extra_positions", 0),
    )
    return Host(
        name=f"hf-{name}-{implementation}",
        kind="huggingface",
        family="encoder",
        make=lambda seed: seeded(seed, build),
        make_batch=masked_batch,
        sites=self_sites(stem + ".encoder.layer.{}.attention.self", "encoder"),
        reroute=reroute,
        predict=predict_in_place,
        residual=residual_in_output(stem),
        source="input_ids",
        mask="attention_mask",
        anatomy=Anatomy(
            layers=layer(stem + ".encoder.layer.{}", *BERT_LAYER),
            embedding=f"{stem}.embeddings.word_embeddings",
            output=more["output"],
            positions=(f"{stem}.embeddings.position_embeddings",),
        ),
        traits=frozenset(
            {"padding", "tied", "learned-positions", "layer-norm", "post-norm", "config",
             "dropout-modules", "gpt-init"}
        ),
        module_loss=True,
    )  # fmt: skip


def _gpt2(implementation: str) -> Host:
    build = builder(
        "GPT2LMHeadModel",
        "GPT2Config",
        implementation,
        vocab_size=VOCAB_SIZE,
        n_embd=WIDTH,
        n_layer=NUM_LAYERS,
        n_head=NUM_HEADS,
        n_inner=FF,
        n_positions=LONGEST,
    )
    return Host(
        name=f"hf-gpt2-{implementation}",
        kind="huggingface",
        family="decoder",
        make=lambda seed: seeded(seed, build),
        make_batch=text_batch,
        sites=self_sites("transformer.h.{}.attn", "decoder"),
        residual=residual_before_norm("transformer.h.{}.ln_2", "transformer.h.{}.mlp"),
        reroute=reroute,
        predict=predict_next,
        source="input_ids",
        mask="attention_mask",
        decoding=TextDecoding(),
        anatomy=Anatomy(
            layers=layer(
                "transformer.h.{}", "ln_1 ln_2", "mlp.c_fc", "mlp.c_proj",
                "attn.c_attn", "attn.c_attn", "attn.c_proj",
            ),
            embedding="transformer.wte",
            output="lm_head",
            positions=("transformer.wpe",),
        ),
        traits=frozenset(
            {"causal", "padding", "cache", "tied", "learned-positions", "layer-norm", "config",
             "dropout-modules", "gpt-init"}
        ),
        module_loss=True,
    )  # fmt: skip


def llama_like(name: str, implementation: str, **choices: Any) -> Host:
    """Llama and its relatives."""
    config, model = f"{name}Config", f"{name}ForCausalLM"
    build = builder(
        model,
        config,
        implementation,
        vocab_size=VOCAB_SIZE,
        hidden_size=WIDTH,
        num_hidden_layers=NUM_LAYERS,
        num_attention_heads=NUM_HEADS,
        num_key_value_heads=2,
        intermediate_size=FF,
        max_position_embeddings=LONGEST,
        **choices,
    )
    return Host(
        name=f"hf-{name.lower()}-{implementation}",
        kind="huggingface",
        family="decoder",
        make=lambda seed: seeded(seed, build),
        make_batch=text_batch,
        sites=self_sites("model.layers.{}.self_attn", "decoder"),
        reroute=reroute,
        predict=predict_next,
        source="input_ids",
        mask="attention_mask",
        decoding=TextDecoding(),
        rotate=rotate,
        residual=residual_before_norm(
            "model.layers.{}.post_attention_layernorm", "model.layers.{}.mlp"
        ),
        anatomy=Anatomy(
            layers=layer(*LLAMA_LAYER), embedding="model.embed_tokens", output="lm_head"
        ),
        traits=frozenset(
            {"causal", "padding", "left-padding", "cache", "rope", "rms", "gated", "config",
             "gpt-init"}
        ),
        module_loss=True,
    )  # fmt: skip


def pair_sites(stem: str, number: int) -> list[Site]:
    """BART's names."""
    return [
        Site(f"{stem}encoder.layers.{number}.self_attn", "encoder", number),
        Site(f"{stem}decoder.layers.{number}.self_attn", "decoder", number),
        Site(f"{stem}decoder.layers.{number}.encoder_attn", "cross", number),
    ]


def _bart(name: str, implementation: str, model: str, config: str, **choices: Any) -> Host:
    build = builder(
        model,
        config,
        implementation,
        vocab_size=VOCAB_SIZE,
        d_model=WIDTH,
        encoder_layers=NUM_LAYERS,
        decoder_layers=NUM_LAYERS,
        encoder_attention_heads=NUM_HEADS,
        decoder_attention_heads=NUM_HEADS,
        encoder_ffn_dim=FF,
        decoder_ffn_dim=FF,
        max_position_embeddings=LONGEST,
        decoder_start_token_id=BOS,
        scale_embedding=True,
        forced_eos_token_id=None,
        **choices,
    )
    decoder_norms = "self_attn_layer_norm encoder_attn_layer_norm final_layer_norm"
    traits = {"causal", "padding", "cross", "cache", "tied", "layer-norm", "post-norm", "config",
              "scaled-embedding"}  # fmt: skip
    return Host(
        name=f"hf-{name}-{implementation}",
        kind="huggingface",
        family="encoder_decoder",
        make=lambda seed: seeded(seed, build),
        make_batch=pair_batch,
        sites=lambda _: [s for n in range(NUM_LAYERS) for s in pair_sites("model.", n)],
        reroute=reroute,
        predict=predict_in_place,
        source="input_ids",
        target="decoder_input_ids",
        sharp=(1.5, 2.0, 0.3) if name == "marian" else (0.5, 2.0, 2.0),
        mask="attention_mask",
        decoding=PairDecoding(),
        anatomy=Anatomy(
            layers=layer("model.decoder.layers.{}", decoder_norms, *BART_LAYER),
            encoder_layers=layer(
                "model.encoder.layers.{}", "self_attn_layer_norm final_layer_norm", *BART_LAYER
            ),
            embedding="model.shared",
            output="lm_head",
            positions=("model.encoder.embed_positions", "model.decoder.embed_positions"),
        ),
        traits=frozenset(
            traits | {"sinusoidal"} if name == "marian" else traits | {"learned-positions"}
        ),
        module_loss=True,
    )


def _t5(implementation: str) -> Host:
    build = builder(
        "T5ForConditionalGeneration",
        "T5Config",
        implementation,
        vocab_size=VOCAB_SIZE,
        d_model=WIDTH,
        d_kv=8,
        d_ff=FF,
        num_layers=NUM_LAYERS,
        num_heads=NUM_HEADS,
        decoder_start_token_id=BOS,
    )

    def sites(module: nn.Module) -> list[Site]:
        found = []
        for number in range(NUM_LAYERS):
            block = f"block.{number}.layer"
            found.append(Site(f"encoder.{block}.0.SelfAttention", "encoder", number))
            found.append(Site(f"decoder.{block}.0.SelfAttention", "decoder", number))
            found.append(Site(f"decoder.{block}.1.EncDecAttention", "cross", number))
        return found

    attention = ("layer.0.SelfAttention.q", "layer.0.SelfAttention.k", "layer.0.SelfAttention.o")
    return Host(
        name=f"hf-t5-{implementation}",
        kind="huggingface",
        family="encoder_decoder",
        make=lambda seed: seeded(seed, build),
        make_batch=pair_batch,
        sites=sites,
        reroute=reroute,
        predict=predict_in_place,
        source="input_ids",
        target="decoder_input_ids",
        sharp=(0.5, 2.0, 2.0),
        mask="attention_mask",
        decoding=PairDecoding(),
        anatomy=Anatomy(
            layers=layer(
                "decoder.block.{}",
                "layer.0.layer_norm layer.1.layer_norm layer.2.layer_norm",
                "layer.2.DenseReluDense.wi",
                "layer.2.DenseReluDense.wo",
                *attention,
            ),
            encoder_layers=layer(
                "encoder.block.{}",
                "layer.0.layer_norm layer.1.layer_norm",
                "layer.1.DenseReluDense.wi",
                "layer.1.DenseReluDense.wo",
                *attention,
            ),
            embedding="shared",
            output="lm_head",
        ),
        traits=frozenset(
            {"causal", "padding", "cross", "cache", "tied", "relative", "rms", "relu", "config",
             "dropout-modules"}
        ),
        module_loss=True,
    )  # fmt: skip


BERT_OUTPUT = "cls.predictions.decoder"
HOSTS = (
    _bert("bert", "eager", "BertForMaskedLM", "BertConfig", "bert", output=BERT_OUTPUT),
    _bert("bert", "sdpa", "BertForMaskedLM", "BertConfig", "bert", output=BERT_OUTPUT),
    _bert(
        "roberta", "sdpa", "RobertaForMaskedLM", "RobertaConfig", "roberta",
        output="lm_head.decoder", extra_positions=2,
    ),
    _gpt2("eager"),
    _gpt2("sdpa"),
    llama_like("Llama", "eager"),
    llama_like("Llama", "sdpa"),
    _packed(llama_like("Llama", "sdpa")),
    _t5("eager"),
    _t5("sdpa"),
    _bart("marian", "sdpa", "MarianMTModel", "MarianConfig"),
    _bart("bart", "eager", "BartForConditionalGeneration", "BartConfig"),
)  # fmt: skip

"""gnomon's own models: an encoder-decoder, a decoder and an encoder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MethodType
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
from benchmarks.faults.hosts.text import BOS, LONGEST, PAD, VOCAB_SIZE, masked, rows, swapped
from torch import Tensor, nn

from gnomon.model import (
    AttentionConfig,
    EmbeddingConfig,
    FeedForwardConfig,
    NormConfig,
    PositionConfig,
    Transformer,
    TransformerConfig,
    attend,
)
from gnomon.model.masks import Mask
from gnomon.model.rope import Rotation

NUM_LAYERS = 2
SIZES: dict[str, Any] = {
    "vocab_size": VOCAB_SIZE,
    "d_model": 32,
    "num_encoder_layers": NUM_LAYERS,
    "num_decoder_layers": NUM_LAYERS,
    "feedforward": FeedForwardConfig(size=64),
    "dropout": 0.1,
}


def sites(module: nn.Module) -> list[Site]:
    """Self-attentions of the encoder and decoder, and cross-attentions."""
    found = []
    for stack in ("encoder", "decoder"):
        if getattr(module, stack) is None:
            continue
        for number, layer in enumerate(getattr(module, stack).layers):
            name = f"{stack}.layers.{number}"
            found.append(Site(f"{name}.attention", stack, number))
            if layer.cross is not None:
                found.append(Site(f"{name}.cross", "cross", number))
    return found


def reroute(module: nn.Module, site: Site, change: Change) -> None:
    """Exchange the `attend` method of one sublayer."""
    sublayer: Any = module.get_submodule(site.name)

    def native(call: Call) -> Tensor:
        T, S = call.query.shape[2], call.key.shape[2]
        limit = None if bool(call.keep.all()) else call.keep
        mask = Mask(T, S, call.query.device, limit=limit, bias=call.bias)
        return attend(
            call.query, call.key, call.value, mask, scale=call.scale, dropout=call.dropout
        )

    def exchanged(self: Any, query: Tensor, key: Tensor, value: Tensor, mask: Mask) -> Tensor:
        repeats = query.shape[1] // key.shape[1]
        keep = mask.combined
        if keep is None:
            keep = torch.ones(1, 1, query.shape[2], key.shape[2], dtype=torch.bool)
        call = Call(
            query,
            key.repeat_interleave(repeats, dim=1),
            value.repeat_interleave(repeats, dim=1),
            keep.expand(-1, -1, query.shape[2], -1),
            mask.bias,
            self.scale,
            self.dropout if self.training else 0.0,
            self.training,
            site,
        )
        output: Tensor = self.out(change(call, native).transpose(1, 2).flatten(2))
        return output

    sublayer.attend = MethodType(exchanged, sublayer)


class MixedRotation(Rotation):
    """The angles of neighbouring coordinates, applied to coordinate halves."""

    def turn(self, x: Tensor) -> Tensor:
        """Rotate heads `[B, heads, L, K]`."""
        cos, sin = (w.repeat_interleave(2, dim=-1) for w in (self.cos, self.sin))
        first, second = x.chunk(2, dim=-1)
        return x * cos + torch.cat((-second, first), dim=-1) * sin


def rotate(module: Any, exchanged: Callable[..., Tensor], mixed: bool) -> None:
    """Exchange the stack's angles."""
    stack = module.decoder
    kind = MixedRotation if mixed else Rotation

    def rotation(self: Any, positions: Tensor, *_: Any) -> Rotation:
        K = self.head_size
        angle = exchanged(positions, self.rope.theta ** (-torch.arange(0, K, 2) / K)).float()
        angle = angle.unsqueeze(1) if angle.dim() == 3 else angle
        return kind(angle.cos(), angle.sin())

    stack.rotation = MethodType(rotation, stack)


def residual(module: Any, layer: int, factor: float) -> None:
    """Weigh the residual path around the feed-forward."""
    stack = module.encoder if module.decoder is None else module.decoder
    stack.layers[layer].feedforward_residual.alpha = factor


def predict_translation(module: nn.Module, batch: Mapping[str, Tensor]) -> Prediction:
    """Teacher forcing: position t predicts token t + 1 of the target."""
    target = batch["target"]
    return Prediction(module(**batch)[:, :-1], target[:, 1:], target[:, 1:] != PAD)


def predict_next(module: nn.Module, batch: Mapping[str, Tensor]) -> Prediction:
    """Position t predicts token t + 1."""
    ids = batch["ids"]
    return Prediction(module(**batch)[:, :-1], ids[:, 1:], ids[:, 1:] != PAD)


def predict_masked(module: nn.Module, batch: Mapping[str, Tensor]) -> Prediction:
    """Hidden tokens are predicted at their own places."""
    inputs, places = masked(batch["ids"])
    return Prediction(module(**{**batch, "ids": inputs}), batch["ids"], places)


class TranslationDecoding:
    """The encoder once, then the decoder with gnomon's cache."""

    def start(self, module: Any, batch: Mapping[str, Tensor]) -> tuple[Any, Tensor]:
        """Encode the source, read BOS."""
        source = batch["ids"]
        keep = source != PAD
        state = {"cache": module.new_cache(), "memory": module.encode(source, keep), "keep": keep}
        return state, self.advance(module, state, source.new_full((len(source),), BOS))

    def advance(self, module: Any, state: Any, tokens: Tensor) -> Tensor:
        """One token more."""
        hidden = module.decode(
            tokens.unsqueeze(1), state["memory"], state["keep"], cache=state["cache"]
        )
        logits: Tensor = module.project(hidden[:, -1])
        return logits

    def reorder(self, state: Any, rows: Tensor) -> None:
        """All rows of the cache, the memory's too."""
        cache = state["cache"]
        for layer in cache.layers:
            layer.take_rows(rows)
            layer.take_memory(rows)
        cache.keep = None if cache.keep is None else cache.keep[rows]
        cache.memory_keep = None if cache.memory_keep is None else cache.memory_keep[rows]
        cache.memory_mask = None
        cache.num_groups = len(rows)
        state["memory"], state["keep"] = state["memory"][rows], state["keep"][rows]


class TextDecoding:
    """Prompt, then token by token; padding of the prompt is masked and not counted."""

    def start(self, module: Any, batch: Mapping[str, Tensor]) -> tuple[Any, Tensor]:
        """Read the prompt."""
        cache, keep = module.new_cache(), batch["ids"] != PAD
        hidden = module.decode(batch["ids"], keep=keep, cache=cache)
        return {"cache": cache}, last_real(module.project(hidden), keep)

    def advance(self, module: Any, state: Any, tokens: Tensor) -> Tensor:
        """One token more."""
        hidden = module.decode(tokens.unsqueeze(1), cache=state["cache"])
        logits: Tensor = module.project(hidden[:, -1])
        return logits

    def reorder(self, state: Any, rows: Tensor) -> None:
        """All rows of the cache."""
        cache = state["cache"]
        for layer in cache.layers:
            layer.take_rows(rows)
        cache.keep = None if cache.keep is None else cache.keep[rows]


def _layer(name: str, norms: tuple[str, ...]) -> Layer:
    return Layer(
        name,
        tuple(f"{name}.{norm}" for norm in norms),
        f"{name}.feedforward.up",
        f"{name}.feedforward.down",
        f"{name}.attention.query_key_value.weight",
        f"{name}.attention.query_key_value.weight",
        f"{name}.attention.out.weight",
        fused=True,
    )


def _layers(stack: str, *norms: str) -> tuple[Layer, ...]:
    return tuple(_layer(f"{stack}.layers.{number}", norms) for number in range(NUM_LAYERS))


def _make(**choices: Any) -> Any:
    config = TransformerConfig(**{**SIZES, **choices})
    return lambda seed: seeded(seed, lambda: Transformer(config))


def _pair(seed: int) -> Batch:
    source = rows(seed, first=False)
    target = torch.full((source.shape[0], source.shape[1] + 1), PAD)
    target[:, 0], target[:, 1:] = BOS, swapped(source)
    return {"ids": source, "target": target}


TRANSLATOR = Host(
    name="gnomon-translator",
    kind="gnomon",
    family="encoder_decoder",
    make=_make(attention=AttentionConfig(num_heads=4)),
    make_batch=_pair,
    sites=sites,
    reroute=reroute,
    predict=predict_translation,
    residual=residual,
    target="target",
    sharp=(0.5, 4.0, 4.0),
    decoding=TranslationDecoding(),
    anatomy=Anatomy(
        layers=_layers(
            "decoder",
            "attention_residual.norm_after",
            "cross_residual.norm_after",
            "feedforward_residual.norm_after",
        ),
        encoder_layers=_layers(
            "encoder", "attention_residual.norm_after", "feedforward_residual.norm_after"
        ),
        embedding="tables.source",
        positions=("source_embedding.position", "target_embedding.position"),
    ),
    traits=frozenset(
        {"causal", "padding", "cross", "cache", "scaled-embedding", "sinusoidal", "post-norm",
         "layer-norm", "relu", "zero-row", "config"}
    ),
)  # fmt: skip

DECODER = Host(
    name="gnomon-decoder",
    kind="gnomon",
    family="decoder",
    make=_make(
        family="decoder",
        attention=AttentionConfig(num_heads=4, num_key_value_heads=2),
        norm=NormConfig(kind="rms", placement="pre"),
        position=PositionConfig(kind="rope"),
        embedding=EmbeddingConfig(scale=False),
        feedforward=FeedForwardConfig(size=64, activation="swish", gated=True, bias=False),
    ),
    make_batch=lambda seed: {"ids": rows(seed)},
    sites=sites,
    reroute=reroute,
    predict=predict_next,
    residual=residual,
    decoding=TextDecoding(),
    rotate=rotate,
    anatomy=Anatomy(
        layers=_layers(
            "decoder", "attention_residual.norm_before", "feedforward_residual.norm_before"
        ),
        embedding="tables.target",
    ),
    traits=frozenset({"causal", "cache", "rope", "rms", "gated", "config"}),
)

ENCODER = Host(
    name="gnomon-encoder",
    kind="gnomon",
    family="encoder",
    make=_make(
        family="encoder",
        attention=AttentionConfig(num_heads=4, bias_query_key=True, bias_value=True, bias_out=True),
        position=PositionConfig(kind="learned", max_length=LONGEST),
        embedding=EmbeddingConfig(scale=False, norm=True),
        feedforward=FeedForwardConfig(size=64, activation="gelu"),
    ),
    make_batch=lambda seed: {"ids": rows(seed)},
    sites=sites,
    reroute=reroute,
    predict=predict_masked,
    residual=residual,
    anatomy=Anatomy(
        layers=_layers(
            "encoder", "attention_residual.norm_after", "feedforward_residual.norm_after"
        ),
        embedding="tables.source",
        positions=("source_embedding.position",),
    ),
    traits=frozenset(
        {"padding", "learned-positions", "post-norm", "layer-norm", "zero-row", "config"}
    ),
)

HOSTS = (TRANSLATOR, DECODER, ENCODER)

"""Hugging Face architectures beside those of the development hosts."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.faults.host import Anatomy, Host, seeded
from benchmarks.faults.hosts.huggingface import (
    FF,
    NUM_HEADS,
    NUM_LAYERS,
    WIDTH,
    builder,
    layer,
    llama_like,
    masked_batch,
    predict_in_place,
    reroute,
    self_sites,
)
from benchmarks.faults.hosts.text import LONGEST, VOCAB_SIZE


def _distilbert() -> Host:
    build = builder(
        "DistilBertForMaskedLM",
        "DistilBertConfig",
        "sdpa",
        vocab_size=VOCAB_SIZE,
        dim=WIDTH,
        n_layers=NUM_LAYERS,
        n_heads=NUM_HEADS,
        hidden_dim=FF,
        max_position_embeddings=LONGEST,
    )
    return Host(
        name="hf-distilbert-sdpa",
        kind="huggingface",
        family="encoder",
        make=lambda seed: seeded(seed, build),
        make_batch=masked_batch,
        sites=self_sites("distilbert.transformer.layer.{}.attention", "encoder"),
        reroute=reroute,
        predict=predict_in_place,
        source="input_ids",
        mask="attention_mask",
        anatomy=Anatomy(
            layers=layer(
                "distilbert.transformer.layer.{}",
                "sa_layer_norm output_layer_norm",
                "ffn.lin1",
                "ffn.lin2",
                "attention.q_lin",
                "attention.k_lin",
                "attention.out_lin",
            ),
            embedding="distilbert.embeddings.word_embeddings",
            output="vocab_projector",
            positions=("distilbert.embeddings.position_embeddings",),
        ),
        traits=frozenset(
            {"padding", "tied", "learned-positions", "layer-norm", "post-norm", "config",
             "dropout-modules", "gpt-init"}
        ),
        module_loss=True,
    )  # fmt: skip


HOSTS = tuple(
    replace(host, held_out=True)
    for host in (
        _distilbert(),
        llama_like("Qwen2", "sdpa"),
        llama_like("Mistral", "eager", sliding_window=None),
    )
)

"""The architectures that can be taken in, by `model_type`."""

from __future__ import annotations

from gnomon.errors import ModelError
from gnomon.interop.architecture import Architecture
from gnomon.interop.bart import BART, MBART
from gnomon.interop.bert import BERT
from gnomon.interop.distilbert import DISTILBERT
from gnomon.interop.electra import ELECTRA
from gnomon.interop.gpt2 import GPT2
from gnomon.interop.llama import LLAMA, MISTRAL, PHI3, QWEN2, QWEN3
from gnomon.interop.marian import MARIAN
from gnomon.interop.opt import OPT
from gnomon.interop.roberta import CAMEMBERT, ROBERTA, XLM_ROBERTA
from gnomon.interop.t5 import MT5, T5

ARCHITECTURES = {
    each.model_type: each
    for each in (
        BERT,
        DISTILBERT,
        ROBERTA,
        XLM_ROBERTA,
        CAMEMBERT,
        ELECTRA,
        GPT2,
        LLAMA,
        MISTRAL,
        QWEN2,
        QWEN3,
        PHI3,
        OPT,
        MARIAN,
        BART,
        MBART,
        T5,
        MT5,
    )
}

# What others compute that gnomon's blocks do not.
MISSING = {
    "albert": "one layer's weights in all layers, embeddings narrower than the model",
    "bloom": "queries, keys and values joined head by head",
    "deberta": "attention from words to distances and back (disentangled)",
    "deberta-v2": "attention from words to distances and back (disentangled)",
    "falcon": "attention and feed-forward side by side in a layer",
    "gemma": "norms that multiply by 1 + weight",
    "gemma2": "norms that multiply by 1 + weight, scores that are capped",
    "gemma3": "norms that multiply by 1 + weight",
    "gemma3_text": "norms that multiply by 1 + weight",
    "gpt_neo": "a window in every second layer only",
    "gpt_neox": "attention and feed-forward side by side in a layer, rotary positions of a part of "
    "each head",
    "gptj": "attention and feed-forward side by side in a layer, rotary positions of a part of "
    "each head",
    "longformer": "projections of their own for global tokens",
    "m2m_100": "sinusoidal positions that begin behind the padding's own",
    "mixtral": "a choice of experts in each layer",
    "modernbert": "windows in some layers with rotary positions of their own, no first norm",
    "mpnet": "distances' biases shared by all layers beside learned positions",
    "phi": "attention and feed-forward side by side in a layer, rotary positions of a part of "
    "each head",
    "qwen3_moe": "a choice of experts in each layer",
    "umt5": "relative positions of each layer's own",
    "xlnet": "attention over permutations with relative positions",
}


def architecture_of(model_type: object, place: str) -> Architecture:
    """The architecture of that name.

    Raises:
        ModelError: it is not one of those that can be taken in.
    """
    if not isinstance(model_type, str) or model_type not in ARCHITECTURES:
        raise ModelError(
            "a model that is taken in is of an architecture that gnomon's blocks express",
            seen=f"{place}: model_type = {model_type!r}"
            + (f", which has {missing}" if (missing := MISSING.get(str(model_type))) else ""),
            mend=f"these can be: {', '.join(ARCHITECTURES)}",
        )
    return ARCHITECTURES[model_type]

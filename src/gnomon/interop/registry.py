"""The architectures that can be taken in, by `model_type`."""

from __future__ import annotations

from gnomon.errors import ModelError
from gnomon.interop.architecture import Architecture
from gnomon.interop.bart import BART
from gnomon.interop.bert import BERT
from gnomon.interop.distilbert import DISTILBERT
from gnomon.interop.gpt2 import GPT2
from gnomon.interop.llama import LLAMA, MISTRAL, QWEN2
from gnomon.interop.marian import MARIAN
from gnomon.interop.roberta import ROBERTA, XLM_ROBERTA
from gnomon.interop.t5 import T5

ARCHITECTURES = {
    each.model_type: each
    for each in (
        BERT,
        DISTILBERT,
        ROBERTA,
        XLM_ROBERTA,
        GPT2,
        LLAMA,
        MISTRAL,
        QWEN2,
        MARIAN,
        BART,
        T5,
    )
}


def architecture_of(model_type: object, place: str) -> Architecture:
    """The architecture of that name.

    Raises:
        ModelError: it is not one of those that can be taken in.
    """
    if not isinstance(model_type, str) or model_type not in ARCHITECTURES:
        raise ModelError(
            "a model that is taken in is of an architecture that gnomon's blocks express",
            seen=f"{place}: model_type = {model_type!r}",
            mend=f"these can be: {', '.join(ARCHITECTURES)}",
        )
    return ARCHITECTURES[model_type]

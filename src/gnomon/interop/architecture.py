"""What one foreign architecture is: its config.json and its tensors, in our terms and back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from gnomon.interop.keys import Keys
from gnomon.interop.label_heads import LabelHead
from gnomon.interop.parts import Parts
from gnomon.model import TransformerConfig

Task = Literal["encoder", "language_model", "translation"]

# Names of activations there and here.
ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "silu": "swish",
    "swish": "swish",
}
ACTIVATIONS_BACK = {"relu": "relu", "gelu": "gelu", "gelu_tanh": "gelu_new", "swish": "silu"}


def _none(config: TransformerConfig) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """One `model_type`.

    Attributes:
        model_type: its name in config.json.
        task: what an imported model is for.
        prefix: of the base model's tensors; a checkpoint of the base model alone goes without.
        read: our configuration, from the keys and the names of the tensors that are there (the
            base model's with their prefix).
        write: the keys that say what our configuration says.
        parts: names every tensor.
        aliases: names under which a tensor may be stored once more, and ours that they repeat.
        sinusoids: tables of positions that we compute; stored ones must be just those.
        kept: patterns (regular expressions) of tensors that the model does not need and that are
            kept for the way back: heads of other tasks, buffers.
        classes: the classes to name in an exported config.json, with head and without.
        label_heads: the classes that give labels.
        without_head: patterns of tensors that a class with labels does not use.
    """

    model_type: str
    task: Task
    prefix: str
    read: Callable[[Keys, Collection[str]], TransformerConfig]
    write: Callable[[TransformerConfig], dict[str, Any]]
    parts: Callable[[Parts], None]
    classes: tuple[str, str]
    aliases: Callable[[TransformerConfig], Mapping[str, str]] = _none
    sinusoids: Sequence[str] = ()
    kept: Sequence[str] = ()
    label_heads: Sequence[LabelHead] = ()
    without_head: Sequence[str] = ()
